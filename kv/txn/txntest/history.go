package txntest

import (
	"fmt"
	"slices"
	"strings"
)

// A txRecord is what a committed transaction did and saw.
type txRecord struct {
	name  string
	steps []txStep
	// began and ended are the times of a clock that all share, before and after.
	began, ended int64
}

// A txStep appends a number to a list, or reads the list. A number is appended to a
// list once at most, in all the history; 0 is none.
type txStep struct {
	list   int
	append int
	read   []int
}

// checkHistory returns an error when there is no order in which the transactions could
// have run one after the other, and seen what they have seen. With realTime, one that
// ended before another began comes before it.
//
// This is how Elle does it (Kingsbury, Alvaro: Elle: Inferring Isolation Anomalies from
// Experimental Observations, 2020): lists that are only appended to tell the order of
// their appends, and each read tells between which two it was. That makes edges between
// transactions, and a cycle among them is what no order can have. The last record must
// have read every list, to the end.
func checkHistory(history []txRecord, realTime bool) error {
	lists, err := listOrders(history)
	if err != nil {
		return err
	}
	g := &txGraph{history: history, edges: make([][]txEdge, len(history))}
	writer := map[[2]int]int{} // list and number to the transaction
	for i, rec := range history {
		for _, s := range rec.steps {
			if s.append != 0 {
				writer[[2]int{s.list, s.append}] = i
			}
		}
	}
	for l, order := range lists {
		for i := 1; i < len(order); i++ {
			g.add(writer[[2]int{l, order[i-1]}], writer[[2]int{l, order[i]}], "ww", l)
		}
	}
	for i, rec := range history {
		for _, s := range rec.steps {
			if s.append != 0 {
				continue
			}
			order := lists[s.list]
			if n := len(s.read); n > 0 {
				g.add(writer[[2]int{s.list, s.read[n-1]}], i, "wr", s.list)
			}
			if n := len(s.read); n < len(order) {
				g.add(i, writer[[2]int{s.list, order[n]}], "rw", s.list)
			}
		}
		for j := range history {
			if realTime && rec.ended < history[j].began {
				g.add(i, j, "time", -1)
			}
		}
	}
	return g.cycle()
}

// listOrders returns the order of the appends to each list, and an error when the
// reads contradict each other, have seen what nobody has appended, or miss an append.
func listOrders(history []txRecord) (map[int][]int, error) {
	lists, appended := map[int][]int{}, map[int]int{}
	for _, s := range history[len(history)-1].steps {
		lists[s.list] = s.read
	}
	for _, rec := range history {
		own := map[int]bool{} // lists it has appended to itself
		for _, s := range rec.steps {
			order := lists[s.list]
			switch {
			case s.append != 0:
				own[s.list] = true
				appended[s.list]++
				if !slices.Contains(order, s.append) {
					return nil, fmt.Errorf("%s has appended %d to list %d, which ends as %v: a lost update", rec.name, s.append, s.list, order)
				}
			case own[s.list]:
				return nil, fmt.Errorf("%s reads list %d after appending to it, which says nothing", rec.name, s.list)
			case len(s.read) > len(order) || !slices.Equal(s.read, order[:len(s.read)]):
				return nil, fmt.Errorf("%s has read list %d as %v, which ends as %v", rec.name, s.list, s.read, order)
			}
		}
	}
	for l, order := range lists {
		if len(order) != appended[l] {
			return nil, fmt.Errorf("list %d ends as %v, with %d numbers appended by transactions that committed", l, order, appended[l])
		}
	}
	return lists, nil
}

// A txGraph says which transaction must come before which.
type txGraph struct {
	history []txRecord
	edges   [][]txEdge
}

// A txEdge leads to a transaction that must come later, and says why: the one wrote
// what the other wrote over (ww) or read (wr), or read what the other wrote over (rw).
type txEdge struct {
	to   int
	why  string
	list int
}

func (g *txGraph) add(from, to int, why string, list int) {
	if from != to {
		g.edges[from] = append(g.edges[from], txEdge{to, why, list})
	}
}

// cycle returns an error with the first cycle it finds.
func (g *txGraph) cycle() error {
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(g.edges))
	var path []string
	var nodes []int
	var visit func(n int) error
	visit = func(n int) error {
		state[n] = open
		nodes = append(nodes, n)
		for _, e := range g.edges[n] {
			step := fmt.Sprintf("%s -%s %d-> %s", g.history[n].name, e.why, e.list, g.history[e.to].name)
			if state[e.to] == open {
				i := slices.Index(nodes, e.to)
				return fmt.Errorf("no order of the transactions is possible: %s", strings.Join(append(path[i:], step), ", "))
			}
			if state[e.to] == unseen {
				path = append(path, step)
				if err := visit(e.to); err != nil {
					return err
				}
				path = path[:len(path)-1]
			}
		}
		nodes = nodes[:len(nodes)-1]
		state[n] = done
		return nil
	}
	for n := range g.edges {
		if state[n] == unseen {
			if err := visit(n); err != nil {
				return err
			}
		}
	}
	return nil
}
