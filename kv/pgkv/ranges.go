package pgkv

import (
	"context"
	"encoding/binary"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
)

var _, _ kv.RangesScanner = (*DB)(nil), (*snapshot)(nil)

// Several ranges are read with one request, whose answer is as bounded as a page is.
// Where more follows, the range that it is in is read on by itself, and what comes after
// with the next request.

// maxRanges is how many ranges one request has.
const maxRanges = 4096

// A ranges reads several ranges.
type ranges struct {
	db   *DB
	list []kv.Range // what is left of them; the slices are the caller's until read

	got  int // how many of list the last request has answered whole
	rows []row
	at   []int // the number in list that each of rows belongs to
	mem  scan  // what the rows are made of
}

// fetch asks for as many of the list as a request has. Fetched again after an error, it
// reads the same. It changes nothing but itself.
func (rs *ranges) fetch(ctx context.Context, c *conn) error {
	var lo, hi, most array
	list := rs.list[:min(len(rs.list), maxRanges)]
	for i := range list {
		s := newScan(rs.db, list[i])
		n := int64(pageRows)
		if s.left >= 0 {
			n = min(n, int64(s.left))
		}
		if s.r.Reverse {
			n = -n
		}
		lo.add(s.lo)
		hi.add(s.hi)
		most.number(n)
	}
	params := [][]byte{lo.bytes(), hi.bytes(), most.bytes(), int8Param(pageRows), int8Param(pageBytes)}
	rs.rows, rs.at, rs.mem.mem = rs.rows[:0], rs.at[:0], rs.mem.mem[:0]
	size, bad := 0, false
	counts := make([]int, len(list))
	err := c.query(ctx, rs.db.sql.ranges, params, func(col [][]byte) {
		if len(col) != 4 || len(col[0]) != 8 || col[1] == nil || col[3] == nil || col[2] != nil && len(col[1]) != surrogateLen {
			bad = true
			return
		}
		i := int(binary.BigEndian.Uint64(col[0])) - 1
		if i < 0 || i >= len(list) {
			bad = true
			return
		}
		size += len(col[3])
		counts[i]++
		rs.at = append(rs.at, i)
		rs.rows = append(rs.rows, row{rs.mem.keep(col[1]), rs.mem.keep(col[2]), rs.mem.keep(col[3])})
	})
	if err == nil && bad {
		err = errRow
	}
	if err != nil {
		return err
	}
	rs.got = len(list)
	if len(rs.rows) >= pageRows || size >= pageBytes {
		rs.got = rs.at[len(rs.at)-1] // more of this one may follow
	}
	// One with long keys isn't in order, and one that has as many rows as were asked
	// for may go on.
	for n, i := range rs.at {
		full := counts[i] == pageRows && list[i].Limit != pageRows
		if i < rs.got && (rs.rows[n].rest != nil || full) {
			rs.got = i
		}
	}
	return nil
}

// yield yields the rows of the ranges that are there whole, and drops those from the
// list. It says whether the consumer wants more.
func (rs *ranges) yield(yield func(kv.Entry, error) bool) (more bool) {
	for n, i := range rs.at {
		if i >= rs.got {
			break
		}
		if !yield(kv.Entry{Key: rs.rows[n].key, Value: rs.rows[n].value}, nil) {
			return false
		}
	}
	rs.list = rs.list[rs.got:]
	return true
}

// ScanRanges yields the entries of several ranges of the state at the start of the
// iteration, with one round trip if they fit into a page together. See
// kv.RangesScanner.
func (db *DB) ScanRanges(ctx context.Context, list []kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := db.scanRanges(ctx, list, yield); err != nil {
			yield(kv.Entry{}, err)
		}
	}
}

func (db *DB) scanRanges(ctx context.Context, list []kv.Range, yield func(kv.Entry, error) bool) error {
	if err := db.begin(ctx); err != nil {
		return err
	}
	rs := &ranges{db: db, list: cloneRanges(list)}
	var err error
	if len(list) > 0 {
		err = db.call(ctx, db.reads, rs.fetch)
	}
	db.life.leave()
	if err != nil {
		return wrap("scan", err)
	}
	if rs.got == len(rs.list) {
		rs.yield(yield)
		return nil
	}
	// There is more than fits: read it all from one state.
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close() // it was read; a late error doesn't matter
	return snap.(*snapshot).scanRanges(ctx, list, yield)
}

// cloneRanges copies ranges for a read that may outlast its caller's wait.
func cloneRanges(list []kv.Range) []kv.Range {
	out := make([]kv.Range, len(list))
	for i, r := range list {
		r.Start, r.End = append([]byte(nil), r.Start...), cloneBound(r.End)
		out[i] = r
	}
	return out
}

// ScanRanges is kv.RangesScanner's.
func (s *snapshot) ScanRanges(ctx context.Context, list []kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := s.scanRanges(ctx, list, yield); err != nil {
			yield(kv.Entry{}, err)
		}
	}
}

func (s *snapshot) scanRanges(ctx context.Context, list []kv.Range, yield func(kv.Entry, error) bool) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	rs := &ranges{db: s.db, list: cloneRanges(list)}
	for len(rs.list) > 0 {
		if err := s.use(ctx, rs.fetch); err != nil {
			return wrap("scan", err)
		}
		if !rs.yield(yield) {
			return nil
		}
		if len(rs.list) == 0 || rs.got == maxRanges {
			continue
		}
		if more, err := s.scanOn(ctx, rs.list[0], yield); err != nil || !more {
			return err
		}
		rs.list = rs.list[1:]
	}
	return nil
}

// scanOn is scan for one of several ranges: it says whether the consumer wants more.
func (s *snapshot) scanOn(ctx context.Context, r kv.Range, yield func(kv.Entry, error) bool) (more bool, err error) {
	more = true
	err = s.scan(ctx, newScan(s.db, r), func(e kv.Entry, err error) bool {
		more = yield(e, err)
		return more
	})
	return more, err
}
