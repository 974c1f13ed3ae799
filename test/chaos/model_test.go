//go:build unix

package chaos

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// model is the actors: lists of increments, of which each answer is the tail. A call of several actors is one step.
//
// What became of a call whose outcome its client doesn't know is told by the lists that are
// read in the end: either the increment has its place in them, and then it landed at some
// moment after it was asked for, or it didn't land before that reading. So no state is
// uncertain, and the checker tries only the orders of calls that overlap.
var model = porcupine.Model{
	Init: func() any { return [actors]tail{} },
	Step: func(state, input, output any) (bool, any) {
		ts, in := state.([actors]tail), input.(call)
		for i, out := range output.([]answer) {
			t := ts[in.Actors[i]]
			if slices.Contains(in.To, in.Actors[i]) {
				t = tail{t.N + 1, in.ID}
			}
			if out.SQL != t || out.State != t || out.Key != t {
				return false, state
			}
			ts[in.Actors[i]] = t
		}
		return true, ts
	},
	DescribeOperation: func(input, output any) string {
		in := input.(call)
		s := in.Action
		if in.ID != 0 {
			s += fmt.Sprint(" ", in.ID)
		}
		for i, out := range output.([]answer) {
			s += fmt.Sprintf(", %d: %d (%d)", in.Actors[i], out.State.N, out.State.ID)
			if out.SQL != out.State || out.Key != out.State {
				s += fmt.Sprintf(", but SQL %v, key %v", out.SQL, out.Key)
			}
			s += " " + out.Process
		}
		return s + " " + string(in.Outcome)
	},
	DescribeState: func(state any) (s string) {
		for i, t := range state.([actors]tail) {
			if t.N > 0 {
				s += fmt.Sprintf("%d: %d (%d) ", i, t.N, t.ID)
			}
		}
		return s
	},
}

// places returns where the increments of each actor of a reading are in its list, and the ends of the lists.
func (r reading) places() (places map[int]map[int]tail, ends []answer) {
	places = map[int]map[int]tail{}
	for i, list := range r.Lists {
		var t tail
		place := map[int]tail{}
		for n, id := range list {
			t = tail{n + 1, id}
			place[id] = t
		}
		places[r.Actors[i]] = place
		ends = append(ends, sameEverywhere(t))
	}
	return places, ends
}

// sameEverywhere is the answer of an actor whose tail is t in every place.
func sameEverywhere(t tail) answer { return answer{SQL: t, State: t, Key: t} }

// operations returns the calls of some actors, and the reading of them in the end, as the
// checker takes them. Of a call it has what concerns these actors.
func operations(calls []call, r reading) []porcupine.Operation {
	places, ends := r.places()
	var ops []porcupine.Operation
	clients := 0
	for _, c := range calls {
		clients = max(clients, c.Client+1)
	}
	for _, c := range calls {
		op := porcupine.Operation{ClientId: c.Client, Call: int64(c.Begin), Return: int64(c.End)}
		var of []int
		var out []answer
		landed := false
		for i, a := range c.Actors {
			place, asked := places[a]
			if !asked {
				continue
			}
			t, here := place[c.ID]
			landed = landed || here
			switch {
			case c.Outcome == answered:
				of, out = append(of, a), append(out, c.Answers[i])
			case slices.Contains(c.To, a):
				of, out = append(of, a), append(out, sameEverywhere(t))
			}
		}
		switch {
		case len(of) == 0 || c.Outcome == refused || c.Outcome == unknown && !landed:
			continue
		case c.Outcome == unknown:
			op.Return = math.MaxInt64
			op.ClientId, clients = clients, clients+1 // its client goes on
		}
		c.Actors, c.Answers = of, nil
		op.Input, op.Output = c, out
		ops = append(ops, op)
	}
	return append(ops, porcupine.Operation{
		ClientId: clients, Call: int64(r.Begin), Return: int64(r.End),
		Input: call{Client: clients, Actors: r.Actors, Action: "get", Outcome: answered}, Output: ends,
	})
}

// halves says which increments of several actors are in the lists of some of them, and not in those of all.
func halves(calls []call, r reading) (torn []string) {
	places, _ := r.places()
	for _, c := range calls {
		var in, out []string
		for _, a := range c.To {
			if t, landed := places[a][c.ID]; landed {
				in = append(in, fmt.Sprintf("%d, as number %d of %d", a, t.N, len(places[a])))
			} else {
				out = append(out, fmt.Sprint(a))
			}
		}
		if len(in) > 0 && len(out) > 0 {
			torn = append(torn, fmt.Sprintf("half of a turn of several actors has landed: increment %d of the actors %v (%s %s) is in the list of %s, and not in that of %s",
				c.ID, c.To, c.Outcome, c.Why, strings.Join(in, " and of "), strings.Join(out, " and of ")))
		}
	}
	return torn
}

// checkTime bounds the checker's work on one partition: an actor, or those that are called together.
const checkTime = time.Minute

// A verdict is what the checker says of some actors.
type verdict struct {
	result porcupine.CheckResult
	info   porcupine.LinearizationInfo
	took   time.Duration
}

// check says whether there is an order.
func check(ops []porcupine.Operation) verdict {
	begun := time.Now()
	result, info := porcupine.CheckOperationsVerbose(model, ops, checkTime)
	return verdict{result, info, time.Since(begun)}
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
