package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A Writer backs up a store that is open. Its methods are safe for concurrent use.
type Writer struct {
	*link
	stop context.CancelFunc
	done chan struct{}

	want uint64 // up to which record Sync waits  +checklocks:mu
	cut  func() // ends waiting for more records, if it isn't nil  +checklocks:mu
}

// errEngine says that a store can't be backed up here.
var errEngine = errkind.New("archive: only a store in a directory, which is open for writing, can be backed up", errkind.ErrUnsupported)

// Start begins to back up a store to a bucket, in the background, until Close. It doesn't wait for the bucket: Status and Sync tell how
// it goes.
//
// The Writer must be closed before the store is. The error is of the kind errkind.ErrUnsupported if engine isn't a *pebblekv.DB, or open
// for reading alone.
func Start(engine kv.Engine, b bucket.Bucket, opts *Options) (*Writer, error) {
	db, ok := engine.(*pebblekv.DB)
	if !ok || db.Records() == nil {
		return nil, errEngine
	}
	to, err := newLink(db, bucket.Bounded(b), opts)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Writer{link: to, stop: stop, done: make(chan struct{})}
	w.status.since = to.o.now()
	held := w.records.Held()
	if held.From == 0 {
		held.From = max(1, w.records.Last())
	}
	held.Most = to.o.MaxLocal
	if err := w.records.Hold(held, true); err != nil {
		stop()
		return nil, err
	}
	db.Shared().Store(writerKey{}, w)
	go w.run(ctx)
	return w, nil
}

// writerKey is where the Writer of a store is in the map that users of its engine share.
type writerKey struct{}

// Of returns the Writer that backs the store of an engine up, from its Start to its Close, nil for none.
func Of(engine kv.Engine) *Writer {
	shared := kv.Shared(engine)
	if shared == nil {
		return nil
	}
	w, _ := shared.Load(writerKey{})
	of, _ := w.(*Writer)
	return of
}

// Archive opens the backups that the Writer writes, for reading, with every commit in them that was made before. Errors are those of Sync and of Open.
func (w *Writer) Archive(ctx context.Context) (*Archive, error) {
	if err := w.Sync(ctx); err != nil {
		return nil, err
	}
	return Open(ctx, w.bucket)
}

// Status returns how it goes.
func (w *Writer) Status() Status {
	last := w.records.Last()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.status
	s.Last = max(last, s.Stored)
	if s.Line == 0 || s.Last > s.Stored {
		s.Lag, s.Behind = max(0, w.o.now().Sub(s.since)), w.records.SizeFrom(s.Stored+1)
	}
	return s
}

// Sync returns when every commit is in the bucket that was made before it. Errors: that of ctx, with that of the bucket if there is one, and
// Status.Fatal.
func (w *Writer) Sync(ctx context.Context) error {
	_, err := w.wait(ctx, w.records.Last())
	return err
}

// wait returns when the records up to a number are in the bucket, and the status then.
func (w *Writer) wait(ctx context.Context, last uint64) (Status, error) {
	w.mu.Lock()
	if last > w.want {
		w.want = last
		if w.cut != nil {
			w.cut()
		}
	}
	for {
		s, news := w.status, w.news
		w.mu.Unlock()
		switch {
		case s.Fatal != nil:
			return s, s.Fatal
		case s.Line > 0 && s.Stored >= last:
			return s, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return s, errors.Join(ctx.Err(), s.Err)
		}
		w.mu.Lock()
	}
}

// Settle returns when what is due besides is done, too: a base, segments that are put together, what is too old removed. It begins with Sync. So
// a Writer is to end which runs now and then alone; one that runs all the time does these in between. Errors are those of Sync.
func (w *Writer) Settle(ctx context.Context) error {
	if err := w.Sync(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	settled := w.status.settled
	for {
		s, news := w.status, w.news
		w.mu.Unlock()
		switch {
		case s.Fatal != nil:
			return s.Fatal
		case s.settled > settled:
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.Err)
		}
		w.mu.Lock()
	}
}

// Close ends the Writer. What isn't in the bucket yet stays in the log of the store, and leaves when another Writer begins; see Sync.
//
// It doesn't wait for a call of the bucket that hangs: such a call may be done later, as one may that has failed, and another Writer expects that. It
// reads nothing of the store then.
func (w *Writer) Close() error {
	last := w.db.Shared().CompareAndDelete(writerKey{}, w)
	w.stop()
	<-w.done
	if last {
		w.letGo()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Fatal
}

// letGo keeps nothing of the log of a store that was never backed up: another Writer begins with a base, and there may be none.
func (w *Writer) letGo() {
	held := w.records.Held()
	if parseOwner(held.For).line > 0 || held.From == 0 {
		return
	}
	if err := w.records.Hold(pebblekv.Held{For: held.For}, true); err != nil {
		w.o.Logger.Warn("archive: the store keeps its log, although it isn't backed up", "error", err)
	}
}

// run is the Writer's goroutine.
func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	for {
		err := w.session(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errAnew):
			w.o.Logger.Warn("archive: the history of the store has a gap, or another store has its backups here", "cause", err)
			if w.o.sleep(ctx, minPause) != nil { // what has ended a lineage may end the next one, too
				return
			}
		default:
			w.o.Logger.Error("archive: the backup has ended", "error", err)
			w.update(func(s *Status) { s.Fatal = err })
			return
		}
	}
}

// session claims the destination and backs up until something ends that.
func (w *Writer) session(ctx context.Context) error {
	c := &claim{link: w.link}
	if err := c.take(ctx); err != nil {
		return err
	}
	at, err := c.goOn(ctx)
	if err != nil {
		return err
	}
	s := &shipper{w: w, claim: c, at: at, segment: newBuilder(at.sum)}
	defer s.end()
	first := uint64(0)
	if at.line == 0 {
		err = s.begin(ctx)
		first = s.at.last
	} else {
		err = s.goOn(ctx)
	}
	if err == nil {
		w.update(func(st *Status) { st.Line, st.Stored, st.first = s.at.line, s.at.last, first })
		err = s.follow(ctx)
	}
	if errors.Is(err, pebblekv.ErrGone) || errors.Is(err, bucket.ErrExists) {
		err = fmt.Errorf("%w: %w", errAnew, err)
	}
	return err
}

// Bookmark returns the bookmark of the state that the store has now, with every commit that was made before, when it is in the bucket. If a
// lineage begins meanwhile it is the first state of that. Errors are those of Sync.
func (w *Writer) Bookmark(ctx context.Context) (Bookmark, error) {
	last := w.records.Last()
	s, err := w.wait(ctx, last)
	if err != nil {
		return Bookmark{}, err
	}
	m, err := readManifest(ctx, w.bucket)
	if err != nil {
		return Bookmark{}, err
	}
	return m.bookmark(s.Line, max(last, s.first)), nil
}
