package archive

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
)

// minTableAge is how old a table without a base must be to be removed: a base that is being made may need a younger one. It is also for how long an epoch stays
// once there is a later one.
const minTableAge = 72 * time.Hour

// Collected is what Collect has removed.
type Collected struct {
	Objects int
	Bytes   int64

	floors map[uint64]uint64 // of each lineage, up to which record its segments are gone
}

// Collect removes what no state at the time oldest or later needs, and epochs that were followed by others days ago; nothing before the first lineage has begun. The last base of the last lineage stays in any case. It may run beside a
// Writer; if it fails, or is cut short, what is left works, and the next one removes the rest.
func Collect(ctx context.Context, b bucket.Bucket, oldest time.Time) (c Collected, err error) {
	c.floors = map[uint64]uint64{}
	if _, err := readManifest(ctx, b); err != nil {
		return c, err
	}
	lines, err := readLines(ctx, b)
	if err != nil || len(lines) == 0 { // the first base of a large store may take longer than minTableAge
		return c, err
	}
	if err := c.unlisted(ctx, b, lines); err != nil {
		return c, err
	}
	used := map[string]bool{}
	for i, line := range lines {
		over := i+1 < len(lines) && !lines[i+1].begun.After(oldest)
		if over {
			over, err = endedBy(ctx, b, line.number, oldest)
		}
		switch {
		case err != nil:
		case over:
			err = c.line(ctx, b, line.number)
		default:
			err = c.within(ctx, b, line.number, oldest, used)
		}
		if err != nil {
			return c, err
		}
	}
	young := time.Now().Add(-minTableAge)
	if err := c.epochs(ctx, b, young); err != nil {
		return c, err
	}
	for o, err := range b.List(ctx, tablePrefix) {
		if err != nil {
			return c, err
		}
		if !used[o.Name] && o.Modified.Before(young) {
			if err := c.remove(ctx, b, o.Name, o.Size); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// endedBy reports whether the last state of a lineage is of a time or before. The next lineage may have begun earlier, by a clock that was wrong.
func endedBy(ctx context.Context, b bucket.Bucket, line uint64, t time.Time) (bool, error) {
	at, err := lastPlace(ctx, b, line)
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		return true, nil // nothing says when
	}
	return !time.UnixMilli(at.ms).After(t), err
}

// remove removes an object.
func (c *Collected) remove(ctx context.Context, b bucket.Bucket, name string, size int64) error {
	err := b.Delete(ctx, name)
	if err == nil {
		c.Objects, c.Bytes = c.Objects+1, c.Bytes+size
	}
	return err
}

// unlisted removes what is left of lineages that aren't there: another Collect was cut short, or they have never begun. One that is later than
// all others may still begin.
func (c *Collected) unlisted(ctx context.Context, b bucket.Bucket, lines []lineage) error {
	for o, err := range b.List(ctx, linePrefix) {
		if err != nil {
			return err
		}
		number, ok := lineOf(o.Name)
		listed := slices.ContainsFunc(lines, func(l lineage) bool { return l.number == number })
		if !ok || listed || number > lines[len(lines)-1].number {
			continue
		}
		if err := c.remove(ctx, b, o.Name, o.Size); err != nil {
			return err
		}
	}
	return nil
}

// line removes a lineage: first what says that it is there.
func (c *Collected) line(ctx context.Context, b bucket.Bucket, line uint64) error {
	if err := c.remove(ctx, b, lineageName(line), 0); err != nil {
		return err
	}
	for o, err := range b.List(ctx, linesOf(line)) {
		if err == nil {
			err = c.remove(ctx, b, o.Name, o.Size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// within removes what of a lineage is too old, and adds the tables of the rest to used. What is removed goes in such an order that each
// base has the segments behind it.
func (c *Collected) within(ctx context.Context, b bucket.Bucket, line uint64, oldest time.Time, used map[string]bool) error {
	bases, err := readBases(ctx, b, line)
	if err != nil {
		return err
	}
	var kept *baseList // the oldest one that is
	for i := len(bases) - 1; i >= 0; i-- {
		if kept != nil && !kept.Time.After(oldest) {
			if err := c.remove(ctx, b, bases[i].name, bases[i].size); err != nil {
				return err
			}
			continue
		}
		l, err := readBase(ctx, b, bases[i].name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		kept = l
		for k := range l.Files {
			used[l.Files[k].object()] = true
		}
	}
	if kept == nil {
		return nil
	}
	c.floors[line] = kept.Number
	all, err := listLog(ctx, b, line)
	if err != nil {
		return err
	}
	chain, covered := split(all)
	for _, s := range chain {
		if s.last > 0 && s.last <= kept.Number {
			covered = append(covered, s)
		}
	}
	for _, s := range covered {
		if err := c.remove(ctx, b, s.name, s.size); err != nil {
			return err
		}
	}
	return nil
}

// left returns the segments that Collect has left.
func (c *Collected) left(line uint64, log []numbered) []numbered {
	for len(log) > 0 && log[0].last > 0 && log[0].last <= c.floors[line] {
		log = log[1:]
	}
	return log
}
