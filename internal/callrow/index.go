package callrow

import "slices"

// An Index has the calls of an actor's rows in memory, without what they have returned. The zero Index has none. It is not safe for concurrent use.
type Index struct {
	by    map[string]Call // by ID, the newest call with it
	order []Call          // the oldest first
}

// Len returns how many rows there are.
func (x *Index) Len() int { return len(x.order) }

// Find returns the newest call with that ID; ok says whether there is one.
func (x *Index) Find(id string) (c Call, ok bool) {
	c, ok = x.by[id]
	return c, ok
}

// Next returns the time for a row that is written now: not before that of the newest one, so that times don't fall when a clock is set back.
func (x *Index) Next(now int64) int64 {
	if n := len(x.order); n > 0 {
		return max(now, x.order[n-1].At)
	}
	return max(now, 0)
}

// Add adds the row of a call, which is not older than the others.
func (x *Index) Add(c Call) {
	if x.by == nil {
		x.by = map[string]Call{}
	}
	x.by[c.ID] = c
	x.order = append(x.order, c)
}

// Old returns which of the oldest rows are to be removed, at most n of them: those of calls at or before until, and as many as are needed for less than most to be left.
func (x *Index) Old(until int64, most, n int) []Call {
	count := 0
	for count < min(n, len(x.order)) && (x.order[count].At <= until || len(x.order)-count >= most) {
		count++
	}
	return slices.Clone(x.order[:count])
}

// Remove removes the row of a call.
func (x *Index) Remove(c Call) {
	i := slices.Index(x.order, c)
	if i < 0 {
		return
	}
	x.order = slices.Delete(x.order, i, i+1)
	if x.by[c.ID] == c {
		delete(x.by, c.ID)
	}
}
