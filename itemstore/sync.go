package itemstore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/kv"
)

// syncBatch is how many changes Sync returns at most, if the list has no limit.
const syncBatch = 1000

// fill returns the next items of a list that starts over, up to where it had come.
func (q *query) fill(ctx context.Context, v *view, t *token) (*Changes, error) {
	start, end := q.beyond(v.env, t, false)
	switch {
	case t.Done:
	case len(t.Edge) == 0:
		end = start
	case q.opts.Reverse:
		start = q.key(v.env, t.Edge)
	default:
		end = append(q.key(v.env, t.Edge), 0)
	}
	page, err := q.read(ctx, v, start, end, q.opts.Reverse)
	if err != nil {
		return nil, err
	}
	if page.last != nil {
		t.First, t.Last = page.first, page.last
	}
	t.Filling = page.More
	out := &Changes{More: true} // at least what changed meanwhile
	for _, item := range page.Items {
		out.Changes = append(out.Changes, Change{Changed, item.Path, &item})
	}
	return out, nil
}

// changes returns what the group's log has after the token.
func (q *query) changes(ctx context.Context, v *view, t *token, group []byte) (*Changes, error) {
	out := &Changes{}
	start := v.keys.key(partLog, group)
	most, size, looked := syncBatch, 0, 0
	if q.opts.Limit > 0 {
		most = q.opts.Limit
	}
	for e, err := range v.tx.Scan(ctx, kv.Range{Start: append(bytes.Clone(start), t.Seen...), End: after(start)}) {
		if err != nil {
			return nil, err
		}
		if looked++; len(out.Changes) == most || size >= pageBytes || looked > 20*syncBatch {
			out.More = true
			break
		}
		// The place behind this entry: no key is between it and its successor.
		t.Seen = append(append(t.Seen[:0], e.Key[len(start):]...), 0)
		path, _, err := parseLog(v.keys.rest(e.Key))
		if err != nil {
			return nil, err
		}
		if !q.inWindow(v.env, t, path) {
			continue
		}
		c, n, err := q.changed(ctx, v, path, len(e.Value) > 0)
		if err != nil {
			return nil, err
		}
		size += n
		out.Changes = append(out.Changes, c)
	}
	return out, nil
}

// inWindow reports whether a packed path is one that the list has come to.
func (q *query) inWindow(e *env, t *token, path []byte) bool {
	key := q.key(e, path)
	if bytes.Compare(key, q.start) < 0 || bytes.Compare(key, q.end) >= 0 {
		return false
	}
	if t.Done {
		return true
	}
	c := bytes.Compare(path, t.Edge)
	return len(t.Edge) > 0 && (c == 0 || c < 0 != q.opts.Reverse)
}

// changed returns what a client must know of a path that changed, and how many bytes that is.
func (q *query) changed(ctx context.Context, v *view, key []byte, deleted bool) (c Change, size int, err error) {
	path, err := unpackPath(key)
	if err != nil {
		return c, 0, err
	}
	if deleted {
		return Change{Kind: Deleted, Path: path}, 0, nil
	}
	row := v.keys.key(partItem, key)
	r, err := v.row(ctx, row)
	if err != nil {
		return c, 0, err
	}
	if r == nil {
		return c, 0, fmt.Errorf("itemstore: no item %s, which the log has: %w", clip(string(path)), ErrCorrupt)
	}
	if r.expired(v.now) {
		return Change{Kind: Deleted, Path: path}, 0, nil
	}
	b, err := q.typeOf(v, r)
	if err != nil || b == nil {
		return Change{Kind: Outside, Path: path}, 0, err
	}
	item, ok, err := q.itemAt(ctx, v, b, r, key, path)
	if err != nil || !ok {
		return Change{Kind: Outside, Path: path}, 0, err
	}
	return Change{Changed, path, &item}, r.size, nil
}

// logEnd returns the end of a group's log: what a client has seen when it has seen all.
func (v *view) logEnd(ctx context.Context, group []byte) ([]byte, error) {
	last, err := v.forgot(ctx, group)
	if err != nil {
		return nil, err
	}
	start := v.keys.key(partLog, group)
	for e, err := range v.tx.Scan(ctx, kv.Range{Start: start, End: after(start), Limit: 1, Reverse: true}) {
		if err != nil {
			return nil, err
		}
		_, at, err := parseLog(v.keys.rest(e.Key))
		if err != nil {
			return nil, err
		}
		if at.Compare(last) > 0 {
			last = at
		}
	}
	return seenAll(last), nil
}

// seenAll returns the place behind all changes of a version.
func seenAll(v Version) []byte {
	return append(appendStamp(nil, v), 0xff)
}

// forgot returns the version up to which a group's log may lack deletions.
func (v *view) forgot(ctx context.Context, group []byte) (last Version, err error) {
	b, ok, err := find(ctx, v.tx, v.keys.key(partForgot, group))
	if err != nil || !ok {
		return last, err
	}
	if len(b) != len(last) {
		return last, fmt.Errorf("itemstore: row of what a log forgot: %d bytes: %w", len(b), ErrCorrupt)
	}
	return Version(b), nil
}
