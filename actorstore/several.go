package actorstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// A write is what one of several actors writes.
type write struct {
	Actor *Actor
	Batch *batch.Batch // Atomic; an empty one makes sure that the actor is as it was read
}

// errSeveral: the same actor twice, an actor of another Store, a batch that isn't Atomic, or more than one transaction beside them.
var errSeveral = fmt.Errorf("actorstore: commit of several actors: %w", kv.ErrInvalid)

// commitSeveral lands the batches of several actors of one Store by one engine commit, each as Actor.Commit does: all of
// them, or none. It checks the heads of all actors, so that each is what the caller has read of it in a
// turn of its own. The commit locks are taken in the order of the ids: two calls don't wait
// for each other in a circle.
//
// Readers of the engine see all of it or nothing. Those of a handle see what its actor's batch wrote when that is applied,
// as always.
//
// What is refused before anything is written is refused for all: what Actor.Commit names, and what
// together is too large for one atomic commit. wrote are the actors to which there is anything to write. An error that names an actor as fenced leaves the
// others healthy, and nothing was written. When the outcome isn't known, all handles are poisoned.
func commitSeveral(ctx context.Context, writes []write, d kv.Durability) (wrote []*Actor, err error) {
	if len(writes) == 0 {
		return nil, nil
	}
	several := several{store: writes[0].Actor.store, durability: d}
	defer func() {
		several.end(err)
		for _, w := range writes[len(several.flights):] { // those of flights are settled, and a second call would settle one that is marked for good
			w.Batch.Settle(err)
		}
	}()
	writes = slices.SortedFunc(slices.Values(writes), func(a, b write) int { return a.Actor.id.Compare(b.Actor.id) })
	for i, w := range writes {
		switch {
		case w.Batch.Settled():
			return nil, fmt.Errorf("actorstore: commit: %w", batch.ErrSettled)
		case w.Actor.store != several.store, w.Batch.Mode != batch.Atomic, i > 0 && writes[i-1].Actor.id == w.Actor.id:
			return nil, errSeveral
		}
	}
	for _, w := range writes {
		if err := several.add(ctx, w); err != nil {
			return nil, fmt.Errorf("actorstore: commit of %s: %w", cmp.Or(w.Actor.Name(), w.Actor.id.String()), err)
		}
	}
	if err := several.merge(); err != nil {
		return nil, err
	}
	for _, f := range several.writers {
		wrote = append(wrote, f.a)
	}
	return wrote, several.send(ctx)
}

// A Joint makes the commits of batches of several actors one: that of each, by Actor.Commit or Apply,
// begins that of the next one, and the last lands all of them, or none. So each may lie within what its caller
// does to commit, as the COMMIT of a SQLite transaction, and each caller is told the same. It is for one goroutine.
type Joint struct {
	n       int
	next    func(i int) error
	writes  []write
	durable bool
	over    bool // the engine commit was made, or refused
	wrote   []*Actor
	err     error
}

// NewJoint returns a Joint of n batches, the first of which the caller commits. next commits the i-th, 1 ≤ i < n.
func NewJoint(n int, next func(i int) error) *Joint { return &Joint{n: n, next: next} }

// Join has b land with the others, when its actor commits it.
func (j *Joint) Join(b *batch.Batch) { b.Enlist(joints, (*member)(j)) }

// Over reports whether the engine commit was made or refused: what failed after that has landed all the same.
func (j *Joint) Over() bool { return j.over }

// Wrote reports whether the engine commit wrote to a, or would have. Of an actor that it only read there is nothing in it to wait for.
func (j *Joint) Wrote(a *Actor) bool { return slices.Contains(j.wrote, a) }

// A member is a Joint as a participant of its batches.
type member Joint

var joints = new(byte)

func (m *member) Late(*batch.Batch) error { return nil }
func (m *member) Landed()                 {}
func (m *member) Failed(error, bool)      {}

// jointOf returns with what b lands, nil if it lands by itself.
func jointOf(b *batch.Batch) *Joint {
	m, _ := b.Enlisted(joints).(*member)
	return (*Joint)(m)
}

// commit is the commit of one of the batches.
func (j *Joint) commit(ctx context.Context, w write, d kv.Durability) error {
	j.writes, j.durable = append(j.writes, w), j.durable || d == kv.Durable
	if n := len(j.writes); n < j.n {
		err := j.next(n)
		if !j.over {
			if err == nil {
				err = errNotJoined
			}
			w.Batch.Settle(err)
			return err
		}
		return j.err
	}
	j.over = true
	if j.durable {
		d = kv.Durable
	}
	j.wrote, j.err = commitSeveral(ctx, j.writes, d)
	return j.err
}

var errNotJoined = fmt.Errorf("actorstore: a batch of a joint commit was left out: %w", kv.ErrInvalid)

// A several is the flights of several actors in one engine commit.
type several struct {
	store      *Store
	durability kv.Durability
	flights    []*flight // by the ids of their actors
	writers    []*flight // those of flights that write
	beside     *companion
	commit     kv.Commit
	applied    bool
}

