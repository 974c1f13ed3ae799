// Package batch collects the writes of one commit, together with what must
// happen in memory when the commit lands or fails, and cuts them into pieces
// that a key-value store with limits accepts.
//
// It exists so that every writer of an actor (SQLite pages, a queue, workflow
// history, connections, state) obeys the same limits, splits in the same way and
// changes its memory only after its writes are in the store. A writer stages into
// a [Batch]; the code that commits it seals, splits, writes and settles it:
//
//	err := b.Seal()                        // values that depend on what else lands
//	subs, err := b.Split(limits, subs[:0]) // nothing is written if this fails
//	...                                    // write the sub-batches
//	b.Settle(err)                          // memory follows the store
//
// # Participants
//
// A part of an actor that stages in a batch has a Participant there, which is told when the
// batch is about to land, when it has landed and when it has not. A method of the part gives
// callers what the batch does to it, and In sees to it that this is one value for each batch:
//
//	func (q *Queue) In(b *batch.Batch) *Tx {
//		return batch.In(b, q, func() *Tx { return &Tx{queue: q, batch: b} })
//	}
//
// Each method of that value begins with EnlistAgain, so that what it stages lands even if the batch is being sealed.
//
// # What it is not
//
// batch does no I/O and knows no store: it doesn't check quotas, doesn't merge
// writes to the same key and doesn't read what is stored.
package batch

import "time"

// A Batch is the writes of one commit in order, and its hooks. The embedded
// Group holds the ordinary writes. The zero value is an empty atomic batch, ready
// for use; Reset makes a used one ready again without giving up its memory.
//
// A Batch must not be copied, and is not safe for concurrent use.
type Batch struct {
	// Mode says whether the batch lands whole or sub-batch by sub-batch.
	Mode Mode

	// OverQuota has the batch land although the actor then stores more than its quota. It
	// is for a writer that makes the actor smaller next, and can't otherwise.
	OverQuota bool

	Group
	final Group

	parts []part // in the order in which they were enlisted

	// spare is the batch of Mark, nil for none. It has the writes from before, when
	// there were so many parts and late participants.
	spare         *Batch
	parted, lated int

	// Late of late[:lateRun] has been called. lateErr is what the first failed one
	// returned: a batch whose staging failed halfway must not be committed later on.
	late    []Participant
	lateRun int
	lateErr error

	settled bool
	wakeBy  int64 // Unix ms, 0 for none
}

// WakeBy says that what b writes gives the actor something to do at a time, the zero time for as soon as the
// batch has landed: the commit has the store wake the actor no later. It does nothing for a batch that writes nothing.
func (b *Batch) WakeBy(at time.Time) {
	if ms := max(at.UnixMilli(), 1); b.wakeBy == 0 || ms < b.wakeBy {
		b.wakeBy = ms
	}
}

// WakeTime returns the earliest time that WakeBy was given, in Unix milliseconds; 0 for none.
func (b *Batch) WakeTime() int64 { return b.wakeBy }

// Final returns the group of writes that must land together: all of them are in
// the last sub-batch, after every ordinary write. Split refuses a batch whose
// final group doesn't fit into one sub-batch.
func (b *Batch) Final() *Group { return &b.final }

// Payload returns the sum of Op.Payload over the writes of b, the final ones included, in
// bytes. What participants will stage late doesn't count. It is what a store is asked to write,
// and more than what an actor grows by: of a key that is there the old value goes. Split adds
// it up for each sub-batch.
func (b *Batch) Payload() (n int) {
	for _, ops := range [][]Op{b.ops, b.final.ops} {
		for i := range ops {
			n += ops[i].Payload()
		}
	}
	return n
}

// Empty reports whether b has neither ordinary nor final writes. What
// participants will stage late doesn't count.
func (b *Batch) Empty() bool { return len(b.ops) == 0 && len(b.final.ops) == 0 }

// Reset empties b for reuse and keeps its memory, so that a batch reused for work
// of similar size allocates nothing. It sets Mode to Atomic. A batch that was not
// settled is given up first, so that its participants give back what they hold.
//
// Slices that Ops and Split returned before are invalid afterwards.
func (b *Batch) Reset() {
	b.Abort(ErrAborted)
	b.Mode, b.OverQuota = Atomic, false
	// Split lays the final writes out behind the ordinary ones, in the same
	// array; they must not keep values alive either.
	b.Group.reset(len(b.final.ops))
	b.final.reset(0)
	clear(b.parts)
	clear(b.late)
	b.parts, b.late = b.parts[:0], b.late[:0]
	b.lateRun, b.lateErr, b.settled, b.wakeBy = 0, nil, false, 0
}

// Mark begins a part of b that can be taken back: another writer stages its own writes behind those
// of b, so that both land in one commit, and tries another form if the store refuses that one. Until b is
// settled or taken back its Mode is Atomic, it obeys the quota, and a Settle with an error, which is
// how a store ends a commit that failed, is a Rewind: b stays open, for the writer to try again or Abort.
//
// spare is a batch of the writer's. It is emptied, and b takes its memory for what follows. It belongs
// to b until b is settled or taken back; then b has the writes that it had before, in its own memory.
//
// Mark panics if b is settled, is marked, or has been sealed.
func (b *Batch) Mark(spare *Batch) {
	b.mustBeOpen()
	if b.spare != nil || b.lateRun > 0 {
		panic("batch: a batch that is marked or sealed can't be marked")
	}
	spare.Reset()
	b.swap(spare)
	b.spare, b.parted, b.lated = spare, len(b.parts), len(b.late)
	b.ops = append(b.ops, spare.ops...)
	b.final.ops = append(b.final.ops, spare.final.ops...)
	b.wakeBy = spare.wakeBy
}

// Rewind takes back what was staged in b since Mark, by Late of its participants too. Those that were
// enlisted since are told that they have failed, for that reason, in the reverse of their order, and are
// in b no more. The others stay, and their Late is called again if b is sealed again. Rewind does nothing
// if b isn't marked, or is settled.
func (b *Batch) Rewind(reason error) {
	if b.spare == nil || b.settled {
		return
	}
	b.failed(b.parted, reason, false)
	clear(b.parts[b.parted:])
	clear(b.late[b.lated:])
	b.parts, b.late = b.parts[:b.parted], b.late[:b.lated]
	b.lateRun, b.lateErr = 0, nil
	b.unmark()
}

// unmark gives the spare batch its memory back.
func (b *Batch) unmark() {
	if b.spare != nil {
		b.swap(b.spare)
		b.spare = nil
	}
}

// swap exchanges the writes of two batches, and how they are to land.
func (b *Batch) swap(o *Batch) {
	b.Mode, o.Mode = o.Mode, b.Mode
	b.OverQuota, o.OverQuota = o.OverQuota, b.OverQuota
	b.Group, o.Group = o.Group, b.Group
	b.final, o.final = o.final, b.final
	b.wakeBy, o.wakeBy = o.wakeBy, b.wakeBy
}
