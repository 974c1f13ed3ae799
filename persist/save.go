package persist

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A save is one writing of what has changed, and what those who wait for it share. One
// runs at a time, and at most one waits to be next: for the timer, for the end of the
// running one, or for nothing if it is urgent. Its fields are guarded by Record.mu.
type save struct {
	urgent   bool
	durable  bool   // somebody waits for stable storage
	captured bool   // what it writes is settled: who changes something now needs the next
	gen      uint64 // the state that it writes, or that is stored already
	seq      uint64 // the commit of the actor that it landed with
	alone    bool   // without the connections

	landed bool  // gen is stored
	conns  error // why the connections are not
	err    error

	applied chan struct{} // closed when it has landed, or can't
	done    chan struct{} // closed at the end
}

// SaveOptions say how Save saves. The zero value waits for a save that comes by itself.
type SaveOptions struct {
	// Immediate saves now, without regard to SaveInterval.
	Immediate bool
	// MaxWait bounds the time until the save begins; 0 means that SaveInterval does.
	MaxWait time.Duration
	// Applied returns when the changes are in the store, without waiting until they are
	// on stable storage: a crash may take them away again.
	Applied bool
}

// Save returns nil when all changes that were made before it are stored, the connections
// too, on stable storage unless opts say otherwise; nil opts are the zero SaveOptions.
// With nothing to save it returns at once. Many who call it share one save.
//
// After an error the changes are in memory still and are tried again, after 100 ms at
// first and 30 s at last. ErrConnections says that the state is stored. ErrQuota of the
// actor says that the state isn't, but connections may be. When the context ends before
// the save does its error is returned, and the save goes on.
func (r *Record) Save(ctx context.Context, opts *SaveOptions) error {
	var o SaveOptions
	if opts != nil {
		o = *opts
	}
	conns, last := r.connections() != 0, r.lastConnections()
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return err
	}
	s, last := r.join(&o, conns), max(last, r.landed)
	r.mu.Unlock()
	if s != nil {
		if err := r.wait(ctx, s, &o); err != nil {
			return err
		}
	}
	if o.Applied {
		return nil
	}
	return r.sync(ctx, last)
}

