package pgkv

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/greenroomdb/greenroom/kv"
)

// A scan reads a range page by page. It is fetched by one goroutine at a time, and
// yields what it has fetched without a connection.
type scan struct {
	db *DB
	r  kv.Range // what to yield

	lo, hi []byte // surrogates that are left to read, [lo, hi)
	left   int    // entries that are left to yield, -1 for all
	done   bool

	// The group that is being read by itself, if any: its surrogates are below above,
	// and its rests in [first, last) are left; a nil last means no bound.
	group       bool
	above       []byte
	first, last []byte

	rows  []row
	mem   []byte // what the rows are made of
	pages int
}

// A row is an entry as it was read.
type row struct {
	key, rest, value []byte // the surrogate; rest is nil for a short key
}

// Bounds of a page. A caller that wants fewer rows sets a limit, and what isn't stored isn't
// sent, so the first page is only a little smaller: if it isn't all, a caller without a
// snapshot has read it in vain. It has room for what is read ahead at once above, 1 MiB of
// pages in two rows each (vfs.maxWindow, and twice that after a leap).
const (
	firstRows  = 1280
	firstBytes = 3 << 20
	pageRows   = 2560
	pageBytes  = 6 << 20
)

func newScan(db *DB, r kv.Range) *scan {
	// A read that its caller has given up may still look at the bounds.
	r.Start, r.End = bytes.Clone(r.Start), cloneBound(r.End)
	s := &scan{db: db, r: r, left: -1}
	if r.Limit > 0 {
		s.left = r.Limit
	}
	s.lo, s.hi = notNil(appendLow(nil, r.Start)), appendHigh(nil, r.End)
	s.done = r.End != nil && bytes.Compare(r.Start, r.End) >= 0
	return s
}

// over reports whether nothing is left to fetch.
func (s *scan) over() bool { return s.done }

// limits returns how many rows and bytes the next page has.
func (s *scan) limits() (rows, size int) {
	rows, size = pageRows, pageBytes
	if s.pages == 0 {
		rows, size = firstRows, firstBytes
	}
	if s.left >= 0 {
		rows = min(rows, s.left)
	}
	return rows, size
}

// errRow says that the server returned something else than rows of the table.
var errRow = errors.New("the server returned rows of another form")

// fetch reads the next page. Fetched again after an error, it reads the same.
func (s *scan) fetch(ctx context.Context, c *conn) error {
	limit, budget := s.limits()
	params := [][]byte{s.lo, s.hi, int8Param(int64(limit)), int8Param(int64(budget))}
	st := s.db.sql.page
	switch {
	case s.group && s.r.Reverse:
		st = s.db.sql.groupDown
	case s.group:
		st = s.db.sql.group
	case s.r.Reverse:
		st = s.db.sql.pageDown
	}
	if s.group {
		params = append(params, s.first, s.last)
	}
	s.rows, s.mem = s.rows[:0], s.mem[:0]
	size, bad := 0, false
	err := c.query(ctx, st, params, func(col [][]byte) {
		if len(col) != 3 || col[0] == nil || col[2] == nil || col[1] != nil && len(col[0]) != surrogateLen {
			bad = true
			return
		}
		size += len(col[2])
		s.rows = append(s.rows, row{s.keep(col[0]), s.keep(col[1]), s.keep(col[2])})
	})
	if err == nil && bad {
		err = errRow
	}
	if err != nil {
		return err
	}
	s.pages++
	s.advance(len(s.rows) < limit && size < budget)
	if s.left >= 0 && len(s.rows) >= s.left {
		s.done = true
	}
	return nil
}

// keep copies b into the memory of the page. When that grows, older rows keep what
// they have.
func (s *scan) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(s.mem)-len(s.mem) < len(b) {
		s.mem = make([]byte, 0, max(len(b), 2*cap(s.mem), 16<<10))
	}
	n := len(s.mem)
	s.mem = append(s.mem, b...)
	return s.mem[n:len(s.mem):len(s.mem)]
}

// advance moves the bounds behind the page. all says that nothing follows it.
func (s *scan) advance(all bool) {
	if s.group {
		s.advanceGroup(all)
		return
	}
	if !all && s.rows[len(s.rows)-1].rest != nil {
		s.cut()
	} else if all {
		s.done = true
	} else {
		s.pass(s.rows[len(s.rows)-1].key)
	}
	s.arrange()
}

