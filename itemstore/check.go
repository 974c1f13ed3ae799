package itemstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// checker is one Check.
type checker struct {
	*view
	problems []Problem
	deleted  int // rows of the log about deletions, less those that say when they are forgotten
}

func (c *checker) report(key []byte, format string, args ...any) {
	c.problems = append(c.problems, Problem{bytes.Clone(key), fmt.Sprintf(format, args...)})
}

// run reads part by part.
func (c *checker) run(ctx context.Context) error {
	for _, p := range []struct {
		part  int64
		check func(context.Context, kv.Entry) error
	}{{partItem, c.row}, {partIndex, c.row}, {partLog, c.log}, {partDue, c.due}, {partChunk, c.chunk}} {
		start := c.keys.key(p.part)
		for e, err := range c.tx.Snapshot().Scan(ctx, kv.Range{Start: start, End: after(start)}) {
			if err == nil {
				err = p.check(ctx, e)
			}
			if errors.Is(err, errkind.ErrCorrupt) {
				c.report(e.Key, "%v", err)
			} else if err != nil {
				return err
			}
		}
	}
	if c.deleted != 0 {
		c.report(c.keys.key(partLog), "%d deletions in the log will never be forgotten", c.deleted)
	}
	return nil
}

// has reports an absent row.
func (c *checker) has(ctx context.Context, of, key []byte, what string) error {
	_, ok, err := find(ctx, c.tx.Snapshot(), key)
	if err == nil && !ok {
		c.report(of, "there is no %s for it", what)
	}
	return err
}

// row checks a row of an item, from both ends.
func (c *checker) row(ctx context.Context, e kv.Entry) error {
	r, err := parseRecord(e.Value)
	if err != nil {
		return err
	}
	if r.kind != rowPrimary {
		p, err := c.view.row(ctx, c.keys.key(partItem, r.primary))
		if err != nil {
			return err
		}
		if p != nil && p.kind == rowPrimary {
			places, err := c.places(r.primary, p)
			if err != nil {
				return err
			}
			for _, at := range places[1:] {
				if bytes.Equal(at.key, e.Key) {
					return nil
				}
			}
		}
		c.report(e.Key, "the item %s doesn't have this path", c.name(r.primary))
		return nil
	}
	primary := c.keys.rest(e.Key)
	places, err := c.places(primary, r)
	if err != nil {
		return err
	}
	for i, p := range places {
		at, err := c.view.row(ctx, p.key)
		if err != nil {
			return err
		}
		switch {
		case at == nil || i > 0 && !bytes.Equal(at.primary, primary):
			c.report(e.Key, "its row at %s is missing", c.name(p.path))
		case at.stamp != r.stamp || at.pathVersions != *p.pathVersions || at.expires != r.expires || at.typ != r.typ:
			c.report(e.Key, "its row at %s is of another version", c.name(p.path))
		}
		if p.NoSync {
			continue
		}
		if err := c.has(ctx, e.Key, c.keys.logKey(p.path, r.version(*p.pathVersions)), "row in the log of "+string(c.name(p.path))); err != nil {
			return err
		}
	}
	if r.expires != 0 {
		return c.has(ctx, e.Key, c.keys.dueItem(r.expires, primary), "row that says when it ends")
	}
	if r.chunked {
		_, err = c.payload(ctx, r, primary)
	}
	return err
}

// log checks a row of the log.
func (c *checker) log(ctx context.Context, e kv.Entry) error {
	path, v, err := parseLog(c.keys.rest(e.Key))
	if err != nil {
		return err
	}
	if len(e.Value) > 0 {
		c.deleted++
		return nil
	}
	r, err := c.view.row(ctx, c.keys.key(partItem, path))
	if err == nil && (r == nil || r.version(r.pathVersions) != v) {
		c.report(e.Key, "the log has a change of %s that isn't the last one", c.name(path))
	}
	return err
}

// due checks a row that says what ends.
func (c *checker) due(ctx context.Context, e kv.Entry) error {
	d, err := parseDue(c.keys.rest(e.Key))
	if err != nil {
		return err
	}
	if d.log {
		c.deleted--
		return c.has(ctx, e.Key, c.keys.logKey(d.path, d.at), "deletion in the log")
	}
	r, err := c.view.row(ctx, c.keys.key(partItem, d.path))
	if err == nil && (r == nil || r.kind != rowPrimary || r.expires != d.unix) {
		c.report(e.Key, "%s doesn't end then", c.name(d.path))
	}
	return err
}

// chunk checks that a payload in chunks has its item.
func (c *checker) chunk(ctx context.Context, e kv.Entry) error {
	primary, _, err := tuple.NextBytes(nil, c.keys.rest(e.Key))
	if err != nil {
		return fmt.Errorf("itemstore: key of a chunk: %w: %w", err, ErrCorrupt)
	}
	r, err := c.view.row(ctx, c.keys.key(partItem, primary))
	if err == nil && (r == nil || !r.chunked) {
		c.report(e.Key, "a chunk of %s, which has none", c.name(primary))
	}
	return err
}

// A Problem is something that Check found.
type Problem struct {
	Key  []byte // of the row
	What string
}
