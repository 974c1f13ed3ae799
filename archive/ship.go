package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// sweepEvery is how often what is too old is removed.
const sweepEvery = time.Hour

// readsEach is how often the log is read while a segment gathers.
const readsEach = 8

// A shipper stores what the log says, from a place on. All of it is the Writer's goroutine's, but for the job.
type shipper struct {
	w     *Writer
	claim *claim
	at    place

	segment *builder // the one that gathers, or is on its way

	log     []numbered // the segments of the lineage, in order
	known   known      // tables that are in the bucket
	made    *baseList  // a base that isn't stored yet, though its tables are; nil for none
	since   int64      // bytes of segments since the last base
	base    int64      // bytes of its files
	based   time.Time  // when it was made
	checked time.Time  // when the claim was
	swept   time.Time  // when what is too old was removed
	unheld  int        // segments since the hold was durable
	job     *job       // in the background, nil for none
}

// A job is done in the background: at most one at a time.
type job struct {
	stop context.CancelFunc
	done chan struct{}
	err  error
	then func(*shipper) // takes in what it has done
}

// begin begins a lineage with a base.
func (s *shipper) begin(ctx context.Context) error {
	s.at = place{line: s.claim.epoch}
	if err := s.hold(true); err != nil {
		return err
	}
	if err := s.know(ctx); err != nil {
		return err
	}
	l, err := s.w.makeBase(ctx, s.known, 0)
	if err == nil {
		err = s.w.storeBase(ctx, s.at.line, l)
	}
	if errors.Is(err, errNoBase) {
		// It may be stored yet, and the segments behind another one wouldn't follow it.
		err = fmt.Errorf("%w: %w", errAnew, err)
	}
	if err != nil {
		return err
	}
	s.took(l)
	s.at.last, s.at.sum, s.at.ms = l.Number, l.LastSum, l.Time.UnixMilli()
	// The store knows before the lineage is there that it is its own, also if it crashes then.
	if err := s.hold(true); err != nil {
		return err
	}
	return s.claim.begin(ctx, s.at.line)
}

// know finds out which tables are in the bucket when a lineage begins: those of the last one.
func (s *shipper) know(ctx context.Context) error {
	return s.w.retry(ctx, func() error {
		lines, err := readLines(ctx, s.w.bucket)
		if err != nil || len(lines) == 0 {
			return err
		}
		bases, err := readBases(ctx, s.w.bucket, lines[len(lines)-1].number)
		if err != nil || len(bases) == 0 {
			return err
		}
		l, err := readBase(ctx, s.w.bucket, bases[len(bases)-1].name)
		if errors.Is(err, kv.ErrCorrupt) {
			return nil // all of them are asked for
		}
		if err == nil {
			s.known = knownOf(l, false)
		}
		return err
	})
}

// goOn reads what the lineage has, to go on with it.
func (s *shipper) goOn(ctx context.Context) error {
	return s.w.retry(ctx, func() (err error) {
		if s.log, err = readLog(ctx, s.w.bucket, s.at.line); err != nil {
			return err
		}
		bases, err := readBases(ctx, s.w.bucket, s.at.line)
		if err != nil || len(bases) == 0 {
			return err
		}
		l, err := readBase(ctx, s.w.bucket, bases[len(bases)-1].name)
		if errors.Is(err, kv.ErrCorrupt) {
			s.w.o.Logger.Error("archive: the last base is damaged; another one is made", "error", err)
			s.since = math.MaxInt64 / 2
			return nil
		}
		if err != nil {
			return err
		}
		s.took(l)
		// The names of the base may not be the store's: Erase may have made it, or the store is a copy of the one that did.
		s.known = knownOf(l, false)
		for _, seg := range s.log {
			if seg.first > l.Number {
				s.since += seg.size
			}
		}
		return nil
	})
}

// took takes in a base that is stored.
func (s *shipper) took(l *baseList) {
	s.since, s.base, s.based = 0, l.bytes(), l.Time
	s.known = knownOf(l, true)
}

