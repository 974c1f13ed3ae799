package batch

import (
	"errors"
	"iter"
	"slices"
)

// A Participant takes part in the commit of a batch for an owner, such as a queue or a
// record: it holds what the batch does to the owner until the batch lands. An owner has
// one participant in a batch, which In finds or makes.
//
// Landed and Failed make memory follow the store: exactly one of them is called, once.
// They must be quick, must not fail and must not call into the store, which may hold a
// lock. The goroutine that commits calls all methods, so a participant locks what it
// shares with others.
type Participant interface {
	// Late stages what depends on what else lands, such as a counter that all batches
	// change. It is called when the batch is sealed, under the store's commit lock, so
	// what it reads of its owner is what the commit before has left. b is the batch that
	// is committed: another one than the participant's own if that is joined to it.
	//
	// Late may stage more and enlist others, whose Late is called after it. It is called
	// again when its participant is enlisted again, and with another b when the commit
	// of a batch to which its own was joined has been refused and is tried in another
	// form. An error makes the commit fail before anything is written.
	Late(b *Batch) error

	// Landed is called when the batch has been applied, in the order in which
	// participants were enlisted. The writes may not be on stable storage yet.
	Landed()

	// Failed is called when the batch has not been applied, or was given up. If only a
	// part of it has landed, partly is true, and reason is, or wraps, an *OrderedError.
	// Participants are called in the reverse of the order in which they were enlisted, so
	// that each finds what it built on as it left it.
	Failed(reason error, partly bool)
}

// A part is a participant, and whose it is; nil for a function's.
type part struct {
	owner any
	Participant
}

// Enlist has p take part in the commit of b. owner is a pointer, to whatever p takes part
// for; Enlisted finds p by it. Enlisting p again has its Late called once more, if that
// was called already. If b is joined to a batch, p takes part in the commit of that one. Enlist
// panics if b was settled, since p would hear of nothing.
func (b *Batch) Enlist(owner any, p Participant) {
	b.mustBeOpen()
	if b.into != nil {
		b.into.Enlist(owner, p)
		return
	}
	if b.Enlisted(owner) == nil {
		b.parts = append(b.parts, part{owner, p})
	}
	if !awaits(b.late[b.lateRun:], p) {
		b.late = append(b.late, p)
	}
}

// awaits reports whether p, or a batch that is joined and has p, is among those whose Late
// is yet to be called.
func awaits(late []Participant, p Participant) bool {
	return slices.ContainsFunc(late, func(o Participant) bool {
		j, ok := o.(joined)
		return o == p || ok && awaits(j.of.late, p)
	})
}

// Enlisted returns owner's participant in b, or in a batch that is joined to b, or else in the
// batch that b is joined to; nil if owner has none. A settled batch keeps its participants
// until it is Reset, so a participant that Enlisted doesn't return belongs to an earlier use
// of the batch.
func (b *Batch) Enlisted(owner any) Participant {
	for ; b != nil; b = b.into {
		for p := range b.Participants(owner) {
			return p
		}
	}
	return nil
}

// Participants yields owner's participants in b and in the batches that are joined to it, in
// the order in which their Late is called. There is more than one only if batches were
// staged apart and then joined; Enlisted returns the first.
func (b *Batch) Participants(owner any) iter.Seq[Participant] {
	return func(yield func(Participant) bool) { b.eachOf(owner, yield) }
}

// Attended reports whether anything takes part in the commit of b: a participant or a
// function.
func Attended(b *Batch) bool { return len(b.parts)+len(b.late) > 0 }

// eachOf calls fn for owner's participants until it returns false, and reports whether it
// never did.
func (b *Batch) eachOf(owner any, fn func(Participant) bool) bool {
	for _, p := range b.parts {
		if j, ok := p.Participant.(joined); ok && !j.of.eachOf(owner, fn) || p.owner == owner && !fn(p.Participant) {
			return false
		}
	}
	return true
}

// In returns owner's participant in b, or in a batch that is joined to it; if there is none
// it enlists what begin returns. In both cases Late of the participant is called, once more
// if it was called already. If b was settled nothing is enlisted.
func In[P Participant](b *Batch, owner any, begin func() P) P {
	p, ok := b.Enlisted(owner).(P)
	if !ok {
		p = begin()
	}
	if !b.settled {
		b.Enlist(owner, p)
	}
	return p
}

// OnCommit has fn called as the Landed of a participant without an owner. It panics if b
// was settled, as OnAbort and Late do.
func (b *Batch) OnCommit(fn func()) {
	b.mustBeOpen()
	b.parts = append(b.parts, part{nil, onLanded(fn)})
}

// OnAbort has fn called as the Failed of a participant.
func (b *Batch) OnAbort(fn func(reason error)) {
	b.mustBeOpen()
	b.parts = append(b.parts, part{nil, onFailed(fn)})
}

// Late has fn called as the Late of a participant: perhaps several times, with another batch
// each time. What fn stages by In in a part of the actor that b has changed before stays there
// between these calls.
func (b *Batch) Late(fn func(*Batch) error) {
	b.mustBeOpen()
	if b.into != nil {
		b.into.Late(func(into *Batch) error { return b.lateIn(into, onLate(fn)) })
		return
	}
	b.late = append(b.late, onLate(fn))
}