// wait returns what becomes of a save.
func (r *Record) wait(ctx context.Context, s *save, o *SaveOptions) error {
	over := s.done
	if o.Applied {
		over = s.applied
	}
	select {
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Applied && s.landed {
		return s.conns
	}
	return s.err
}

// sync returns when the commit seq of the actor is on stable storage: it may be one that
// nobody has waited for. If something later has been waited for already it costs nothing.
func (r *Record) sync(ctx context.Context, seq uint64) error {
	r.mu.Lock()
	safe := r.safe
	r.mu.Unlock()
	if safe >= seq {
		return nil
	}
	now := r.actor.Seq()
	// An empty batch is as durable as what was applied before it.
	if err := r.actor.Commit(ctx, new(batch.Batch)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.safe = max(r.safe, now)
	return nil
}

// SaveSoon has what changed be saved at most maxWait from now; 0 leaves it to
// SaveInterval. It doesn't wait. It is for who knows that connections have changed: of
// the state the Record knows by itself.
func (r *Record) SaveSoon(maxWait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.usable() == nil {
		r.saveWithin(maxWait)
	}
}

// Saved says whether everything that the Record knows to have changed is in the store.
func (r *Record) Saved() bool {
	conns := r.connections()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gen == r.applied && conns <= 0
}

// connections returns how many connections have changed, -1 if that can't be told. It
// asks somebody who has locks of his own, so it isn't called under r.mu.
func (r *Record) connections() int {
	if r.opts.Connections == nil {
		return 0
	}
	if c, ok := r.opts.Connections.(interface{ Changed() int }); ok {
		return c.Changed()
	}
	return -1
}

// lastConnections returns the last commit of the actor that has written connections, by
// whomever they were staged.
func (r *Record) lastConnections() uint64 {
	if r.opts.Connections == nil {
		return 0
	}
	if c, ok := r.opts.Connections.(interface{ Landed() uint64 }); ok {
		return c.Landed()
	}
	return r.actor.Seq() // any may be
}

func newSave() *save {
	return &save{applied: make(chan struct{}), done: make(chan struct{})}
}

// join returns the save that will have stored what is in memory now, nil if it is stored,
// safely or not; conns says that connections may have changed.
//
// +checklocks:r.mu
func (r *Record) join(o *SaveOptions, conns bool) *save {
	if r.gen == r.applied && !conns {
		return nil
	}
	if s := r.running; s != nil && (s.durable || o.Applied) && (!s.captured || !conns && s.gen >= r.gen) {
		return s
	}
	if r.next == nil {
		r.next = newSave()
	}
	s := r.next
	s.durable = s.durable || !o.Applied
	if o.Immediate {
		s.urgent = true
		r.start()
	} else {
		r.saveWithin(o.MaxWait)
	}
	return s
}

// saveWithin sets the timer for the next save, unless it is set for earlier: SaveInterval
// after the last one began, but at most maxWait from now; 0 is no bound.
//
// +checklocks:r.mu
func (r *Record) saveWithin(maxWait time.Duration) {
	now := r.saves.Now()
	delay := r.opts.SaveInterval
	if !r.lastSave.IsZero() {
		delay -= now.Sub(r.lastSave)
	} else {
		delay = 0
	}
	if delay = max(delay, 0); maxWait > 0 {
		delay = min(delay, maxWait)
	}
	r.wakeAt(now.Add(delay))
}

// wakeAt sets the timer, unless it is set for earlier.
//
// +checklocks:r.mu
func (r *Record) wakeAt(at time.Time) {
	if r.wake.IsZero() || at.Before(r.wake) {
		r.wake = at
		r.saver.Set(at)
	}
}

// ring is called by the timer.
func (r *Record) ring() {
	conns := r.connections() != 0
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake.IsZero() || r.saves.Now().Before(r.wake) {
		return // a save has begun since the timer went off
	}
	r.wake = time.Time{}
	if err := r.usable(); err != nil {
		r.release(err)
		return
	}
	if r.next == nil && r.gen == r.applied && !conns {
		return
	}
	if r.next == nil {
		r.next = newSave()
		r.next.durable = true
	}
	r.next.urgent = true
	r.start()
}

// start begins the next save, unless one is running: then its end does.
//
// +checklocks:r.mu
func (r *Record) start() {
	if r.running != nil || r.next == nil {
		return
	}
	r.running, r.next = r.next, nil
	r.lastSave, r.wake = r.saves.Now(), time.Time{} // what comes too late for it sets the timer
	r.saver.Set(time.Time{})
	s := r.running
	r.tasks.Go(func() { r.run(s) })
}

// run makes a save, and what follows from it.
func (r *Record) run(s *save) {
	began := r.saves.Now()
	err := r.write(s)
	if err != nil && s.again(r) {
		err = r.writeApart(s, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.err = err
	r.running = nil
	if !s.landed {
		close(s.applied)
	}
	close(s.done)
	if err != nil {
		r.failed(err)
	} else {
		if s.durable {
			r.safe = max(r.safe, s.seq)
		}
		r.failures = 0
		r.count(metricSaves, 1)
		r.observe(metricSaveTime, r.saves.Now().Sub(began))
	}
	if r.next != nil && r.next.urgent {
		r.start()
	}
}

// release ends the next save before it has begun, with err.
//
// +checklocks:r.mu
func (r *Record) release(err error) {
	if s := r.next; s != nil {
		r.next = nil
		s.err, s.landed = err, err == nil
		close(s.applied)
		close(s.done)
	}
}

// again says whether s shall be tried without the connections, and makes it so.
func (s *save) again(r *Record) bool {
	if r.opts.Connections == nil || s.alone || r.actor.Err() != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gen == r.applied {
		return false
	}
	// Who asks from here on may ask for connections, too: he gets the next one.
	s.alone = true
	return true
}

// write commits a batch with what has changed. Its context is nobody's, since the save is
// for many.
func (r *Record) write(s *save) error {
	b := &batch.Batch{Mode: batch.Ordered}
	b.OnCommit(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.seq = r.actor.Seq()
		r.landed = s.seq
		if !s.durable {
			r.loose = s.seq
		}
	})
	b.Late(func(b *batch.Batch) error {
		if err := r.stageSave(b, s); err != nil {
			return err
		}
		b.Late(func(b *batch.Batch) error { // behind what the connections stage late
			b.OnCommit(func() { r.tellApplied(s) })
			return nil
		})
		return nil
	})
	if s.durable {
		return r.actor.Commit(context.Background(), b)
	}
	return r.actor.Apply(context.Background(), b)
}

// tellApplied tells who waits for no more that s has landed. It is the last hook of the
// batch: who is told finds that memory has followed the store.
func (r *Record) tellApplied(s *save) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.landed = true
	close(s.applied)
}

// stageSave stages the record if it has changed, and the connections behind it. It runs
// under the commit lock, so what it captures is what the commit writes.
func (r *Record) stageSave(b *batch.Batch, s *save) error {
	if err := r.stageNewest(b, s); err != nil {
		return err
	}
	if r.opts.Connections == nil || s.alone {
		return nil
	}
	return r.opts.Connections.Stage(b)
}

func (r *Record) stageNewest(b *batch.Batch, s *save) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.captured, s.gen = true, r.gen
	if r.gen == r.applied {
		return nil
	}
	f, err := r.board(b)
	if err != nil {
		return err
	}
	f.behind = false // it is for the state
	return f.write()
}

// Bounds of the time until a save that failed is tried again.
const (
	minSaveRetry = 100 * time.Millisecond
	maxSaveRetry = 30 * time.Second
)

// failed tells of a save that failed, and has it tried again if there is hope.
//
// +checklocks:r.mu
func (r *Record) failed(err error) {
	r.count(metricSaveFailures, 1)
	if r.actor.Err() != nil || errors.Is(err, actorstore.ErrClosed) {
		r.log.Error("persist: what has changed can't be saved any more", slog.Any("error", err))
		if r.gone == nil {
			r.gone = err
		}
		r.release(err)
		return
	}
	wait := backoff(r.failures, minSaveRetry, maxSaveRetry)
	r.failures++
	r.log.Warn("persist: save failed", slog.Any("error", err), slog.Duration("retry", wait))
	r.wakeAt(r.saves.Now().Add(wait))
}

// backoff returns least·2ⁿ, at most most.
func backoff(n int, least, most time.Duration) time.Duration {
	for ; n > 0 && least < most; n-- {
		least *= 2
	}
	return min(least, most)
}
