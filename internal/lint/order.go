package lint

import (
	"math/rand/v2"
	"slices"
)

// tries is how often order shakes the best order that it has found. Ten times as many find no better one in
// any package of the tree.
const tries = 300

// A refs says which file refers to which: refs[a][b] that file a refers to file b.
type refs [][]bool

// total returns how many references there are.
func (r refs) total() int {
	n := 0
	for _, to := range r {
		for _, yes := range to {
			if yes {
				n++
			}
		}
	}
	return n
}

// ups returns the references that run up when the files are put on top of each other in order, the
// lowest first.
func (r refs) ups(order []int) (ups [][2]int) {
	for i, a := range order {
		for _, b := range order[i+1:] {
			if r[a][b] {
				ups = append(ups, [2]int{a, b})
			}
		}
	}
	return ups
}

// order returns the order of the files, the lowest first, in which the fewest references run up.
// To find it for certain takes time that grows exponentially, so it searches: it moves single files as long as
// that helps, then moves some at random, and begins again. The same references always give the same order.
func (r refs) order() []int {
	// A fixed seed: a number of references that changed from run to run could not be excepted.
	random := rand.New(rand.NewPCG(1, 2))
	best := make([]int, len(r))
	for i := range best {
		best[i] = i
	}
	r.improve(best)
	fewest := len(r.ups(best))
	for range tries {
		if fewest == 0 {
			break
		}
		next := slices.Clone(best)
		for range 2 + len(r)/8 {
			move(next, random.IntN(len(r)), random.IntN(len(r)))
		}
		r.improve(next)
		// An order that is as good is taken, too, or the search would stay where it is.
		if n := len(r.ups(next)); n <= fewest {
			best, fewest = next, n
		}
	}
	return best
}

// improve moves one file of order after another to its best place until none has a better one.
func (r refs) improve(order []int) {
	// Each move makes the number of references that run up smaller, so it ends.
	for better := true; better; {
		better = false
		for file := range r {
			from := slices.Index(order, file)
			if to := r.place(order, from); to != from {
				move(order, from, to)
				better = true
			}
		}
	}
}

// place returns where the file at from stands best, from itself if no place is better.
func (r refs) place(order []int, from int) int {
	// gain is how many references fewer run up with the file at to.
	// Only its order with those that it passes changes.
	file, best, most := order[from], from, 0
	for gain, to := 0, from-1; to >= 0; to-- {
		if gain += r.cost(order[to], file) - r.cost(file, order[to]); gain > most {
			best, most = to, gain
		}
	}
	for gain, to := 0, from+1; to < len(order); to++ {
		if gain += r.cost(file, order[to]) - r.cost(order[to], file); gain > most {
			best, most = to, gain
		}
	}
	return best
}

// cost is how many references run up between two files with a below b.
func (r refs) cost(a, b int) int {
	if r[a][b] {
		return 1
	}
	return 0
}

// move takes what is at from out of order and puts it back in at to.
func move(order []int, from, to int) {
	file := order[from]
	copy(order[from:], order[from+1:])
	copy(order[to+1:], order[to:len(order)-1])
	order[to] = file
}