// A function is a participant that does one thing.
type (
	onLate   func(*Batch) error
	onLanded func()
	onFailed func(error)
)

func (fn onLate) Late(b *Batch) error { return fn(b) }
func (onLate) Landed()                {}
func (onLate) Failed(error, bool)     {}

func (onLanded) Late(*Batch) error  { return nil }
func (fn onLanded) Landed()         { fn() }
func (onLanded) Failed(error, bool) {}

func (onFailed) Late(*Batch) error              { return nil }
func (onFailed) Landed()                        {}
func (fn onFailed) Failed(reason error, _ bool) { fn(reason) }

func (b *Batch) mustBeOpen() {
	if b.settled {
		panic("batch: a settled batch takes no participant")
	}
}

// Seal calls Late of the participants in order, and returns the first error; so does
// every later Seal, since the batch is then staged in part only. The store calls it
// under its commit lock just before Split. Sealing again after success calls only those
// that were enlisted since, so the store may try a commit again. On a settled batch Seal
// returns ErrSettled.
func (b *Batch) Seal() error {
	if b.settled {
		return ErrSettled
	}
	for b.lateErr == nil && b.lateRun < len(b.late) {
		p := b.late[b.lateRun]
		b.lateRun++
		b.lateErr = p.Late(b)
	}
	return b.lateErr
}

// Settle tells the participants what became of b: Landed if err is nil, else Failed.
// Only the first Settle or Abort of a batch counts, later ones do nothing: a function
// that stages can defer an Abort.
//
// The store calls Settle(nil) when the batch is applied, before it waits for stable
// storage. A sync that fails after that poisons the store: what participants were told
// stands, and whoever opens the store next finds out what is there.
func (b *Batch) Settle(err error) {
	b.settle(err, !b.settled && err != nil && inPart(err))
}

func inPart(err error) bool {
	var part *OrderedError
	return errors.As(err, &part)
}

// Abort gives b up, of which nothing has landed, for a reason that may be of another batch; nil is ErrAborted.
func (b *Batch) Abort(reason error) {
	if reason == nil {
		reason = ErrAborted
	}
	b.settle(reason, false)
}

func (b *Batch) settle(err error, partly bool) {
	if b.settled {
		return
	}
	b.settled = true
	if err == nil {
		for _, p := range b.parts {
			p.Landed()
		}
		return
	}
	for i := len(b.parts) - 1; i >= 0; i-- {
		b.parts[i].Failed(err, partly)
	}
}

// Settled reports whether b has been settled or given up.
func (b *Batch) Settled() bool { return b.settled }

// Join makes the writes of o a part of what b commits: behind those that b has, and
// its final ones behind b's. Late of o's participants is called when b is sealed, with b.
// When b is applied o is settled with it.
//
// When b is refused o stays as it is, and may be joined to another batch. Participants of o
// that have a method Refused() are told by it that the commit is over for them, in the
// reverse of their order; if o is committed after all, Late is called anew. So a participant
// that keeps something for one commit gives it up in Landed, Failed and Refused.
//
// Until b is settled, only the Late of o's participants may write in o, and what it writes
// there belongs to b. A batch may be joined to one open batch at a time.
// Its Mode is ignored. Joining a settled o panics.
func (b *Batch) Join(o *Batch) {
	o.mustBeOpen()
	o.into = b
	b.ops = append(b.ops, o.ops...)
	b.final.ops = append(b.final.ops, o.final.ops...)
	if o.wakeBy != 0 {
		b.wake(o.wakeBy)
	}
	b.parts = append(b.parts, part{nil, joined{of: o}})
	b.late = append(b.late, joined{of: o})
}

// joined is the participant of a batch that takes part in another one.
type joined struct{ of *Batch }

func (j joined) Late(b *Batch) error {
	for _, p := range j.of.late {
		if err := j.of.lateIn(b, p); err != nil {
			return err
		}
	}
	return nil
}

// lateIn calls Late of p with b, to which o is joined. What p writes in o is b's alone: p
// writes it again if o is committed with another batch.
func (o *Batch) lateIn(b *Batch, p Participant) error {
	n, last := len(o.ops), len(o.final.ops)
	err := p.Late(b)
	b.ops = append(b.ops, o.ops[n:]...)
	b.final.ops = append(b.final.ops, o.final.ops[last:]...)
	o.ops, o.final.ops = o.ops[:n], o.final.ops[:last]
	return err
}

func (j joined) Landed() {
	j.of.into = nil
	j.of.Settle(nil)
}

func (j joined) Failed(error, bool) { j.Refused() }

// Refused tells the participants, and those of batches that are joined in turn.
func (j joined) Refused() {
	j.of.into = nil
	for _, p := range slices.Backward(j.of.parts) {
		if r, ok := p.Participant.(interface{ Refused() }); ok {
			r.Refused()
		}
	}
}