// add takes the commit lock of an actor, and stages its batch.
func (s *several) add(ctx context.Context, w write) error {
	if err := w.Actor.acquire(ctx); err != nil {
		return err
	}
	f := s.store.flights.take()
	f.a, f.b, f.locked, f.durability, f.last = w.Actor, w.Batch, true, s.durability, true
	s.flights = append(s.flights, f)
	if err := f.prepare(ctx); err != nil {
		return err
	}
	f.From, f.To = f.part(0)
	writes := f.Ops() > 0 // and then it is staged
	switch {
	case writes:
	case f.rowsAlone():
		f.stage(0, 0)
		if err := f.checkSize(); err != nil {
			return err
		}
		writes = true
	default:
		f.unstage()
		f.next = f.a.head
		f.checkHead()
	}
	if writes {
		s.writers = append(s.writers, f)
	}
	if c := besideOf(f.b); c != nil {
		if s.beside != nil {
			return errSeveral
		}
		s.beside = c
	}
	return nil
}

// merge makes one engine commit of what is staged, and holds it against the limits.
func (s *several) merge() error {
	subs, bytes := 0, int64(0)
	s.commit = kv.Commit{Durability: s.durability, OnApply: s.onApply}
	for _, f := range s.flights {
		s.commit.Checks, s.commit.Ops = append(s.commit.Checks, f.checks...), append(s.commit.Ops, f.Staged...)
		subs, bytes = subs+len(f.subs), bytes+f.size()
	}
	l := s.store.engLimits
	switch {
	case l.Ops > 0 && len(s.commit.Ops) > l.Ops:
		return engineLimit("operations of one engine commit", len(s.commit.Ops), l.Ops)
	case l.Bytes > 0 && bytes > int64(l.Bytes):
		return engineLimit("bytes of one engine commit", int(bytes), l.Bytes)
	}
	return s.store.limits.CheckSubs(batch.Atomic, subs)
}

// send makes the engine commit, and says what became of it.
func (s *several) send(ctx context.Context) error {
	if len(s.writers) == 0 {
		return s.readAlone(ctx)
	}
	for i, f := range s.writers {
		if err := f.a.reads.Depart(ctx, &f.Change); err != nil {
			for _, f := range s.writers[:i] {
				f.a.reads.Abort(&f.Change)
			}
			return err
		}
	}
	s.commit.ID = s.writers[0].next.Last
	for _, f := range s.writers {
		f.call(s.commit.ID)
	}
	err := s.beside.commit(ctx, s.store.eng, &s.commit)
	if err == nil && !s.applied {
		panic("actorstore: the engine returned from a commit and did not call OnApply")
	}
	for _, f := range s.writers {
		f.calling = false
	}
	if err != nil {
		return s.failure(ctx, err)
	}
	if s.durability == kv.Durable {
		for _, f := range s.writers {
			raise(&f.a.durable, int64(f.next.Seq))
		}
	}
	return nil
}

// readAlone is send of batches that write nothing: the actors are the handles' still, and what was read of them is durable.
// Callers of Apply can't tell of which of the actors they would have to wait.
func (s *several) readAlone(ctx context.Context) error {
	for _, f := range s.flights {
		if err := f.a.owned(ctx, s.store.eng); err != nil {
			return err
		}
	}
	for _, f := range s.flights {
		a := f.a
		f.settle()
		if a.durable.Load() < a.seq.Load() {
			if err := a.Sync(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// onApply is called by the engine when the commit is visible. No hook runs, and no lock is given back,
// before all handles show it.
func (s *several) onApply() {
	s.applied = true
	for _, f := range s.writers {
		f.land()
	}
	settleAll(s.flights)
}

// settleAll settles flights one after the other, also those behind one of which a hook panics.
func settleAll(flights []*flight) {
	if len(flights) > 0 {
		defer settleAll(flights[1:])
		flights[0].settle()
	}
}

// failure turns an error of the engine's Commit into ours, for each handle.
func (s *several) failure(ctx context.Context, err error) (first error) {
	conflict := errors.Is(err, kv.ErrConflict) && !s.applied
	for _, f := range s.flights {
		writes := slices.Contains(s.writers, f)
		switch {
		case conflict && !s.replaced(ctx, f):
			if writes {
				f.a.phase.Add(1)
				f.a.reads.Abort(&f.Change)
			}
		case writes:
			first = cmp.Or(first, f.failure(err, s.applied))
		case conflict && s.store.eng.Incarnation() != f.a.incarnation.of():
			first = cmp.Or(first, f.a.fail(ErrPoisoned, errLost(err)))
		case conflict:
			first = cmp.Or(first, f.a.fail(ErrFenced, err))
		}
	}
	if first == nil { // a conflict without an owner, of what lies beside
		first = fmt.Errorf("actorstore: commit: %w", err)
	}
	return first
}

// replaced says whether another owner wrote the head. If that can't be read the next commit finds
// out.
func (s *several) replaced(ctx context.Context, f *flight) bool {
	a := f.a
	if a.unsaid && len(f.Staged) > 0 || s.store.eng.Incarnation() != a.incarnation.of() {
		return true // as after a commit of its own: another actor may have taken the name
	}
	row, err := s.store.eng.Get(context.WithoutCancel(ctx), a.headKey, nil)
	if errors.Is(err, kv.ErrNotFound) {
		return a.exists
	}
	return err == nil && (!a.exists || !bytes.Equal(row, f.was[:]))
}

// end ends the flights, with the last lock first.
func (s *several) end(err error) {
	for _, f := range slices.Backward(s.flights) {
		f.end(err)
	}
}
