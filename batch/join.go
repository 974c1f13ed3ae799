package batch

// Join makes the writes of o a part of what b commits: behind those that b has, and
// its final ones behind b's. o's Late functions run when b is sealed, on b. When b is
// applied o is settled with it; when b is refused o stays as it is, and may be joined
// to another batch. A Late function may therefore run more than once, each time on
// a batch of its own, whose hooks undo what it did.
//
// o must not change until b is settled, and may belong to one open batch at a time.
// Its Mode is ignored. Joining a settled o panics.
func (b *Batch) Join(o *Batch) {
	o.mustBeOpen()
	b.ops = append(b.ops, o.ops...)
	b.final.ops = append(b.final.ops, o.final.ops...)
	if len(o.late) > 0 {
		b.Late(func(b *Batch) error {
			for _, fn := range o.late {
				if err := fn(b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.OnCommit(func() { o.Settle(nil) })
}
