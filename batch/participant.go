package batch

import (
	"errors"
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
	// what it reads of its owner is what the commit before has left.
	//
	// Late may stage more and enlist others, whose Late is called after it. It is called
	// again when its participant is enlisted again, and when the batch is sealed again
	// after a Rewind, which takes back what it staged and enlisted. So a participant that
	// keeps something for one commit enlists what gives it up: see Entry. An error makes the
	// commit fail before anything is written.
	Late(b *Batch) error

	// Landed is called when the batch has been applied, in the order in which
	// participants were enlisted. The writes may not be on stable storage yet.
	Landed()

	// Failed is called when the batch was not applied, or was given up. If only a
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
// for; Enlisted finds p by it. By a second Enlist of p its Late is called once more, if that
// was called already. Enlist panics if b was settled, since p would hear of nothing.
func (b *Batch) Enlist(owner any, p Participant) {
	b.mustBeOpen()
	if b.Enlisted(owner) == nil {
		b.parts = append(b.parts, part{owner, p})
	}
	if !slices.Contains(b.late[b.lateRun:], p) {
		b.late = append(b.late, p)
	}
}

// EnlistAgain is Enlist of owner's participant, with which every method that stages more begins: Late of p is called once
// more if it was called already. It returns ErrSettled, and does nothing, if b was settled or p belongs to an earlier use of b.
func (b *Batch) EnlistAgain(owner any, p Participant) error {
	if b.settled || b.Enlisted(owner) != p {
		return ErrSettled
	}
	b.Enlist(owner, p)
	return nil
}

// Enlisted returns owner's participant in b, nil without one. A settled batch keeps its
// participants until it is Reset, so a participant that Enlisted doesn't return belongs to an
// earlier use of the batch.
func (b *Batch) Enlisted(owner any) Participant {
	for i := range b.parts {
		if b.parts[i].owner == owner {
			return b.parts[i].Participant
		}
	}
	return nil
}

// Attended reports whether anything takes part in the commit of b: a participant or a
// function.
func Attended(b *Batch) bool { return len(b.parts)+len(b.late) > 0 }

// In returns owner's participant in b; if owner has none it enlists what begin returns. In both
// cases Late of the participant is called, once more if it was called already. If b was settled
// nothing is enlisted.
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

// OnCommit makes fn the Landed of a participant without an owner. It panics if b
// was settled, as OnAbort and Late do.
func (b *Batch) OnCommit(fn func()) {
	b.mustBeOpen()
	b.parts = append(b.parts, part{nil, onLanded(fn)})
}

// OnAbort makes fn the Failed of a participant.
func (b *Batch) OnAbort(fn func(reason error)) {
	b.mustBeOpen()
	b.parts = append(b.parts, part{nil, onFailed(fn)})
}

// Late makes fn the Late of a participant, called with b: perhaps several times. What fn stages
// by In in a part of the actor that b has changed before stays there between these calls.
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
// stands, and the next opening of the store finds out what is there.
//
// With an error a batch that is marked isn't settled, but taken back to its mark: see Mark.
func (b *Batch) Settle(err error) {
	if err != nil && b.spare != nil && !b.settled {
		b.Rewind(err)
		return
	}
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
	defer b.unmark() // also if a participant panics
	if err != nil {
		b.failed(0, err, partly)
	} else {
		landed(b.parts)
	}
}

// landed tells participants, also those behind one that panics: what they have in memory must follow the store.
func landed(parts []part) {
	if len(parts) > 0 {
		defer landed(parts[1:])
		parts[0].Landed()
	}
}

// failed tells the participants from the one numbered first on, the last one first, also those behind one that panics.
func (b *Batch) failed(first int, err error, partly bool) {
	for i := first; i < len(b.parts); i++ {
		defer b.parts[i].Failed(err, partly)
	}
}

// Settled reports whether b has been settled or given up.
func (b *Batch) Settled() bool { return b.settled }
