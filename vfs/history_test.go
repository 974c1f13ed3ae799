package vfs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A history is what concurrent transactions did and saw. The question is whether there is a serial
// order that explains all of it and keeps to real time: if one transaction ended before another
// began, it comes first.
//
// Every write appends a number of its own to a list, so a read tells which writes it came after,
// and which before. From that follows, for any two transactions that touched the same list, which
// one must come first; a cycle among these and the real times means that no order exists. Without a
// cycle the test plays one order back, so that it doesn't depend on the check.
//
// Transactions that were rolled back are part of the history as readers: what they saw must have
// been a state, and no other transaction may see what they wrote.
type history []*record

// A record is one transaction. Begin and end are of a clock that all of them share.
type record struct {
	begin, end int64
	committed  bool
	ops        []histOp
}

// A histOp is a read of the list key, or an append to it.
type histOp struct {
	key    int
	append int // what is appended; 0: a read
	saw    []int
}

func (r *record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%d to %d, committed %v:", r.begin, r.end, r.committed)
	for _, o := range r.ops {
		if o.append != 0 {
			fmt.Fprintf(&b, " %d+=%d", o.key, o.append)
		} else {
			fmt.Fprintf(&b, " %d=%v", o.key, o.saw)
		}
	}
	return b.String() + "]"
}

// wrote says whether r appended n.
func (r *record) wrote(n int) bool {
	return slices.ContainsFunc(r.ops, func(o histOp) bool { return o.append == n })
}

// own cuts off what r appended itself. What others appended must come before that.
func (r *record) own(saw []int) []int {
	n := len(saw)
	for n > 0 && r.wrote(saw[n-1]) {
		n--
	}
	return saw[:n]
}

// check returns an error unless a serial order explains h.
func (h history) check() error {
	lists, writer, err := h.lists()
	if err != nil {
		return err
	}
	g := newGraph(h)
	for key, list := range lists {
		for i := 1; i < len(list); i++ {
			g.before(writer[list[i-1]], writer[list[i]])
		}
		for at, r := range h {
			for _, o := range r.ops {
				if o.key != key || o.append != 0 {
					continue
				}
				n := len(r.own(o.saw))
				if n > 0 {
					g.before(writer[list[n-1]], at)
				}
				if n < len(list) {
					g.before(at, writer[list[n]])
				}
			}
		}
	}
	order, err := g.order(h)
	if err != nil {
		return err
	}
	return h.replay(order)
}

// lists returns the longest state of each list that a transaction saw, and which transaction wrote
// each number.
func (h history) lists() (lists map[int][]int, writer map[int]int, err error) {
	lists, writer = map[int][]int{}, map[int]int{}
	for at, r := range h {
		for _, o := range r.ops {
			if o.append != 0 && r.committed {
				writer[o.append] = at
			}
			if saw := r.own(o.saw); len(saw) > len(lists[o.key]) {
				lists[o.key] = saw
			} else if saw := o.saw; r.committed && len(saw) > len(lists[o.key]) {
				lists[o.key] = saw
			}
		}
	}
	for _, r := range h {
		for _, o := range r.ops {
			list := lists[o.key]
			if saw := r.own(o.saw); !slices.Equal(saw, list[:min(len(saw), len(list))]) {
				return nil, nil, fmt.Errorf("%v saw %v, and another transaction %v", r, saw, list)
			}
			if o.append != 0 && r.committed && !slices.Contains(list, o.append) {
				return nil, nil, fmt.Errorf("%d, which %v appended, is lost", o.append, r)
			}
		}
	}
	for _, list := range lists {
		for _, n := range list {
			if _, ok := writer[n]; !ok {
				return nil, nil, fmt.Errorf("%d was seen, but no committed transaction appended it", n)
			}
		}
	}
	return lists, writer, nil
}

// replay runs the transactions one after the other.
func (h history) replay(order []int) error {
	state := map[int][]int{}
	for _, at := range order {
		r := h[at]
		mine := map[int][]int{}
		for _, o := range r.ops {
			now, ok := mine[o.key]
			if !ok {
				now = state[o.key]
			}
			if o.append != 0 {
				mine[o.key] = append(slices.Clone(now), o.append)
			} else if !slices.Equal(o.saw, now) {
				return fmt.Errorf("%v sees %v where a serial run sees %v", r, o.saw, now)
			}
		}
		if r.committed {
			for key, list := range mine {
				state[key] = list
			}
		}
	}
	return nil
}

// A histGraph says what must come before what. Its first nodes are the transactions, the others the
// points of time. A transaction comes before its end and after its beginning, and each point comes
// before the next.
type histGraph struct {
	next     [][]int
	incoming []int
}

func newGraph(h history) *histGraph {
	var last int64
	for _, r := range h {
		last = max(last, r.begin, r.end)
	}
	n := len(h) + int(last) + 1
	g := &histGraph{next: make([][]int, n), incoming: make([]int, n)}
	for t := len(h); t+1 < n; t++ {
		g.before(t, t+1)
	}
	for at, r := range h {
		g.before(at, len(h)+int(r.end))
		g.before(len(h)+int(r.begin), at)
	}
	return g
}

