package batch

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
// if b isn't marked.
func (b *Batch) Rewind(reason error) {
	if b.spare == nil {
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
