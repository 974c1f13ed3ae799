package pgkv

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/kv"
)

// A plan is what a commit does to the table, in an order that PostgreSQL can do it in:
// a statement changes a row at most once, and of the operations on a key the last one
// counts. Its memory is used again.
type plan struct {
	order []int // operations on single keys, by key, the last on a key first

	// Rows that must have a value, by key.
	checks []*kv.Check
	// Keys that must be absent, by key; they are inserted.
	absent []write
	sets   []write  // by key, no absent ones
	clears [][]byte // surrogates, by key
	// Ranges that are removed, without what sets has of them: by key, disjoint.
	ranges []kv.Range
	later  cleared // says which of them come after an operation

	spare arena
	keys  array // scratch of the encoder
	rests array
	vals  array
}

// plans are plans that aren't in use.
var plans = sync.Pool{New: func() any { return new(plan) }}

// A write is a row that gets a value.
type write struct {
	key, rest, value []byte // the surrogate
}

func (w write) compare(o write) int { return bytes.Compare(w.key, o.key) }

// An arena is memory for the surrogates of long keys.
type arena struct{ buf []byte }

// surrogate returns the surrogate of key, which is key itself if that is short.
func (a *arena) surrogate(key []byte) []byte {
	if len(key) <= prefixLen {
		return key
	}
	n := len(a.buf)
	a.buf = appendSurrogate(a.buf, key)
	return a.buf[n:len(a.buf):len(a.buf)]
}

// errFails says that the checks of a commit can't hold, whatever is stored.
var errFails = fmt.Errorf("%w: its checks exclude each other, or want a value of the empty key", kv.ErrConflict)

// make fills the plan for c.
func (p *plan) make(c *kv.Commit) error {
	p.reset()
	if err := validate(c); err != nil {
		return err
	}
	p.takeOps(c.Ops)
	return p.takeChecks(c.Checks)
}

// reset empties the plan and keeps its memory, unless that is much.
func (p *plan) reset() {
	clear(p.checks)
	clear(p.absent)
	clear(p.sets)
	clear(p.clears)
	clear(p.ranges)
	p.order, p.checks, p.absent = p.order[:0], p.checks[:0], p.absent[:0]
	p.sets, p.clears, p.ranges = p.sets[:0], p.clears[:0], p.ranges[:0]
	p.later.reset()
	p.spare.buf = p.spare.buf[:0]
	const keep = 4 << 20
	for _, a := range []*array{&p.keys, &p.rests, &p.vals} {
		if a.reset(); cap(a.buf) > keep {
			a.buf = nil
		}
	}
}

// validate checks limits and the rules of operations.
func validate(c *kv.Commit) error {
	if len(c.Ops) > maxOps {
		return fmt.Errorf("%w: %d operations, the limit is %d", kv.ErrTooLarge, len(c.Ops), maxOps)
	}
	size := 0
	for i := range c.Ops {
		o := &c.Ops[i]
		if o.Kind != kv.OpSet && o.Kind != kv.OpClear && o.Kind != kv.OpClearRange {
			return fmt.Errorf("%w: op %d", kv.ErrInvalid, i)
		}
		size += len(o.Key) + len(o.Value)
		bound := maxValue
		if o.Kind == kv.OpClearRange {
			bound = maxKey
		}
		switch {
		case len(o.Key) > maxKey:
			return fmt.Errorf("%w: key of op %d has %d bytes, the limit is %d", kv.ErrTooLarge, i, len(o.Key), maxKey)
		case len(o.Value) > bound:
			return fmt.Errorf("%w: value of op %d has %d bytes, the limit is %d", kv.ErrTooLarge, i, len(o.Value), bound)
		case size > maxBytes:
			return fmt.Errorf("%w: more than %d bytes", kv.ErrTooLarge, maxBytes)
		}
	}
	size = 0
	for i := range c.Checks {
		if size += len(c.Checks[i].Key) + len(c.Checks[i].Value); size > maxBytes {
			return fmt.Errorf("%w: checks of more than %d bytes", kv.ErrTooLarge, maxBytes)
		}
	}
	for i := range c.Ops {
		o := &c.Ops[i]
		must := o.Key
		if o.Kind == kv.OpClearRange {
			must = o.Value
		}
		if len(must) == 0 {
			return fmt.Errorf("%w: op %d", kv.ErrInvalid, i)
		}
	}
	return nil
}

