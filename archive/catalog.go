package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// lineagePrefix is what the names begin with that say that a lineage has begun.
const lineagePrefix = "lineage/"

func lineageName(line uint64) string { return fmt.Sprintf("%s%010d", lineagePrefix, line) }

// A lineage is one that has begun.
type lineage struct {
	number uint64
	begun  time.Time // no state of it is of an earlier time
}

// lineageObject is the object that says so, stored when its first base is.
type lineageObject struct {
	Begun time.Time `json:"begun"`
}

// readLines returns the lineages, in order.
func readLines(ctx context.Context, b bucket.Bucket) (lines []lineage, err error) {
	for o, err := range b.List(ctx, lineagePrefix) {
		if err != nil {
			return nil, err
		}
		n, ok := parseNumber(lineagePrefix, o.Name)
		if !ok {
			continue
		}
		var l lineageObject
		if err := readJSON(ctx, b, o.Name, &l); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		lines = append(lines, lineage{n, l.Begun})
	}
	return lines, nil
}

// A numbered is an object of a lineage: a base, or a segment.
type numbered struct {
	name        string
	first, last uint64 // of a base both are its number; last is 0 if the name doesn't say it
	size        int64
	records     int64 // of a segment, how many bytes its records have; 0 if that isn't known
}

// readBases returns the bases of a lineage, in order.
func readBases(ctx context.Context, b bucket.Bucket, line uint64) (bases []numbered, err error) {
	for o, err := range b.List(ctx, basesOf(line)) {
		if err != nil {
			return nil, err
		}
		if n, ok := parseNumber(basesOf(line), o.Name); ok {
			bases = append(bases, numbered{name: o.Name, first: n, last: n, size: o.Size})
		}
	}
	return bases, nil
}

// listLog returns all segments of a lineage, by their first number, and those of the same the longest first: those that were put together come
// before what they were made of.
func listLog(ctx context.Context, b bucket.Bucket, line uint64) (log []numbered, err error) {
	for o, err := range b.List(ctx, logOf(line)) {
		if err != nil {
			return nil, err
		}
		if first, last, ok := parseLog(line, o.Name); ok {
			log = append(log, numbered{name: o.Name, first: first, last: last, size: o.Size})
		}
	}
	slices.SortStableFunc(log, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last))
	})
	return log, nil
}

// readLog returns the segments of a lineage that follow each other, in order, without those that others have been put together of.
func readLog(ctx context.Context, b bucket.Bucket, line uint64) ([]numbered, error) {
	all, err := listLog(ctx, b, line)
	chain, _ := split(all)
	return chain, err
}

// split takes apart what listLog returns: segments that follow each other, and those which have nothing that these don't. The last number of
// one whose name doesn't say it is that before the next one, and stays 0 for the last one.
func split(all []numbered) (chain, covered []numbered) {
	for _, s := range all {
		n := len(chain)
		if n > 0 && chain[n-1].last >= s.first {
			covered = append(covered, s)
			continue
		}
		if n > 0 && chain[n-1].last == 0 {
			if chain[n-1].first == s.first {
				covered = append(covered, s)
				continue
			}
			chain[n-1].last = s.first - 1
		}
		chain = append(chain, s)
	}
	return chain, covered
}

// maxMoved is how often in a row what was listed may turn out to have gone, until that is an error.
const maxMoved = 10

// maxLists is how often a log is listed while the list has a hole. One that is still there is one of the archive.
const maxLists = 3

// errHole says that a list of segments lacks some. A list isn't of one moment: it may have neither the segments that a Writer merges meanwhile,
// nor the one that it makes of them, which the next list has.
var errHole = errors.New("segments are missing")

// hole returns an error that is errHole for a segment that doesn't begin behind the record have.
func hole(name string, have, first uint64) error {
	return damaged(name, fmt.Errorf("%w: records %d to %d, before it", errHole, have+1, first-1))
}

// walk calls visit with each segment of log, which is of readLog, in order; visit returns the segment's last record. If it returns fs.ErrNotExist
// or errHole a Writer has put segments together, or does: walk reads the list anew, and goes on with the segments whose records are later than the
// visited ones, and than the record have; they may bring earlier ones, too. It does so for errHole until it tells visit that the list is the final one.
func walk(ctx context.Context, b bucket.Bucket, line, have uint64, log []numbered, visit func(s numbered, final bool) (last uint64, err error)) error {
	moved, holes := 0, 0
	for len(log) > 0 {
		final := holes >= maxLists-1
		last, err := visit(log[0], final)
		switch {
		case err == nil:
			log, moved, holes, have = log[1:], 0, 0, max(have, last)
			continue
		case errors.Is(err, fs.ErrNotExist) && moved < maxMoved:
			moved++
		case errors.Is(err, errHole) && !final:
			holes++
		default:
			return err
		}
		if log, err = readLog(ctx, b, line); err != nil {
			return err
		}
		log = slices.DeleteFunc(log, func(s numbered) bool { return s.last > 0 && s.last <= have })
	}
	return nil
}

// again calls fn again while an object isn't there: a Writer may have put it together with others since it was listed.
func again(fn func() error) error {
	err := fn()
	for moved := 0; errors.Is(err, fs.ErrNotExist) && moved < maxMoved; moved++ {
		err = fn()
	}
	return err
}

// firstBytes is how much of a segment is read for its index.
const firstBytes = 32 << 10

// readIndex reads what a segment says of itself.
func readIndex(ctx context.Context, b bucket.Bucket, name string) (*index, error) {
	begin, _, err := bucket.GetBytes(ctx, b, name, 0, firstBytes)
	if err != nil {
		return nil, err
	}
	n, err := indexSize(begin)
	if err == nil && n > len(begin) {
		var more []byte
		more, _, err = bucket.GetBytes(ctx, b, name, int64(len(begin)), int64(n-len(begin)))
		if err != nil {
			return nil, err
		}
		begin = append(begin, more...)
	}
	if err != nil {
		return nil, damaged(name, err)
	}
	return parseNamed(name, begin)
}

// parseNamed is parseIndex for a segment of a name, which must be its own.
func parseNamed(name string, begin []byte) (*index, error) {
	x, err := parseIndex(begin)
	if err != nil {
		return nil, damaged(name, err)
	}
	line, _ := lineOf(name)
	first, last, ok := parseLog(line, name)
	if !ok || x.first != first || last != 0 && x.last != last {
		return nil, damaged(name, fmt.Errorf("it has the records %d to %d", x.first, x.last))
	}
	return x, nil
}

// A place is up to where a lineage is stored.
type place struct {
	line, last uint64
	sum        sum   // of the last record, zero if it isn't known
	ms         int64 // when that was made, at the latest
}

// lastPlace returns up to where a lineage is stored.
func lastPlace(ctx context.Context, b bucket.Bucket, line uint64) (at place, err error) {
	log, err := readLog(ctx, b, line)
	if err != nil {
		return at, err
	}
	if len(log) > 0 {
		x, err := readIndex(ctx, b, log[len(log)-1].name)
		if err != nil {
			return at, err
		}
		return place{line: line, last: x.last, sum: x.lastSum, ms: x.latest}, nil
	}
	bases, err := readBases(ctx, b, line)
	if err != nil || len(bases) == 0 {
		return at, err
	}
	l, err := readBase(ctx, b, bases[len(bases)-1].name)
	if err != nil {
		return at, err
	}
	return place{line: line, last: l.Number, sum: l.LastSum, ms: l.Time.UnixMilli()}, nil
}