// pass moves the bounds behind a surrogate.
func (s *scan) pass(key []byte) {
	if s.r.Reverse {
		s.hi = append(s.hi[:0], key...)
	} else {
		s.lo = append(append(s.lo[:0], key...), 0)
	}
}

// cut drops the group that the page ends in, because more of it may follow that
// belongs before what is there. If the whole page is of that group it is read by
// itself from now on, in its own order.
func (s *scan) cut() {
	prefix := s.rows[len(s.rows)-1].key[:prefixLen]
	n := len(s.rows)
	for n > 0 && s.rows[n-1].rest != nil && bytes.Equal(s.rows[n-1].key[:prefixLen], prefix) {
		n--
	}
	if n > 0 {
		// The bound lies between the group and the row before it.
		if s.r.Reverse {
			s.hi = append(append(s.hi[:0], prefix...), top[:surrogateLen-prefixLen+1]...)
		} else {
			s.lo = append(append(s.lo[:0], prefix...), 0)
		}
		s.rows = s.rows[:n]
		return
	}
	s.enter(prefix)
	s.rows = s.rows[:0]
}

// enter begins to read a group by itself.
func (s *scan) enter(prefix []byte) {
	s.group = true
	s.above = append(append([]byte(nil), prefix...), top[:surrogateLen-prefixLen+1]...)
	s.lo = append(append([]byte(nil), prefix...), 0)
	s.hi = s.above
	s.first, s.last = []byte{}, nil
	if len(s.r.Start) > prefixLen && bytes.Equal(s.r.Start[:prefixLen], prefix) {
		s.first = s.r.Start[prefixLen:]
	}
	if len(s.r.End) > prefixLen && bytes.Equal(s.r.End[:prefixLen], prefix) {
		s.last = s.r.End[prefixLen:]
	}
}

// advanceGroup moves on in the group, or out of it.
func (s *scan) advanceGroup(all bool) {
	if !all {
		rest := s.rows[len(s.rows)-1].rest
		if s.r.Reverse {
			s.last = rest
		} else {
			s.first = append(append([]byte(nil), rest...), 0)
		}
		// The memory of the page is used again.
		s.last = bytes.Clone(s.last)
		return
	}
	s.group = false
	prefix := s.above[:prefixLen]
	if s.r.Reverse {
		// What is left begins with the key that is the prefix itself.
		s.hi = append(append([]byte(nil), prefix...), 0)
		s.lo = notNil(appendLow(nil, s.r.Start))
	} else {
		s.lo = append([]byte(nil), s.above...)
		s.hi = appendHigh(nil, s.r.End)
	}
	s.done = bytes.Compare(s.lo, s.hi) >= 0
}

// arrange puts the long keys of each group in order, and drops those that are out of
// the range.
func (s *scan) arrange() {
	rows := s.rows
	for i := 0; i < len(rows); i++ {
		if rows[i].rest == nil {
			continue
		}
		n := i + 1
		for n < len(rows) && rows[n].rest != nil && bytes.Equal(rows[n].key[:prefixLen], rows[i].key[:prefixLen]) {
			n++
		}
		slices.SortFunc(rows[i:n], func(a, b row) int {
			if s.r.Reverse {
				a, b = b, a
			}
			return bytes.Compare(a.rest, b.rest)
		})
		i = n - 1
	}
	s.rows = slices.DeleteFunc(rows, func(r row) bool {
		return r.rest != nil && outside(appendKey(nil, r.key, r.rest), &s.r)
	})
}

// yieldPage yields the rows of the page, and says whether the consumer wants more.
func (s *scan) yieldPage(ctx context.Context, yield func(kv.Entry, error) bool) (more bool, err error) {
	for i := range s.rows {
		if i%64 == 63 {
			if err := ctx.Err(); err != nil {
				return false, err
			}
		}
		r := &s.rows[i]
		key := r.key
		if r.rest != nil {
			key = appendKey(nil, r.key, r.rest)
		}
		if !yield(kv.Entry{Key: key, Value: r.value}, nil) {
			return false, nil
		}
		if s.left > 0 {
			if s.left--; s.left == 0 {
				s.done = true
				return false, nil
			}
		}
	}
	return true, nil
}

// cloneBound copies a bound, for which nil and empty are not the same.
func cloneBound(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