// hold keeps the log of the store from the last record on that is in the bucket: that one shows that the store is the one of the lineage.
func (s *shipper) hold(durable bool) error {
	own := owner{s.claim.manifest.ID, s.at.line, s.claim.left}
	h := pebblekv.Held{From: max(1, s.at.last), Most: s.w.o.MaxLocal}
	if s.at.last == 0 && s.based.IsZero() { // the first base is still to come
		h.From, own.line = max(1, s.w.records.Last()), 0
	}
	h.For = own.String()
	return s.w.records.Hold(h, durable)
}

// follow stores segments until something ends that.
func (s *shipper) follow(ctx context.Context) error {
	in, err := s.w.records.Follow(s.at.last + 1)
	if err != nil {
		return err
	}
	defer in.Close() // it was only read
	for {
		b, err := s.gather(ctx, in)
		if err == nil && b.last > 0 {
			err = s.ship(ctx, b)
		}
		if err == nil {
			err = s.tend(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// gather reads the records of a segment: all that come within a time, which Sync cuts short. It returns one without records if none come.
// It reads those that are there, and looks again a while later: to read each when it comes would wake the Writer with each fsync.
func (s *shipper) gather(ctx context.Context, in *pebblekv.Follower) (*builder, error) {
	w, b := s.w, s.segment
	b.reset(s.at.sum)
	b.latest = s.at.ms
	until, cancel := context.WithTimeout(ctx, w.o.Every)
	defer cancel()
	if w.hurried(cancel, s.at.last) {
		cancel()
	}
	upto := w.records.Synced()
	for synced := false; b.size < w.o.segmentBytes; {
		r, err := in.Next(until)
		if err == nil {
			if r.Number > upto {
				_ = sleep(until, w.o.Every/readsEach) // Next says why, if it was cut short
				upto = w.records.Synced()
			}
			if err = b.add(r, s.timeOf(r, b)); err != nil {
				return nil, err
			}
			continue
		}
		if over := until.Err(); over == nil || !errors.Is(err, over) || ctx.Err() != nil {
			return nil, err
		}
		if last := w.records.Last(); synced || last <= w.records.Synced() {
			if b.last == 0 {
				w.update(func(st *Status) { st.since = w.o.now() })
			}
			break
		}
		// Nothing else may wait for those commits.
		if err := w.db.Sync(ctx, 0); err != nil {
			return nil, err
		}
		synced = true
	}
	return b, nil
}

// timeOf returns when a record was made, in ms: no earlier than the one before.
func (s *shipper) timeOf(r pebblekv.Record, b *builder) int64 {
	at := b.latest
	if !r.Time.IsZero() {
		at = max(at, r.Time.UnixMilli())
	}
	if at == 0 {
		at = s.w.o.now().UnixMilli()
	}
	return at
}

// hurried reports whether Sync waits for records behind a number, and lets it call cut when it does.
func (w *Writer) hurried(cut func(), behind uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	return w.want > behind
}

// ship stores a segment.
func (s *shipper) ship(ctx context.Context, b *builder) error {
	w, data := s.w, b.encode(s.w.fast)
	name := firstName(s.at.line, b.first)
	err := w.put(ctx, name, data, bucket.Once)
	if errors.Is(err, bucket.ErrExists) {
		err = s.stored(ctx, name, data)
	}
	if err != nil {
		return err
	}
	s.log = append(s.log, numbered{name, b.first, b.last, int64(len(data)), int64(b.size)})
	s.since += int64(len(data))
	s.at.last, s.at.sum, s.at.ms = b.last, b.lastSum, b.latest
	s.unheld++
	durable := s.unheld >= holdEvery
	if durable {
		s.unheld = 0
	}
	if err := s.hold(durable); err != nil { // the disk is full, maybe: the store keeps more of its log until another time
		w.o.Logger.Warn("archive: the store doesn't know yet what is in the backup", "error", err)
	}
	now := w.o.now()
	w.meter.Observe(metricLag, now.Sub(time.UnixMilli(b.firstTime)))
	w.update(func(st *Status) {
		st.Stored = b.last
		if w.records.Last() <= b.last {
			st.since = now
		} else {
			st.since = time.UnixMilli(b.latest)
		}
	})
	return nil
}

// stored returns nil if an object has these bytes: what stored it before, and seemed to fail.
func (s *shipper) stored(ctx context.Context, name string, data []byte) error {
	var is []byte
	err := s.w.retry(ctx, func() (err error) {
		is, _, err = bucket.GetBytes(ctx, s.w.bucket, name, 0, -1)
		if errors.Is(err, fs.ErrNotExist) { // another Writer has put it together with others
			is, err = nil, nil
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case bytes.Equal(is, data):
		return nil
	}
	if err := s.claim.check(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: something else has stored %s", errAnew, name)
}

// tend does what is due besides: it looks for another Writer, makes bases, puts segments together, removes what is too old.
func (s *shipper) tend(ctx context.Context) error {
	w, now := s.w, s.w.o.now()
	if now.Sub(s.checked) >= fenceEvery {
		if err := s.claim.check(ctx); err != nil {
			return err
		}
		s.checked = now
	}
	if j := s.job; j != nil {
		select {
		case <-j.done:
		default:
			return nil
		}
		s.job = nil
		if errors.Is(j.err, errNoBase) {
			w.o.Logger.Warn("archive: no base was made", "error", j.err)
			s.based = now.Add(-w.o.baseEvery + maxSilence) // again a while later
			return nil
		}
		if errors.Is(j.err, errMoved) {
			w.o.Logger.Warn("archive: segments were removed meanwhile", "error", j.err)
			return w.retry(ctx, func() (err error) {
				s.log, err = readLog(ctx, w.bucket, s.at.line)
				return err
			})
		}
		if j.err != nil {
			return j.err
		}
		j.then(s)
	}
	if err := s.storeMade(ctx); err != nil {
		return err
	}
	switch {
	case s.made == nil && (s.since > max(int64(w.o.baseBytes), s.base/baseShare) || s.since > 0 && now.Sub(s.based) >= w.o.baseEvery):
		last := s.at.ms // the clock may have gone back since
		s.start(ctx, func(ctx context.Context) (func(*shipper), error) {
			l, err := w.makeBase(ctx, s.known, last)
			return func(s *shipper) { s.made = l }, err
		})
	default:
		if run := toMerge(s.log, w.o.mergeRuns); run != nil {
			s.start(ctx, func(ctx context.Context) (func(*shipper), error) {
				if err := w.weigh(ctx, run); err != nil {
					return nil, err
				}
				if len(toMerge(run, w.o.mergeRuns)) < len(run) { // now that it is known how large they are
					return func(s *shipper) { s.log = replace(s.log, run, run...) }, nil
				}
				one, err := w.merge(ctx, s.at.line, run)
				return func(s *shipper) { s.log = replace(s.log, run, one) }, err
			})
		} else if w.o.Keep > 0 && now.Sub(s.swept) >= sweepEvery {
			s.swept = now
			s.start(ctx, func(ctx context.Context) (func(*shipper), error) {
				c, err := Collect(ctx, w.bucket, now.Add(-w.o.Keep))
				if err != nil && !final(err) {
					w.o.Logger.Warn("archive: what is too old couldn't be removed", "error", err)
					err = nil
				}
				return func(s *shipper) { s.log = c.left(s.at.line, s.log) }, err
			})
		}
	}
	if s.job == nil && s.made == nil {
		w.update(func(st *Status) { st.settled++ })
	}
	return nil
}

// storeMade stores a base that was made, once the lineage has all its records. They show that no other Writer goes on with the lineage, as that
// of a copy of the store does from the last record that is stored: the records behind that one, which such a base has, are others there.
func (s *shipper) storeMade(ctx context.Context) error {
	if s.made == nil || s.made.Number > s.at.last {
		return nil
	}
	if err := s.w.storeBase(ctx, s.at.line, s.made); err != nil {
		return err
	}
	s.took(s.made)
	s.made = nil
	return nil
}

// start starts a job.
func (s *shipper) start(ctx context.Context, do func(context.Context) (func(*shipper), error)) {
	ctx, stop := context.WithCancel(ctx)
	j := &job{stop: stop, done: make(chan struct{})}
	s.job = j
	go func() {
		defer close(j.done)
		defer stop()
		j.then, j.err = do(ctx)
	}()
}

// end ends the job.
func (s *shipper) end() {
	if s.job != nil {
		s.job.stop()
		<-s.job.done
	}
}
