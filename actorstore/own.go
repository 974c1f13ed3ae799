package actorstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// newActor returns a handle that has not been taken over yet.
func newActor(id ID, s *Store, p *place) *Actor {
	a := &Actor{
		lifecycle: lifecycle{over: make(chan struct{})}, published: published{id: id}, found: found{now: s.millis}, reader: reader{space: s.space(id, s.eng)},
		store: s, place: p, headKey: layout.RecordKey(layout.ID(id), layout.PartHead), lock: make(chan struct{}, 1),
	}
	rand.Read(a.nonce[:]) // never fails
	a.name.Store(new(string))
	return a
}

// A takeover is a handle that takes its actor over.
type takeover struct{ *Actor }

// run makes the handle the owner: it reads the actor's record and, if there
// is one, rewrites the head with the next epoch, so that the commits of the owner
// before conflict. Within one process that commit waits for no fsync: if it is lost in
// a crash, then so is everything that came after it.
//
// A conflict means that the owner before just committed, or that another one takes
// over too: the last one wins.
//
// An actor that doesn't exist needs no claim if no other handle can be at work on it:
// its first commit checks that there is still no head. Else a head is written that
// says that nothing was: a first commit of another handle that is under way must
// not land.
//
// On a full disk the claim is refused. An actor without another open handle is owned without it then, so that it can be read.
//
// Where others may be on other hosts, an actor that a living host has open isn't taken
// before that host answers nothing about it any more: see lease.Opening.
func (a *takeover) run(ctx context.Context, opts *ActorOptions) error {
	if a.store.owners == nil {
		var err error
		if a.host, err = a.store.hosts.Join(ctx, layout.ID(a.id), ownership{a.Actor}); err != nil {
			return err
		}
	}
	w := lease.Opening{Seat: a.host, Wait: opts.Wait, Force: opts.Force}
	for {
		in := a.store.eng.Incarnation()
		rec, named, err := loadNamedRecord(ctx, a.store.eng, a.id, opts.Name)
		if err != nil {
			return err
		}
		if named != nil && ID(named.ID) != a.id {
			return &TakenError{opts.Name, ID(named.ID)}
		}
		if err := opts.refuses(&rec); err != nil {
			return err
		}
		name := rec.name
		if a.unsaid = opts.Name != "" && opts.Name != name; a.unsaid { // the commit that records it checks again
			name = opts.Name
		}
		a.name.Store(&name)
		if a.layout = opts.Layout; rec.written() {
			a.layout = rec.layout
		}
		doubt := a.store.doubts.of(a.id)
		a.wake.Store(rec.wake)
		a.found.row.Store(rec.found)
		a.spent.recall(rec.usage)
		a.reads.Recall(rec.row)
		if rec.row == nil && doubt == nil && a.store.owners.alone(a.Actor) {
			a.head, a.exists = layout.Head{Epoch: 1}, false
			a.incarnation.landed(in, nil)
			a.store.owners.settle(a.Actor)
			return nil
		}
		free, err := w.Admit(ctx, rec.owner)
		if err != nil {
			return err
		}
		if !free {
			continue
		}
		known := opts.MaxSchema
		if known == NoSchema {
			known = 0
		}
		if at := rec.found; at != nil && opts.MaxSchema > 0 && at.Schema > known {
			return &SchemaError{Found: at.Schema, Known: known}
		}
		err = a.claimHead(ctx, rec)
		if errors.Is(err, errkind.ErrNoSpace) && rec.written() && doubt == nil {
			if held, herr := a.holdHead(ctx, rec); held || herr != nil {
				return herr
			}
		}
		if err == nil {
			a.incarnation.landed(in, nil)
			a.store.owners.settle(a.Actor)
			return a.resolve(ctx, rec, doubt)
		}
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// refuses returns why an actor with the record isn't opened with the options, whichever owner it has.
func (o *ActorOptions) refuses(rec *record) error {
	switch {
	case o.MustExist && !rec.written():
		return ErrUnknownActor
	case o.fresh && rec.written():
		return ErrExists
	case rec.written() && o.Layout != LayoutGreenroom && o.Layout != rec.layout:
		return fmt.Errorf("%w: %v was asked for, and the actor has %v", ErrLayout, o.Layout, rec.layout)
	case o.Name != "" && rec.name != "" && o.Name != rec.name:
		return fmt.Errorf("%w: the actor's name is %q", ErrNameTaken, rec.name)
	}
	return nil
}

// claimHead rewrites the head, or writes the first one.
func (a *takeover) claimHead(ctx context.Context, rec record) error {
	// Seq stays: the content is the same, and so are the caches of it.
	next := rec.head
	if rec.row == nil {
		next.Epoch = 1 // which another owner may believe to have
	}
	next.Epoch = a.store.owners.next(a.Actor, next.Epoch)
	next.Last = a.commitID()
	var ops []kv.Op
	if !rec.written() && next.Used > 0 { // left of a fork that was cut off
		next.Used = 0
		ops = append(ops, kv.ClearRange(tuple.Range(a.space.Prefix[:])))
	}
	if !rec.written() && rec.row != nil { // so may notes be
		ops = append(ops, kv.ClearRange(layout.NotesRange(layout.ID(a.id))))
	}
	row := next.Append(nil)
	c := kv.Commit{
		ID:         next.Last,
		Checks:     []kv.Check{{Key: a.headKey, Value: rec.row, Absent: rec.row == nil}},
		Ops:        append(ops, kv.Set(a.headKey, row)),
		Durability: kv.Applied,
	}
	named := a.unsaid && rec.written()
	if named {
		c.Checks, c.Ops = a.appendName(c.Checks, c.Ops)
	}
	wake := rec.wake
	if wake != nil && (named || a.host != nil) { // the index has the name, and the host
		wake = &wakeRow{Wake: wake.Wake, held: a.host != nil}
		c.Ops = appendWake(c.Ops, a.Actor, rec.wake, wake)
	}
	if a.host != nil {
		c.Ops = append(c.Ops, a.host.Claim(a.nonce))
		c.Durability = kv.Durable // what this handle answers from memory rests on it
	} else if rec.owner != nil { // left in a copy of a store that several hosts used
		c.Ops = append(c.Ops, kv.Clear(layout.RecordKey(layout.ID(a.id), layout.PartOwner)))
	}
	err := a.store.eng.Commit(ctx, &c)
	if a.host != nil {
		a.host.Claimed(err)
	}
	if err != nil {
		return err
	}
	a.unsaid = a.unsaid && !named
	a.wake.Store(wake)
	a.hold(&rec, next, row)
	if c.Durability == kv.Durable {
		a.durable.Store(a.seq.Load())
	}
	return nil
}

// holdHead makes a handle the owner without a claim, which the engine has refused, if no other handle to the actor is open. Only the
// handles of this process learn the new epoch; the first commit stores it.
func (a *takeover) holdHead(ctx context.Context, rec record) (held bool, err error) {
	in := a.store.eng.Incarnation()
	if !a.store.owners.reserve(a.Actor, &rec.head) {
		return false, nil
	}
	// An owner that was there when the head was read may have written since, and gone.
	now, err := loadRecord(ctx, a.store.eng, a.id)
	if err != nil || !bytes.Equal(now.row, rec.row) {
		return false, err
	}
	a.hold(&rec, rec.head, rec.row)
	a.incarnation.landed(in, nil)
	a.store.owners.settle(a.Actor)
	if a.store.owners.passed(a.Actor) {
		a.fail(ErrFenced, errReplaced)
	}
	return true, nil
}

// hold sets the head of a handle, and what follows from it, to what is stored now.
func (a *takeover) hold(rec *record, h layout.Head, row []byte) {
	a.stored.Store(&rec.hints)
	a.head, a.exists = h, true
	copy(a.row[:], row)
	a.publish()
	if h.Seq == 0 {
		a.durable.Store(0)
	} // else commits of an earlier handle may be applied and not durable yet
}

// resolve finds out what became of the commit in doubt, once the actor is claimed:
// rec is what was there before.
func (a *takeover) resolve(ctx context.Context, rec record, d *Doubt) error {
	if d == nil {
		return nil
	}
	outcome, err := a.store.eng.Outcome(ctx, d.sent)
	if err != nil {
		if bytes.Equal(rec.row, d.before[:]) {
			d.before = a.row // the next to ask finds this claim instead
			a.store.doubts.set(a.id, d)
		}
		return fmt.Errorf("actorstore: outcome of commit %x of actor %s: %w", d.Commit, a.id, err)
	}
	if outcome == kv.OutcomeUnknown {
		outcome = rec.outcome(d)
	}
	d.Outcome = outcome
	a.before = d
	a.store.doubts.set(a.id, nil)
	return nil
}