func (g *histGraph) before(a, b int) {
	if a != b {
		g.next[a] = append(g.next[a], b)
		g.incoming[b]++
	}
}

// order returns the transactions in an order that keeps to everything, or an error
// with those that are in each other's way.
func (g *histGraph) order(h history) (order []int, err error) {
	var ready []int
	for at, n := range g.incoming {
		if n == 0 {
			ready = append(ready, at)
		}
	}
	for len(ready) > 0 {
		at := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		if at < len(h) {
			order = append(order, at)
		}
		for _, to := range g.next[at] {
			if g.incoming[to]--; g.incoming[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	if len(order) == len(h) {
		return order, nil
	}
	var stuck []string
	for at, r := range h {
		if g.incoming[at] > 0 && len(stuck) < 6 {
			stuck = append(stuck, r.String())
		}
	}
	return nil, fmt.Errorf("no serial order for %d transactions, among them %s", len(h)-len(order), strings.Join(stuck, "\n"))
}

func rd(key int, saw ...int) histOp { return histOp{key: key, saw: saw} }
func wr(key, n int) histOp          { return histOp{key: key, append: n} }

func done(begin, end int64, ops ...histOp) *record { return &record{begin, end, true, ops} }
func undone(begin, end int64, ops ...histOp) *record {
	return &record{begin, end, false, ops}
}

// TestHistoryCheck: the check finds every kind of anomaly, and reports only real ones.
func TestHistoryCheck(t *testing.T) {
	tests := []struct {
		name string
		ok   bool
		h    history
	}{
		{"nothing", true, nil},
		{"one after the other", true, history{done(1, 2, rd(1), wr(1, 7)), done(3, 4, rd(1, 7), wr(1, 8)), done(5, 6, rd(1, 7, 8))}},
		{"a reader of the old state beside the writer", true, history{done(1, 4, wr(1, 7), wr(2, 8)), done(2, 5, rd(1), rd(2)), done(6, 7, rd(1, 7), rd(2, 8))}},
		{"its own writes", true, history{done(1, 2, wr(1, 7), rd(1, 7), wr(1, 8), rd(1, 7, 8))}},
		{"a rollback", true, history{undone(1, 2, wr(1, 7), rd(1, 7)), done(3, 4, rd(1))}},
		{"a rollback at the end", true, history{done(1, 2, wr(1, 6)), undone(3, 4, rd(1, 6), wr(1, 7), rd(1, 6, 7))}},
		{"stale read", false, history{done(1, 2, wr(1, 7)), done(3, 4, rd(1)), done(5, 6, rd(1, 7))}},
		{"stale read of a transaction that is rolled back", false, history{done(1, 2, wr(1, 7)), undone(3, 4, rd(1)), done(5, 6, rd(1, 7))}},
		{"going back in time", false, history{done(1, 9, wr(1, 7)), done(2, 3, rd(1, 7)), done(4, 5, rd(1))}},
		{"torn read", false, history{done(1, 8, wr(1, 7), wr(2, 8)), done(2, 7, rd(1, 7), rd(2)), done(9, 10, rd(2, 8))}},
		{"non-repeatable read", false, history{done(1, 8, wr(1, 7)), done(2, 7, rd(1), rd(1, 7))}},
		{"dirty read", false, history{undone(1, 8, wr(1, 7)), done(2, 7, rd(1, 7))}},
		{"read from the middle", false, history{done(1, 8, wr(1, 7), wr(1, 8)), done(2, 7, rd(1, 7)), done(9, 10, rd(1, 7, 8))}},
		{"lost write", false, history{done(1, 2, wr(1, 7)), done(3, 4, wr(1, 8)), done(5, 6, rd(1, 8))}},
		{"lost write, unread", false, history{done(1, 2, wr(1, 7)), done(3, 4, rd(2))}},
		{"lost update", false, history{done(1, 5, rd(1), wr(1, 7)), done(2, 6, rd(1), wr(1, 8)), done(7, 8, rd(1, 7, 8))}},
		{"two orders", false, history{done(1, 2, wr(1, 7)), done(1, 2, wr(1, 8)), done(3, 4, rd(1, 7, 8)), done(3, 4, rd(1, 8, 7))}},
		{"write skew", false, history{done(1, 5, rd(1), wr(2, 7)), done(2, 6, rd(2), wr(1, 8)), done(7, 8, rd(1, 8), rd(2, 7))}},
		{"long fork", false, history{done(1, 9, wr(1, 7)), done(1, 9, wr(2, 8)), done(2, 8, rd(1, 7), rd(2)), done(2, 8, rd(1), rd(2, 8))}},
		{"blind to its own write", false, history{done(1, 2, wr(1, 7), rd(1)), done(3, 4, rd(1, 7))}},
		{"own write before others'", false, history{done(1, 2, wr(1, 7), rd(1, 7, 8)), done(1, 2, wr(1, 8)), done(3, 4, rd(1, 7, 8))}},
		{"a write out of nowhere", false, history{done(1, 2, rd(1, 9))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.h.check(); (err == nil) != tt.ok {
				t.Errorf("check says: %v", err)
			}
		})
	}
}
