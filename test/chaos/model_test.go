//go:build unix

package chaos

import (
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// model is an actor: a list of increments, of which each answer is the tail.
//
// What became of a call whose outcome its client doesn't know is told by the list that is
// read in the end: either the increment has its place in it, and then it landed at some
// moment after it was asked for, or it didn't land before that reading. So no state is
// uncertain, and the checker tries only the orders of calls that overlap.
var model = porcupine.Model{
	Init: func() any { return tail{} },
	Step: func(state, input, output any) (bool, any) {
		t, in, out := state.(tail), input.(call), output.(answer)
		if in.Action == "add" {
			t = tail{t.N + 1, in.ID}
		}
		return out.SQL == t && out.State == t && out.Key == t, t
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(call), output.(answer)
		s := fmt.Sprintf("%s %d: %d", in.Action, in.ID, out.State.N)
		if in.Action == "get" {
			s = fmt.Sprintf("get: %d (%d)", out.State.N, out.State.ID)
		}
		if out.SQL != out.State || out.Key != out.State {
			s += fmt.Sprintf(", but SQL %v, key %v", out.SQL, out.Key)
		}
		return s + " " + out.Process + " " + string(in.Outcome)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%d (%d)", state.(tail).N, state.(tail).ID) },
}

// operations returns the calls of one actor, and the reading of it in the end, as the
// checker takes them.
func operations(calls []call, r reading) []porcupine.Operation {
	place := map[int]tail{}
	for i, id := range r.List {
		place[id] = tail{i + 1, id}
	}
	var ops []porcupine.Operation
	clients := 0
	for _, c := range calls {
		clients = max(clients, c.Client+1)
	}
	for _, c := range calls {
		op := porcupine.Operation{ClientId: c.Client, Input: c, Output: c.Answer, Call: int64(c.Begin), Return: int64(c.End)}
		if t, landed := place[c.ID]; c.Outcome == unknown && landed {
			op.Output, op.Return = answer{SQL: t, State: t, Key: t}, math.MaxInt64
			op.ClientId, clients = clients, clients+1 // its client goes on
		} else if c.Outcome != answered {
			continue
		}
		if c.Actor == r.Actor {
			ops = append(ops, op)
		}
	}
	t := tail{N: len(r.List)}
	if t.N > 0 {
		t.ID = r.List[t.N-1]
	}
	return append(ops, porcupine.Operation{
		ClientId: clients, Call: int64(r.Begin), Return: int64(r.End),
		Input: call{Client: clients, Actor: r.Actor, Action: "get", Outcome: answered}, Output: answer{SQL: t, State: t, Key: t},
	})
}

// checkTime bounds the checker's work on one actor.
const checkTime = time.Minute

// A verdict is what the checker says of one actor.
type verdict struct {
	result porcupine.CheckResult
	info   porcupine.LinearizationInfo
}

// check says whether there is an order.
func check(ops []porcupine.Operation) verdict {
	result, info := porcupine.CheckOperationsVerbose(model, ops, checkTime)
	return verdict{result, info}
}

// picture writes a page that shows how far an order goes.
func (v verdict) picture(w io.Writer, events []event) error {
	var as []porcupine.Annotation
	for _, e := range events {
		as = append(as, porcupine.Annotation{Tag: e.Kind, Start: int64(e.Begin), End: int64(e.End), Description: e.What})
	}
	v.info.AddAnnotations(as)
	return porcupine.Visualize(model, v.info, w)
}

// TestCheck has the checker look at small histories, those of what must never happen among
// them.
func TestCheck(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	at := func(n, id int) answer { t := tail{n, id}; return answer{SQL: t, State: t, Key: t} }
	add := func(id, begin, end, n int) call {
		return call{Action: "add", ID: id, Begin: ms(begin), End: ms(end), Outcome: answered, Answer: at(n, id)}
	}
	get := func(begin, end, n, id int) call {
		return call{Action: "get", Begin: ms(begin), End: ms(end), Outcome: answered, Answer: at(n, id)}
	}
	without := func(c call, o outcome) call {
		c.Outcome, c.Answer = o, answer{}
		return c
	}
	apart := func(c call, change func(*answer)) call {
		change(&c.Answer)
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
		{"of another actor", []call{{Actor: 1, Action: "add", ID: 1, Outcome: answered, Answer: at(7, 7)}, add(2, 2, 3, 1)}, []int{2}, porcupine.Ok},

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
			v := check(operations(tc.calls, reading{List: tc.list, Begin: ms(100), End: ms(101)}))
			if v.result != tc.want {
				t.Errorf("got %s, want %s", v.result, tc.want)
			}
		})
	}
}
