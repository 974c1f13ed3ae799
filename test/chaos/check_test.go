//go:build unix

package chaos

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// An at is what an actor answers: how many increments it has, and the id of the last one.
type at struct{ actor, n, id int }

// did returns a call that was answered, with its time in milliseconds: an increment, and a look at the actors that have another one last. With the id 0 it is a look at all.
func did(id, begin, end int, ats ...at) call {
	c := call{Action: "add", ID: id, Begin: time.Duration(begin) * time.Millisecond, End: time.Duration(end) * time.Millisecond, Outcome: answered}
	if id == 0 {
		c.Action = "get"
	}
	for _, a := range ats {
		c.Actors = append(c.Actors, a.actor)
		c.Answers = append(c.Answers, sameEverywhere(tail{a.n, a.id}))
		if id != 0 && id == a.id {
			c.To = append(c.To, a.actor)
		}
	}
	return c
}

// without returns the call with another outcome, and no answer.
func without(c call, o outcome) call {
	c.Outcome, c.Answers = o, nil
	return c
}

// inTheEnd returns the reading of the first actors.
func inTheEnd(lists ...[]int) reading {
	r := reading{Lists: lists, Begin: time.Hour, End: time.Hour + 1}
	for i := range lists {
		r.Actors = append(r.Actors, i)
	}
	return r
}

// TestCheck has the checker look at small histories, those of what must never happen among
// them.
func TestCheck(t *testing.T) {
	add := func(id, begin, end, n int) call { return did(id, begin, end, at{0, n, id}) }
	get := func(begin, end, n, id int) call { return did(0, begin, end, at{0, n, id}) }
	apart := func(c call, change func(*answer)) call {
		change(&c.Answers[0])
		return c
	}
	for _, tc := range []struct {
		name  string
		calls []call
		list  []int
		want  porcupine.CheckResult
	}{
		{"one after the other", []call{add(1, 0, 1, 1), get(2, 3, 1, 1), add(2, 4, 5, 2)}, []int{1, 2}, porcupine.Ok},
		{"side by side", []call{add(1, 0, 9, 2), add(2, 0, 9, 1), get(0, 9, 1, 2)}, []int{2, 1}, porcupine.Ok},
		{"unknown, and landed", []call{without(add(1, 0, 1, 0), unknown), get(2, 3, 0, 0), get(4, 5, 1, 1)}, []int{1}, porcupine.Ok},
		{"unknown, and never landed", []call{without(add(1, 0, 1, 0), unknown), add(2, 2, 3, 1)}, []int{2}, porcupine.Ok},
		{"refused", []call{without(add(1, 0, 1, 0), refused), add(2, 2, 3, 1)}, []int{2}, porcupine.Ok},
		{"of another actor", []call{did(1, 0, 0, at{1, 7, 7}), add(2, 2, 3, 1)}, []int{2}, porcupine.Ok},

		{"lost and counted again", []call{add(1, 0, 1, 1), add(2, 2, 3, 1)}, []int{2}, porcupine.Illegal},
		{"lost", []call{add(1, 0, 1, 1), get(2, 3, 1, 1)}, nil, porcupine.Illegal},
		{"lost after it was seen", []call{without(add(1, 0, 1, 0), unknown), get(2, 3, 1, 1)}, nil, porcupine.Illegal},
		{"landed twice", []call{add(1, 0, 1, 1)}, []int{1, 1}, porcupine.Illegal},
		{"refused, and landed", []call{without(add(1, 0, 1, 0), refused), add(2, 2, 3, 2)}, []int{1, 2}, porcupine.Illegal},
		{"refused, and landed last", []call{without(add(1, 0, 1, 0), refused)}, []int{1}, porcupine.Illegal},
		{"a stale answer", []call{add(1, 0, 1, 1), get(2, 3, 0, 0)}, []int{1}, porcupine.Illegal},
		{"seen before it was asked for", []call{get(0, 1, 1, 1), add(1, 2, 3, 1)}, []int{1}, porcupine.Illegal},
		{"another's place", []call{add(1, 0, 1, 1), get(2, 3, 1, 2)}, []int{1}, porcupine.Illegal},
		{"SQL apart", []call{apart(add(1, 0, 1, 1), func(a *answer) { a.SQL.N++ })}, []int{1}, porcupine.Illegal},
		{"state apart", []call{apart(add(1, 0, 1, 1), func(a *answer) { a.State.N++ })}, []int{1}, porcupine.Illegal},
		{"key apart", []call{apart(add(1, 0, 1, 1), func(a *answer) { a.Key.ID++ })}, []int{1}, porcupine.Illegal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if v := check(operations(tc.calls, inTheEnd(tc.list))); v.result != tc.want {
				t.Errorf("got %s, want %s", v.result, tc.want)
			}
		})
	}
}

