package actorstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/quota"
	"github.com/greenroomdb/greenroom/actorstore/internal/reads"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// A flight is one batch on its way to the engine, and the memory that this takes.
// It is used again for other batches: a commit of the size of an earlier one
// allocates nothing. A flight is apart from its actor because the engine may use
// the memory until the batch is durable, while the next one starts.
type flight struct {
	reads.Change
	rows.Writer // of one engine commit

	a          *Actor
	b          *batch.Batch
	durability kv.Durability
	within     kv.Incarnation // in which alone it may land, 0 for any
	locked     bool           // the flight has the commit lock
	calling    bool           // the engine is at work, and didn't apply it yet

	subs     []batch.Sub
	resolver quota.Resolver

	// One engine commit.
	checks []kv.Check
	was    [layout.HeadSize]byte // the head row before and after
	row    [layout.HeadSize]byte
	next   layout.Head
	wake   *wakeRow
	found  *layout.Attributes
	usage  *[]byte
	refind bool // found is another one than before
	commit kv.Commit
	id     kv.CommitID // of the engine commit that was sent last
	last   bool        // no engine commit follows
	hints  *[]byte
	in     kv.Incarnation // as it was before the commit was sent
	landed int            // engine commits applied
	// onApply and show, made once.
	applied, shown func()
}

// What bounds the memory that an idle flight keeps: bytes of keys of one engine commit, and
// writes and sub-batches of all of them. Whatever else grows does so with one of these.
const (
	maxKept     = 512 << 10
	maxKeptOps  = 16 << 10
	maxKeptSubs = 1 << 10
)

// A freeList keeps flights for reuse.
type freeList struct {
	mu   sync.Mutex
	free []*flight // +checklocks:mu
}

// maxFree is how many idle flights a store keeps: as many as commits that wait for the same
// fsync, one of each of some hundreds of busy actors.
const maxFree = 256

func (l *freeList) take() *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		f := l.free[n-1]
		l.free = l.free[:n-1]
		return f
	}
	f := new(flight)
	f.applied, f.shown, f.Publish = f.onApply, f.show, f.publish
	return f
}

func (l *freeList) put(f *flight) {
	if f.Arena() > maxKept || cap(f.Before) > maxKeptOps || cap(f.subs) > maxKeptSubs {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) < maxFree {
		l.free = append(l.free, f)
	}
}

// end is the deferred end of every flight, also when a Late function, a hook or the
// engine panics.
func (f *flight) end(err error) {
	a := f.a
	if f.calling {
		// Only the next handle to the actor is left to be told.
		_ = f.doubt(errors.New("panic during a commit"))
		a.reads.Abort(&f.Change)
	}
	// Under the lock still, so that what OnAbort gives back is there for the next
	// batch. A batch that is settled ignores it.
	f.b.Settle(cmp.Or(err, batch.ErrAborted))
	f.unlock()
	// What belongs to others must not be kept alive.
	clear(f.subs)
	f.subs = f.subs[:0]
	f.unstage()
	f.a, f.b, f.Plan, f.Final, f.commit = nil, nil, nil, nil, kv.Commit{}
	f.Drop, f.calling, f.last, f.landed, f.hints, f.wake, f.found, f.usage, f.within, f.id = false, false, false, 0, nil, nil, nil, nil, 0, kv.CommitID{}
	a.store.flights.put(f)
}

func (f *flight) unlock() {
	if f.locked {
		f.locked = false
		<-f.a.lock
	}
}

// prepare does everything that may refuse the batch.
func (f *flight) prepare(ctx context.Context) (err error) {
	f.a.notes, f.a.rewake, f.a.found.wanted, f.a.spent.more = f.a.notes[:0], nil, nil, nil
	// Late functions may stage more, so nothing is known before they have run.
	if err := f.b.Seal(); err != nil {
		return err
	}
	if err := f.a.found.settle(); err != nil {
		return err
	}
	l := f.a.store.limits
	if f.subs, err = f.b.Split(l, f.subs[:0]); err != nil {
		return err
	}
	if err := l.CheckSubs(f.b.Mode, len(f.subs)); err != nil {
		return err
	}
	f.Plan, f.Final = f.b.Ops(), f.b.Final().Ops()
	if f.Ops() == 0 {
		return nil
	}
	a := f.a
	if err := f.resolver.Resolve(ctx, &f.Change, quota.Actor{Reads: a.reads, Rows: &a.space, Empty: a.head.Used == 0}); err != nil {
		return err
	}
	if err := f.charge(); err != nil {
		return err
	}
	f.Stamp(a.store.millis())
	return f.fits()
}

// charge refuses a batch that makes the actor grow beyond its quota. One that
// doesn't make it grow lands also when the quota is exceeded already: it may be how
// its user makes room. So does one that is marked OverQuota.
func (f *flight) charge() error {
	was := f.a.head.Used
	used := was
	for i := range f.Ops() {
		if used += quota.Delta(&f.Change, i); used < 0 {
			return fmt.Errorf("actorstore: %s %s frees more than the actor stores, by a wrong prior or a wrong head: %w",
				f.Op(i).Kind, Describe(f.Op(i).Key), ErrCorrupt)
		}
	}
	if limit := f.a.store.limits.Storage; used > was && used > limit && !f.b.OverQuota {
		return &QuotaError{Used: was, Wanted: used, Limit: limit}
	}
	return nil
}

// parts returns how many engine commits the flight takes, part the writes [from,
// to) of one of them.
func (f *flight) parts() int {
	if f.b.Mode == batch.Ordered && len(f.subs) > 0 { // none: notes alone
		return len(f.subs)
	}
	return 1
}

