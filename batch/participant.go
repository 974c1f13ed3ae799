package batch

import (
	"errors"
	"iter"
	"slices"
)

// A Participant is what takes part in the commit of a batch: a queue, a record, the
// tables of connections. There is one for each owner and batch, see Batch.Enlist.
//
// Landed and Failed make memory follow the store: exactly one of them is called, once.
// They must be quick, must not fail and must not call into the store, which may hold a
// lock.
type Participant interface {
	// Late stages what depends on what else lands, such as a counter shared by all. It
	// is called when the batch is sealed, under the store's commit lock, with the batch
	// that is committed: another one, if the participant's own is joined to it. It may
	// stage more and enlist others, whose Late is called after it. It may be called again,
	// each time with a batch of its own, when a commit is refused and tried in another
	// form. An error makes the commit fail before anything is written.
	Late(b *Batch) error

	// Landed is called when the batch has been applied, before anybody waits for stable
	// storage, in the order in which participants were enlisted.
	Landed()

	// Failed is called when the batch has not been applied, or only in part: then partly
	// is set, and reason is, or wraps, an *OrderedError. It runs in the reverse of the
	// order in which participants were enlisted, as what they undo was built up.
	Failed(reason error, partly bool)
}

// A part is a participant, and whose it is; nil for a function's.
type part struct {
	owner any
	Participant
}

// Enlist has p take part in what b commits, for owner, by which Enlisted finds it; owner is a pointer. To
// enlist a participant again whose Late has been called has it called once more.
// It panics if b was settled already, since p would hear of nothing.
func (b *Batch) Enlist(owner any, p Participant) {
	b.mustBeOpen()
	if b.Enlisted(owner) == nil {
		b.parts = append(b.parts, part{owner, p})
	}
	for _, waiting := range b.late[b.lateRun:] {
		if waiting == p {
			return
		}
	}
	b.late = append(b.late, p)
}

// Enlisted returns owner's participant in b, or in a batch that is joined to it; nil if
// there is none.
func (b *Batch) Enlisted(owner any) Participant {
	for _, p := range b.parts {
		if p.owner == owner {
			return p.Participant
		}
		if j, ok := p.Participant.(joined); ok {
			if found := j.of.Enlisted(owner); found != nil {
				return found
			}
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

// OnCommit has fn called as the Landed of a participant.
func (b *Batch) OnCommit(fn func()) {
	b.mustBeOpen()
	b.parts = append(b.parts, part{nil, onLanded(fn)})
}

// OnAbort has fn called as the Failed of a participant.
func (b *Batch) OnAbort(fn func(reason error)) {
	b.mustBeOpen()
	b.parts = append(b.parts, part{nil, onFailed(fn)})
}

// Late has fn called as the Late of a participant.
func (b *Batch) Late(fn func(*Batch) error) {
	b.mustBeOpen()
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
// that were enlisted since, so a commit may be retried. On a settled batch Seal returns
// ErrSettled.
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
// Only the first Settle or Abort of a batch counts, later ones do nothing: whoever
// stages can defer an Abort.
//
// The store calls Settle(nil) when the batch is applied, before it waits for
// durability; a failed sync poisons the store and unsettles nothing.
func (b *Batch) Settle(err error) {
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
	var partly *OrderedError
	errors.As(err, &partly)
	for i := len(b.parts) - 1; i >= 0; i-- {
		b.parts[i].Failed(err, partly != nil)
	}
}

// Abort gives b up: it is Settle with reason, or with ErrAborted if that is nil.
func (b *Batch) Abort(reason error) {
	if reason == nil {
		reason = ErrAborted
	}
	b.Settle(reason)
}

// Settled reports whether b has been settled or given up.
func (b *Batch) Settled() bool { return b.settled }

// Join makes the writes of o a part of what b commits: behind those that b has, and
// its final ones behind b's. Late of o's participants is called when b is sealed, with b.
// When b is applied o is settled with it. When b is refused o stays as it is, and may be
// joined to another batch: those participants of o that have a method Refused() are told so
// by that, in the reverse of their order, since Late will be called anew, if ever.
//
// o must not change until b is settled, and may belong to one open batch at a time.
// Its Mode is ignored. Joining a settled o panics.
func (b *Batch) Join(o *Batch) {
	o.mustBeOpen()
	b.ops = append(b.ops, o.ops...)
	b.final.ops = append(b.final.ops, o.final.ops...)
	b.parts = append(b.parts, part{nil, joined{of: o}})
	b.late = append(b.late, joined{of: o})
}

// joined is the participant of a batch that takes part in another one.
type joined struct{ of *Batch }

func (j joined) Late(b *Batch) error {
	for _, p := range j.of.late {
		if err := p.Late(b); err != nil {
			return err
		}
	}
	return nil
}

func (j joined) Landed()            { j.of.Settle(nil) }
func (j joined) Failed(error, bool) { j.Refused() }

// Refused tells the participants, and those of batches that are joined in turn.
func (j joined) Refused() {
	for _, p := range slices.Backward(j.of.parts) {
		if r, ok := p.Participant.(interface{ Refused() }); ok {
			r.Refused()
		}
	}
}
