package optimistic

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/overlay"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A group is what several transactions commit together: operations that the engine
// knows, in which everything is resolved.
type group struct {
	ops []kv.Op
	// state is what ops make, for atomic operations: they see what comes before them
	// in the group. It knows ops[:known], and is only made when it is needed.
	state overlay.Map[struct{}]
	known int
}

// commit applies the requests that conflict with nothing, as one commit of the
// engine, and sets the results of the others. wait returns when what was applied is
// durable.
func (c *Core) commit(requests []*request) (wait func() error) {
	c.store.Lock()
	defer c.store.Unlock()
	defer c.group.reset()
	version, accepted := c.store.Version()+1, 0
	for _, r := range requests {
		before := len(c.group.ops)
		if r.err = c.admit(r, version, uint16(accepted)); r.err != nil {
			c.group.cut(before)
			c.store.Record(r.commit.ID, kv.OutcomeNotApplied)
			continue
		}
		accepted++
		// The next of the group may have read what this one writes.
		c.note(c.group.ops[before:], r.commit.Writes, version)
	}
	defer c.finish(requests)
	if accepted == 0 {
		return func() error { return nil }
	}
	wait, err := c.store.Apply(c.group.ops, version)
	for _, r := range requests {
		switch {
		case r.err != nil:
		case err == nil:
			c.store.Record(r.commit.ID, kv.OutcomeApplied)
		default:
			r.err, r.stamp = err, txn.Stamp{}
			if !errors.Is(err, kv.ErrPoisoned) {
				c.store.Record(r.commit.ID, kv.OutcomeNotApplied)
			}
		}
	}
	if err != nil {
		return func() error { return nil }
	}
	for i := range c.group.ops {
		c.watches.changed(&c.group.ops[i])
	}
	return wait
}

// finish takes the attempts of a group from the list.
func (c *Core) finish(requests []*request) {
	for _, r := range requests {
		r.attempt.ended = true
	}
	c.expire()
}

// admit checks one request, and adds its operations to the group.
func (c *Core) admit(r *request, version uint64, order uint16) error {
	a := r.attempt
	// Without a pinned state the transaction read nothing, and what it declares to
	// have read is of the state that it is applied to.
	if a.snap != nil && len(r.commit.Reads) > 0 {
		if a.ended || a.tooOld() {
			return fmt.Errorf("optimistic: commit: %w", txn.ErrTooOld)
		}
		for _, s := range r.commit.Reads {
			if c.history.after(s.Start, s.End, a.version) {
				return fmt.Errorf("optimistic: commit: %w: what it read in [%q, %q) has changed",
					kv.ErrConflict, short(s.Start), short(s.End))
			}
		}
	}
	binary.BigEndian.PutUint64(r.stamp[:8], version)
	binary.BigEndian.PutUint16(r.stamp[8:], order)
	before := len(c.group.ops)
	for i := range r.commit.Ops {
		if err := c.group.add(c.store, &r.commit.Ops[i], r.stamp); err != nil {
			r.stamp = txn.Stamp{}
			return fmt.Errorf("optimistic: commit: operation %d: %w", i, err)
		}
	}
	if err := c.store.Valid(c.group.ops[before:]); err != nil {
		r.stamp = txn.Stamp{}
		return err
	}
	return nil
}

// short is as much of a key as an error message can use.
func short(key []byte) []byte { return key[:min(len(key), 64)] }

// add resolves one operation and appends it.
func (g *group) add(s store, o *txn.Op, stamp txn.Stamp) error {
	switch o.Kind {
	case kv.OpSet:
		g.ops = append(g.ops, kv.Set(o.Key, o.Value))
	case kv.OpClear:
		g.ops = append(g.ops, kv.Clear(o.Key))
	case kv.OpClearRange:
		g.ops = append(g.ops, kv.ClearRange(o.Key, o.Value))
	case txn.OpAtomic:
		return g.atomic(s, o)
	case txn.OpStampKey, txn.OpStampValue:
		key, value := o.Key, o.Value
		stamped := &key
		if o.Kind == txn.OpStampValue {
			stamped = &value
		}
		if o.Offset < 0 || o.Offset+len(stamp) > len(*stamped) {
			return fmt.Errorf("%w: a stamp at %d of %d bytes", kv.ErrInvalid, o.Offset, len(*stamped))
		}
		*stamped = clone(*stamped)
		copy((*stamped)[o.Offset:], stamp[:])
		g.ops = append(g.ops, kv.Set(key, value))
	default:
		return fmt.Errorf("%w: kind %d", kv.ErrInvalid, o.Kind)
	}
	return nil
}

// atomic evaluates an atomic operation against the newest state and the operations
// before it in the group.
func (g *group) atomic(s store, o *txn.Op) error {
	if !o.Mutation.Valid() {
		return fmt.Errorf("%w: mutation %d", kv.ErrInvalid, o.Mutation)
	}
	g.catchUp()
	var value []byte
	p, ok := g.state.Get(o.Key)
	exists := p.Kind == overlay.Value
	if value = p.Value; !ok {
		v, err := s.Read(o.Key, nil)
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		value, exists = v, err == nil
	}
	if value, exists = o.Mutation.Apply(value, exists, o.Value); exists {
		g.ops = append(g.ops, kv.Set(o.Key, value))
	} else {
		g.ops = append(g.ops, kv.Clear(o.Key))
	}
	return nil
}

// catchUp makes state know all operations.
func (g *group) catchUp() {
	for ; g.known < len(g.ops); g.known++ {
		switch o := &g.ops[g.known]; {
		case o.Kind == kv.OpSet:
			g.state.Set(o.Key, o.Value)
		case o.Kind == kv.OpClear:
			g.state.Clear(o.Key)
		case string(o.Key) < string(o.Value):
			g.state.ClearRange(o.Key, o.Value)
		}
	}
}

// cut forgets the operations from the nth on.
func (g *group) cut(n int) {
	clear(g.ops[n:])
	if g.ops = g.ops[:n]; g.known > n {
		g.state, g.known = overlay.Map[struct{}]{}, 0
	}
}

// keepOps is how many operations' room is kept for the next group.
const keepOps = 1024

func (g *group) reset() {
	g.cut(0)
	g.state, g.known = overlay.Map[struct{}]{}, 0
	if cap(g.ops) > keepOps {
		g.ops = nil
	}
}
