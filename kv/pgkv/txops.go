package pgkv

import (
	"slices"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// The operations of a transaction are of two kinds. Of the plain ones, which set and
// remove, a plan says what is left in the end. What the others do is known to the server
// alone: it evaluates atomic operations with a function of its own (schema.go), and puts
// the versionstamp in place. Each statement sees what those before it did, so operations
// need no more than to be sent in their order.

// plain says whether an operation can be part of a plan.
func plain(o *txn.Op) bool {
	return o.Kind == kv.OpSet || o.Kind == kv.OpClear || o.Kind == kv.OpClearRange
}

// prepare checks the operations and brings them into the order to send them in.
func (t *txCommit) prepare() error {
	t.ops = t.c.Ops
	if err := validate(&kv.Commit{Ops: t.changed()}); err != nil {
		return err
	}
	for i := range t.ops {
		if t.ops[i].Kind == txn.OpStampKey {
			return nil // any two may be about the same key
		}
	}
	// Now no plain operation is about the key of another kind of operation, and ranges
	// come before keys: see txn.Commit.
	t.ops = slices.Clone(t.ops)
	slices.SortStableFunc(t.ops, func(a, b txn.Op) int { return rank(&a) - rank(&b) })
	return nil
}

func rank(o *txn.Op) int {
	switch {
	case plain(o):
		return 0
	case o.Kind == txn.OpStampValue:
		return 1
	}
	return 2
}

// changed returns operations of a commit that change the same keys. Until the stamp is
// known it stands for others.
func (t *txCommit) changed() []kv.Op {
	out := make([]kv.Op, 0, len(t.c.Ops))
	for i := range t.c.Ops {
		switch o := &t.c.Ops[i]; o.Kind {
		case kv.OpClear:
			out = append(out, kv.Clear(o.Key))
		case kv.OpClearRange:
			out = append(out, kv.ClearRange(o.Key, o.Value))
		case txn.OpStampKey:
			out = append(out, kv.Set(stamped(o.Key, o.Offset, t.stamp), o.Value))
		default:
			out = append(out, kv.Set(o.Key, o.Value))
		}
	}
	return out
}

// size returns about how many bytes are sent.
func (t *txCommit) size() int {
	n := 0
	for i := range t.c.Ops {
		n += len(t.c.Ops[i].Key) + len(t.c.Ops[i].Value)
	}
	for _, spans := range [][]txn.Span{t.c.Reads, t.c.Reads, t.c.Writes} { // what was read is sent twice
		for _, s := range spans {
			n += len(s.Start) + len(s.End)
		}
	}
	return n
}

// bits returns how many bytes of operands there are that the server takes apart.
func (t *txCommit) bits() (n int) {
	for i := range t.c.Ops {
		if o := &t.c.Ops[i]; o.Kind == txn.OpAtomic && o.Mutation <= lastOfBits {
			n += len(o.Value)
		}
	}
	return n
}

// change sends the operations.
func (t *txCommit) change(f *flow, p *plan) {
	for ops := t.ops; len(ops) > 0; {
		n := 0
		for n < len(ops) && plain(&ops[n]) {
			n++
		}
		if n > 0 {
			f.plain(p, ops[:n])
		} else if n = onceEach(ops); ops[0].Kind == txn.OpAtomic {
			f.atomic(p, ops[:n])
		} else {
			f.stamp(p, ops[:n])
		}
		ops = ops[n:]
	}
}

// onceEach returns how many of ops, at least the first, can be done by one statement: of
// one kind, each about another key, and not too large.
func onceEach(ops []txn.Op) (n int) {
	keys := map[string]bool{}
	size := 0
	for ; n < len(ops) && ops[n].Kind == ops[0].Kind; n++ {
		o := &ops[n]
		key := o.Key
		if o.Kind == txn.OpStampKey {
			// Keys with the stamp at the same place differ if the rest of them does.
			if o.Offset != ops[0].Offset {
				break
			}
			key = stamped(key, o.Offset, txn.Stamp{})
		}
		size += len(o.Key) + len(o.Value)
		if n > 0 && (size > maxRequest || keys[string(key)]) {
			break
		}
		keys[string(key)] = true
	}
	return n
}

// plain sends plain operations.
func (f *flow) plain(p *plan, ops []txn.Op) {
	if f.err != nil {
		return
	}
	c := kv.Commit{Ops: make([]kv.Op, 0, len(ops))}
	for i := range ops {
		o := &ops[i]
		switch o.Kind {
		case kv.OpSet:
			c.Ops = append(c.Ops, kv.Set(o.Key, o.Value))
		case kv.OpClear:
			c.Ops = append(c.Ops, kv.Clear(o.Key))
		default:
			c.Ops = append(c.Ops, kv.ClearRange(o.Key, o.Value))
		}
	}
	if f.err = p.make(&c); f.err == nil {
		f.change(p, place{})
	}
}

// atomic sends atomic operations on keys that differ.
func (f *flow) atomic(p *plan, ops []txn.Op) {
	var kinds array
	p.reset()
	for i := range ops {
		o := &ops[i]
		p.keys.add(p.spare.surrogate(o.Key))
		p.rests.add(restOf(o.Key))
		kinds.number(int64(o.Mutation))
		p.vals.add(notNil(o.Value))
	}
	// What is foreseen, if anything, the server knows.
	f.send(f.c.sql.mutate, p.keys.bytes(), p.rests.bytes(), kinds.bytes(), p.vals.bytes(), nil, nil)
}

// stamp sends operations of one kind that need the stamp, on keys that differ.
func (f *flow) stamp(p *plan, ops []txn.Op) {
	var at array
	p.reset()
	for i := range ops {
		o := &ops[i]
		p.keys.add(o.Key)
		p.vals.add(notNil(o.Value))
		at.number(int64(o.Offset) + 1) // the server counts from 1
	}
	s := f.c.sql.stampValue
	if ops[0].Kind == txn.OpStampKey {
		s = f.c.sql.stampKey
	}
	f.send(s, p.keys.bytes(), p.vals.bytes(), at.bytes())
}