func (f *flight) part(i int) (from, to int) {
	if f.b.Mode == batch.Atomic || len(f.subs) == 0 {
		return 0, f.Ops()
	}
	for _, s := range f.subs[:i] {
		from += len(s.Ops)
	}
	return from, from + len(f.subs[i].Ops)
}

// fly makes the engine commits.
func (f *flight) fly(ctx context.Context) error {
	n := f.parts()
	for i := range n {
		f.From, f.To = f.part(i)
		if n > 1 {
			f.stage(f.From, f.To) // else it is staged already, see fits
		}
		f.last = i == n-1
		d := kv.Applied
		if f.last {
			d = f.durability
		}
		err := ctx.Err() // the parts before may have taken long
		if err == nil {
			err = f.send(ctx, d)
		}
		switch {
		case err == nil:
		case f.landed == 0 || f.b.Settled(): // nothing is stored; or all is, and not durable
			return err
		default:
			return &batch.OrderedError{Landed: f.landed, Total: n, Err: err}
		}
	}
	return nil
}

// send makes the engine commit that was staged, and says what became of it.
func (f *flight) send(ctx context.Context, d kv.Durability) error {
	a, landed := f.a, f.landed
	if err := a.reads.Depart(ctx, &f.Change); err != nil {
		return err
	}
	f.commit = kv.Commit{ID: f.next.Last, Checks: f.checks, Ops: f.Staged, In: f.within, Durability: d, OnApply: f.applied}
	f.call(f.commit.ID)
	var beside *companion
	if f.last && !f.Drop {
		beside = besideOf(f.b)
	}
	err := beside.commit(ctx, a.store.eng, &f.commit)
	// Once the last commit is applied the lock is another's: from here on only what
	// is atomic, or the flight's own, may be touched.
	applied := f.landed > landed
	if err == nil && !applied {
		panic("actorstore: the engine returned from a commit and did not call OnApply")
	}
	f.calling = false
	if err != nil {
		return f.failure(err, applied)
	}
	if d == kv.Durable {
		raise(&a.durable, int64(f.next.Seq))
	}
	return nil
}

// call notes that the engine is about to be sent the commit with that id, in which the flight is.
func (f *flight) call(id kv.CommitID) {
	f.a.phase.Add(1)
	f.calling, f.id = true, id
	f.in = f.a.store.eng.Incarnation()
}

// onApply is called by the engine when a commit is visible, before the wait for
// stable storage. With the last one, the next flight may start.
func (f *flight) onApply() {
	f.land()
	if f.last {
		f.settle()
	}
}

// land makes what was applied visible to the readers of the handle.
func (f *flight) land() {
	a := f.a
	// From here on a panic, of a hook for instance, leaves nothing in doubt.
	f.calling = false
	f.landed++
	f.hinted()
	// That the commit has found its head says that all before it is there, too.
	a.incarnation.landed(f.in, f.shown)
	a.phase.Add(1)
	if !a.hidden {
		a.store.told.changes.tell(Change{ID: a.id, Name: a.Name(), Seq: f.next.Seq, Attributes: f.refind, Dropped: f.Drop})
	}
}

// show makes what was applied the newest state for all readers.
func (f *flight) show() { f.a.reads.Land(&f.Change) }

// publish makes what was applied the newest state.
func (f *flight) publish() {
	a := f.a
	a.head, a.row, a.exists, a.unsaid = f.next, f.row, !f.Drop, a.unsaid && a.hidden
	a.wake.Store(f.wake)
	a.found.row.Store(f.found)
	a.spent.usage.Store(f.usage)
	a.spent.written.Add(f.size())
	if f.Drop {
		a.shut()
	}
	a.publish()
}

// settle runs the OnCommit hooks and gives the commit lock back, in this order, so
// that the hooks of two batches run in the order of their commits.
func (f *flight) settle() {
	f.b.Settle(nil)
	f.unlock()
}

// failure turns an error of the engine's Commit into ours; applied tells whether
// the commit was applied before it failed.
func (f *flight) failure(err error, applied bool) error {
	a := f.a
	if !applied {
		// Last: a reader that waits to know what it has read, or which commit a snapshot has,
		// must not believe that nothing landed when that isn't known.
		defer func() {
			a.phase.Add(1)
			a.reads.Abort(&f.Change)
		}()
	}
	switch {
	case applied:
		return f.doubt(err)
	case errors.Is(err, kv.ErrConflict) && a.store.eng.Incarnation() != a.incarnation.of():
		return a.fail(ErrPoisoned, errLost(err))
	case errors.Is(err, kv.ErrConflict):
		return a.fail(ErrFenced, err)
	case errors.Is(err, kv.ErrTooLarge):
		return fmt.Errorf("actorstore: commit: %w: %w", batch.ErrTooLarge, err)
	case errors.Is(err, kv.ErrNotApplied):
		// If the engine breaks this promise the next commit finds another head, and is fenced.
		return fmt.Errorf("actorstore: commit: %w", err)
	}
	return f.doubt(err)
}

// doubt poisons the handle because of the commit that was sent last.
func (f *flight) doubt(err error) error {
	a := f.a
	a.doubted.CompareAndSwap(nil, &Doubt{Commit: f.next.Last, Seq: f.next.Seq, before: f.was, sent: f.id})
	d := &DoubtError{a.id, f.next.Last, err}
	a.fail(ErrPoisoned, d)
	// It outweighs that the actor was taken over meanwhile, which doesn't tell whether this
	// commit came before that.
	err = fmt.Errorf("%w: actor %s: %w", ErrPoisoned, a.id, d)
	a.failed.Store(&err)
	return err
}
