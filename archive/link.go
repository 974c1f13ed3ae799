package archive

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/metrics"
)

// Options say how a Writer works. The zero Options is fine.
type Options struct {
	// Every is how long a commit waits for others before it leaves with them; 0 means a second.
	Every time.Duration
	// Keep is for how long states are kept, at least; 0 means 30 days, a negative one for ever.
	Keep time.Duration
	// MaxLocal is how many bytes of the log the store keeps while the bucket can't be reached; 0 means 1 GiB. If that isn't enough the
	// history has a gap, and goes on with a new lineage.
	MaxLocal int64
	// TakeOver lets the Writer begin, with a lineage of its own, where another store has its backups, or where the store had its own until it went
	// on in another destination. Without it that is ErrOtherStore, or ErrElsewhere.
	TakeOver bool
	// Store is what epochs say of where the store is.
	Store string
	// Logger is told of what goes wrong, and when it goes on; it may be nil.
	Logger *slog.Logger
	// Metrics is told what Metrics() lists; it may be nil.
	Metrics metrics.Sink

	// These are for tests, in place of what is right for others.
	now                                func() time.Time
	sleep                              func(context.Context, time.Duration) error
	segmentBytes, baseBytes, mergeRuns int
	baseEvery                          time.Duration
}

// What Options leaves at zero.
const (
	DefaultKeep  = 30 * 24 * time.Hour
	DefaultLocal = 1 << 30
)

const (
	defaultEvery = time.Second
	// segmentBytes is how many bytes of records a segment has at most, but for one with a larger record.
	segmentBytes = 8 << 20
	// baseBytes and baseShare are after how many bytes of segments another base is made, the larger of: so many, and the last
	// one's tables by so much.
	baseBytes = 64 << 20
	baseShare = 4
	// baseEvery is after what time one is made if there was a commit.
	baseEvery = 24 * time.Hour
	// minPause and maxPause bound how long the Writer waits after an error of the bucket.
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
	// fenceEvery is how often a Writer looks for another one.
	fenceEvery = 10 * time.Second
	// holdEvery is after how many segments a crash of the machine doesn't have the log read again.
	holdEvery = 32
)

// A Status is what a Writer has done, and what keeps it from more.
type Status struct {
	// Line is the lineage, 0 before the Writer has begun.
	Line uint64
	// Stored is the number of the last commit that is in the bucket, with all before it, and Last that of the last one of the store.
	Stored, Last uint64
	// Lag is since when a commit isn't in the bucket, 0 if all are.
	Lag time.Duration
	// Behind is how many bytes the files of the store's log have in which those commits are that aren't in the bucket, or a little more.
	Behind int64
	// Base is how many bytes the tables of the base that is being made have that are still to be compared with those in the bucket, or to be stored there.
	Base int64
	// Objects and Bytes are how much was stored.
	Objects, Bytes int64
	// Err is the last error of the bucket, nil if what came after it went well. The Writer tries again.
	Err error
	// Fatal is why the Writer has ended for good, nil if it hasn't.
	Fatal error

	since   time.Time // when all was in the bucket, for Lag
	first   uint64    // the first state of the lineage, if the Writer has begun it
	settled uint64    // how often nothing was due, for Settle
}

// A link is a store and the bucket to which it is backed up. Its methods are safe for concurrent use.
type link struct {
	db      *pebblekv.DB
	records *pebblekv.Records
	bucket  bucket.Bucket
	o       Options
	meter   metrics.Meter
	fast    *zstd.Encoder

	mu     sync.Mutex
	status Status        // +checklocks:mu
	news   chan struct{} // closed when status changes  +checklocks:mu
}

// newLink returns the link of a store, if there is one, and a bucket.
func newLink(db *pebblekv.DB, b bucket.Bucket, opts *Options) (*link, error) {
	if opts == nil {
		opts = &Options{}
	}
	fast, err := newFast()
	if err != nil {
		return nil, err
	}
	o := *opts
	o.Every, o.Keep, o.MaxLocal = cmp.Or(o.Every, defaultEvery), cmp.Or(o.Keep, DefaultKeep), cmp.Or(o.MaxLocal, DefaultLocal)
	o.segmentBytes, o.baseBytes, o.baseEvery = cmp.Or(o.segmentBytes, segmentBytes), cmp.Or(o.baseBytes, baseBytes), cmp.Or(o.baseEvery, baseEvery)
	o.mergeRuns = cmp.Or(o.mergeRuns, mergeRuns)
	if o.now == nil {
		o.now = time.Now
	}
	if o.sleep == nil {
		o.sleep = sleep
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &link{db: db, bucket: b, o: o, meter: metrics.Meter{To: o.Metrics}, fast: fast, news: make(chan struct{})}
	if db != nil {
		l.records = db.Records()
	}
	return l, nil
}

// update changes the status.
func (l *link) update(change func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.status)
	close(l.news)
	l.news = make(chan struct{})
}

// errAnew says that a lineage can't go on.
var errAnew = errors.New("archive: another lineage has to begin")

// retry calls fn until it returns nil, or an error that another call wouldn't mend. It waits longer each time.
func (l *link) retry(ctx context.Context, fn func() error) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := fn()
		if err == nil {
			l.mu.Lock()
			was := l.status.Err
			l.mu.Unlock()
			if was != nil {
				l.o.Logger.Info("archive: the bucket answers again")
				l.update(func(s *Status) { s.Err = nil })
			}
			return nil
		}
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if final(err) {
			return err
		}
		l.meter.Count(metricErrors, 1)
		l.o.Logger.Warn("archive: the bucket has failed; the backup tries again", "error", err)
		l.update(func(s *Status) { s.Err = err })
		if err := l.o.sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return err
		}
	}
}

// final reports whether an error stays.
func final(err error) bool {
	for _, is := range []error{errAnew, errNoBase, errMoved, bucket.ErrExists, bucket.ErrName, ErrFenced, ErrOtherStore, ErrNotArchive, ErrEncrypted, kv.ErrClosed, kv.ErrPoisoned, kv.ErrNewerFormat, pebblekv.ErrGone} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// put stores an object, whatever it takes.
func (l *link) put(ctx context.Context, name string, data []byte, how bucket.How) error {
	err := l.retry(ctx, func() error { return bucket.PutBytes(ctx, l.bucket, name, data, how) })
	if err == nil {
		l.stored(int64(len(data)))
	}
	return err
}

// stored counts an object.
func (l *link) stored(bytes int64) {
	l.meter.Count(metricObjects, 1)
	l.meter.Count(metricBytes, bytes)
	l.update(func(s *Status) { s.Objects, s.Bytes = s.Objects+1, s.Bytes+bytes })
}

// record reads a record of the log, which is on stable storage then.
func (l *link) record(ctx context.Context, number uint64) (r pebblekv.Record, err error) {
	if number > l.records.Last() {
		return r, pebblekv.ErrGone
	}
	if err := l.db.Sync(ctx, 0); err != nil {
		return r, err
	}
	in, err := l.records.Follow(number)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r, err = in.Next(ctx)
	r.Batch = append([]byte(nil), r.Batch...)
	return r, err
}

// sleep waits for a time.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