// TestCheckTogether is the same with calls of several actors. Of most that must never happen each actor alone has seen nothing.
func TestCheckTogether(t *testing.T) {
	add := func(actor, id, begin, end, n int) call { return did(id, begin, end, at{actor, n, id}) }
	get := func(actor, begin, end, n, id int) call { return did(0, begin, end, at{actor, n, id}) }
	both := func(id, begin, end, n, m int) call { return did(id, begin, end, at{0, n, id}, at{1, m, id}) }
	look := func(begin, end, n, id, m, im int) call { return did(0, begin, end, at{0, n, id}, at{1, m, im}) }
	of := func(id int, actors ...int) call { // of which the client knows nothing
		return call{Action: "add", ID: id, Actors: actors, To: actors, Outcome: unknown}
	}
	type lists = [][]int
	const ok, no = porcupine.Ok, porcupine.Illegal
	for _, tc := range []struct {
		name  string
		calls []call
		lists lists
		want  porcupine.CheckResult
		alone porcupine.CheckResult // of the actors, each by itself
		torn  bool
	}{
		{"one after the other", []call{both(1, 0, 1, 1, 1), add(1, 2, 2, 3, 2), look(4, 5, 1, 1, 2, 2)}, lists{{1}, {1, 2}}, ok, ok, false},
		{"the other one first", []call{add(0, 2, 0, 1, 1), did(1, 2, 3, at{1, 1, 1}, at{0, 2, 1})}, lists{{2, 1}, {1}}, ok, ok, false},
		{"side by side", []call{both(1, 0, 9, 2, 2), both(2, 0, 9, 1, 1), look(0, 9, 1, 2, 1, 2)}, lists{{2, 1}, {2, 1}}, ok, ok, false},
		{"a look before", []call{both(1, 0, 9, 1, 1), look(0, 9, 0, 0, 0, 0)}, lists{{1}, {1}}, ok, ok, false},
		{"a look between", []call{add(0, 1, 0, 9, 1), add(1, 2, 0, 9, 1), look(0, 9, 0, 0, 1, 2)}, lists{{1}, {2}}, ok, ok, false},
		{"unknown, and landed", []call{of(1, 0, 1), look(2, 3, 0, 0, 0, 0), look(4, 5, 1, 1, 1, 1)}, lists{{1}, {1}}, ok, ok, false},
		{"unknown, and never landed", []call{of(1, 0, 1), both(2, 2, 3, 1, 1)}, lists{{2}, {2}}, ok, ok, false},
		{"refused", []call{without(of(1, 0, 1), refused), both(2, 2, 3, 1, 1)}, lists{{2}, {2}}, ok, ok, false},
		{"a circle in space, not in time", []call{of(1, 0, 1), of(2, 1, 2), of(3, 2, 0)}, lists{{1, 3}, {1, 2}, {2, 3}}, ok, ok, false},
		{"a look at the one, an increment of the other", []call{add(0, 1, 0, 1, 1), did(2, 2, 3, at{0, 1, 1}, at{1, 1, 2})}, lists{{1}, {2}}, ok, ok, false},
		{"the same, unknown", []call{{Action: "add", ID: 2, Actors: []int{0, 1}, To: []int{1}, Outcome: unknown}, add(0, 1, 0, 1, 1)}, lists{{1}, {2}}, ok, ok, false},

		{"each sees the other one before", []call{did(1, 0, 9, at{0, 0, 0}, at{1, 1, 1}), did(2, 0, 9, at{1, 0, 0}, at{0, 1, 2})}, lists{{2}, {1}}, no, ok, false},
		{"lost, and looked at in the same turn", []call{did(2, 2, 3, at{0, 1, 1}, at{1, 1, 2}), without(add(0, 1, 0, 1, 1), unknown)}, lists{nil, {2}}, no, no, false},
		{"half landed", []call{both(1, 0, 1, 1, 1)}, lists{{1}, nil}, no, no, true},
		{"half landed, unknown", []call{of(1, 0, 1)}, lists{nil, {1}}, no, ok, true},
		{"half landed, refused", []call{without(of(1, 0, 1), refused)}, lists{{1}, nil}, no, no, true},
		{"half landed of three", []call{of(1, 0, 1, 2)}, lists{{1}, {1}, nil}, no, ok, true},
		{"half landed, and lost after it was seen", []call{of(1, 0, 1), get(1, 2, 3, 1, 1)}, lists{{1}, nil}, no, no, true},
		{"lost after it was seen", []call{of(1, 0, 1), look(2, 3, 1, 1, 1, 1)}, lists{nil, nil}, no, no, false},
		{"refused, and landed", []call{without(of(1, 0, 1), refused)}, lists{{1}, {1}}, no, no, false},
		{"in different orders", []call{of(1, 0, 1), of(2, 0, 1)}, lists{{1, 2}, {2, 1}}, no, ok, false},
		{"in different orders, answered", []call{both(1, 0, 9, 1, 2), both(2, 0, 9, 2, 1)}, lists{{1, 2}, {2, 1}}, no, ok, false},
		{"in a circle", []call{of(1, 0, 1), of(2, 1, 2), of(3, 2, 0)}, lists{{1, 3}, {2, 1}, {3, 2}}, no, ok, false},
		{"a look at the one half", []call{both(1, 0, 9, 1, 1), look(0, 9, 1, 1, 0, 0)}, lists{{1}, {1}}, no, ok, false},
		{"a look at the other half", []call{of(1, 0, 1), look(2, 3, 0, 0, 1, 1)}, lists{{1}, {1}}, no, ok, false},
		{"two looks at the halves", []call{both(1, 0, 9, 1, 1), get(0, 1, 2, 1, 1), get(1, 3, 4, 0, 0)}, lists{{1}, {1}}, no, ok, false},
		{"a look at no moment", []call{add(0, 1, 1, 2, 1), add(1, 2, 3, 4, 1), look(0, 9, 0, 0, 1, 2)}, lists{{1}, {2}}, no, ok, false},
		{"a stale look", []call{both(1, 0, 1, 1, 1), look(2, 3, 0, 0, 0, 0)}, lists{{1}, {1}}, no, no, false},
		{"two looks, one back", []call{of(1, 0, 1), look(2, 3, 1, 1, 1, 1), look(4, 5, 0, 0, 0, 0)}, lists{{1}, {1}}, no, no, false},
		{"late in one list", []call{both(1, 0, 1, 1, 2), add(1, 2, 2, 3, 1)}, lists{{1}, {2, 1}}, no, no, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := inTheEnd(tc.lists...)
			if v := check(operations(tc.calls, r)); v.result != tc.want {
				t.Errorf("got %s, want %s", v.result, tc.want)
			}
			alone := ok
			for i := range tc.lists {
				if v := check(operations(tc.calls, r.of(i))); v.result != porcupine.Ok {
					alone = v.result
				}
			}
			if alone != tc.alone {
				t.Errorf("each alone: got %s, want %s", alone, tc.alone)
			}
			if torn := halves(tc.calls, r); len(torn) > 0 != tc.torn {
				t.Errorf("halves: %q, want some: %v", torn, tc.torn)
			}
		})
	}
}
