package batch

// Join makes the writes of o a part of what b commits: behind those that b has, and
// its final ones behind b's. Late of o's participants is called when b is sealed, with b.
// When b is applied o is settled with it; when b is refused o stays as it is, and may be
// joined to another batch.
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

func (j joined) Landed()          { j.of.Settle(nil) }
func (joined) Failed(error, bool) {}