// takeOps finds out what is left of the operations in the end: for each key its last
// one, unless a range was cleared later.
func (p *plan) takeOps(ops []kv.Op) {
	for i := range ops {
		if o := &ops[i]; o.Kind != kv.OpClearRange {
			p.order = append(p.order, i)
		} else if bytes.Compare(o.Key, o.Value) < 0 {
			p.ranges = append(p.ranges, kv.Range{Start: o.Key, End: o.Value, Limit: i})
		}
	}
	p.later.paint(p.ranges)
	p.ranges = merge(p.ranges)
	slices.SortFunc(p.order, func(a, b int) int {
		return cmp.Or(bytes.Compare(ops[a].Key, ops[b].Key), cmp.Compare(b, a))
	})
	for n, i := range p.order {
		o := &ops[i]
		if n > 0 && bytes.Equal(ops[p.order[n-1]].Key, o.Key) || p.later.by(o.Key) > i {
			continue
		}
		key := p.spare.surrogate(o.Key)
		if o.Kind == kv.OpClear {
			p.clears = append(p.clears, key)
		} else {
			p.sets = append(p.sets, write{key, restOf(o.Key), notNil(o.Value)})
		}
	}
	if len(p.spare.buf) > 0 { // long keys, whose surrogates have an order of their own
		slices.SortFunc(p.sets, write.compare)
		slices.SortFunc(p.clears, bytes.Compare)
	}
}

// alone says that no other commit may be under way beside this one. It removes what it
// can't lock, keys that are not there yet, and shares no row with the commits that write
// them: at READ COMMITTED it would miss what they are just inserting. A commit that checks
// a key is ordered by that key, among all that check it.
func (p *plan) alone() bool {
	return len(p.checks)+len(p.absent) == 0 && len(p.clears)+len(p.ranges) > 0
}

// takeChecks sorts the checks and takes those apart that want a key to be absent.
func (p *plan) takeChecks(checks []kv.Check) error {
	for i := range checks {
		p.checks = append(p.checks, &checks[i])
	}
	slices.SortFunc(p.checks, func(a, b *kv.Check) int { return bytes.Compare(a.Key, b.Key) })
	n := 0
	for i, c := range p.checks {
		if i > 0 && bytes.Equal(p.checks[i-1].Key, c.Key) {
			if last := p.checks[i-1]; last.Absent != c.Absent || !c.Absent && !bytes.Equal(last.Value, c.Value) {
				return errFails
			}
			continue
		}
		switch {
		case len(c.Key) == 0 && !c.Absent:
			return errFails
		case len(c.Key) == 0:
		case c.Absent:
			p.takeAbsent(c.Key)
		default:
			p.checks[n] = c
			n++
		}
	}
	clear(p.checks[n:])
	p.checks = p.checks[:n]
	return nil
}

// takeAbsent plans that a key is inserted, with the value that the commit gives it, or
// to be removed again.
func (p *plan) takeAbsent(key []byte) {
	k := p.spare.surrogate(key)
	i, set := slices.BinarySearchFunc(p.sets, k, func(w write, k []byte) int { return bytes.Compare(w.key, k) })
	if set {
		p.absent = append(p.absent, p.sets[i])
		p.sets = slices.Delete(p.sets, i, i+1)
		return
	}
	p.absent = append(p.absent, write{k, restOf(key), []byte{}})
	i, cleared := slices.BinarySearchFunc(p.clears, k, bytes.Compare)
	if !cleared {
		p.clears = slices.Insert(p.clears, i, k)
	}
}

// size returns about how many bytes the plan sends.
func (p *plan) size() int {
	n := 0
	for _, rows := range [][]write{p.sets, p.absent} {
		for i := range rows {
			n += len(rows[i].key) + len(rows[i].rest) + len(rows[i].value)
		}
	}
	for _, c := range p.checks {
		n += len(c.Key) + len(c.Value)
	}
	for _, k := range p.clears {
		n += len(k)
	}
	for i := range p.ranges {
		n += len(p.ranges[i].Start) + len(p.ranges[i].End)
	}
	return n
}

// each calls fn with the surrogate of each key that a plan without ranges names, until it
// returns false, and returns whether it never did.
func (p *plan) each(fn func(key []byte) bool) bool {
	for _, c := range p.checks {
		if !fn(p.spare.surrogate(c.Key)) {
			return false
		}
	}
	for _, rows := range [][]write{p.absent, p.sets} {
		for i := range rows {
			if !fn(rows[i].key) {
				return false
			}
		}
	}
	for _, key := range p.clears {
		if !fn(key) {
			return false
		}
	}
	return true
}

// add adds what another plan does, which has no key in common with p and no ranges; sort must
// follow.
func (p *plan) add(o *plan) {
	p.checks = append(p.checks, o.checks...)
	p.absent = append(p.absent, o.absent...)
	p.sets = append(p.sets, o.sets...)
	p.clears = append(p.clears, o.clears...)
}

func (p *plan) sort() {
	slices.SortFunc(p.checks, func(a, b *kv.Check) int { return bytes.Compare(a.Key, b.Key) })
	slices.SortFunc(p.absent, write.compare)
	slices.SortFunc(p.sets, write.compare)
	slices.SortFunc(p.clears, bytes.Compare)
}
