package host

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A KV is the actor's user keys, as a turn sees them: with its own writes.
type KV struct {
	c *Context
	// draft is what the turn has made of keys: a value, or nil for one that it removed. It
	// is nil until there is something.
	draft map[string][]byte
	// cleared are the ranges that the turn has removed, of what was there before it.
	cleared []span
}

// A span is the keys in [start, end); a nil end is no bound.
type span struct{ start, end []byte }

func (s span) has(key []byte) bool {
	return bytes.Compare(key, s.start) >= 0 && (s.end == nil || bytes.Compare(key, s.end) < 0)
}

// KV returns the actor's user keys.
func (c *Context) KV() *KV {
	if c.kv == nil {
		c.kv = &KV{c: c}
	}
	return c.kv
}

// Get appends the value of key to dst and returns the extended slice. A missing key is
// actorstore.ErrNotFound.
func (k *KV) Get(key, dst []byte) ([]byte, error) {
	if err := k.c.check(); err != nil {
		return dst, err
	}
	if v, ok := k.draft[string(key)]; ok {
		if v == nil {
			return dst, actorstore.ErrNotFound
		}
		return append(dst, v...), nil
	}
	if k.isCleared(key) {
		return dst, actorstore.ErrNotFound
	}
	return k.c.life.actor.User().Get(k.c, key, dst)
}

func (k *KV) isCleared(key []byte) bool {
	return slices.ContainsFunc(k.cleared, func(s span) bool { return s.has(key) })
}

// Put stores value under key. It keeps neither.
func (k *KV) Put(key, value []byte) error {
	if err := k.c.check(); err != nil {
		return err
	}
	v := append([]byte{}, value...)
	k.c.Batch().Put(actorstore.UserKey(key), v)
	k.write(key, v)
	return nil
}

func (k *KV) write(key, value []byte) {
	if k.draft == nil {
		k.draft = map[string][]byte{}
	}
	k.draft[string(key)] = value
}

// Delete removes key; a missing one is no error.
func (k *KV) Delete(key []byte) error {
	if err := k.c.check(); err != nil {
		return err
	}
	k.c.Batch().Delete(actorstore.UserKey(key))
	k.write(key, nil)
	return nil
}

// DeleteRange removes the keys in [start, end); a nil end means all from start on.
func (k *KV) DeleteRange(start, end []byte) error {
	if err := k.c.check(); err != nil {
		return err
	}
	s := span{bytes.Clone(start), bytes.Clone(end)}
	to := actorstore.UserKey(end)
	if end == nil {
		_, to = actorstore.NamespaceRange(actorstore.UserKey(nil)[0])
	}
	k.c.Batch().DeleteRange(actorstore.UserKey(start), to)
	for key := range k.draft {
		if s.has([]byte(key)) {
			delete(k.draft, key)
		}
	}
	k.cleared = append(k.cleared, s)
	return nil
}

// List yields the entries that opts select, whose bounds and prefix are user keys, as the
// keys of the entries are. What the turn writes while it iterates may be seen or not.
// Keys and values must not be changed, and are valid until the next iteration. An error is yielded once, with a zero Entry.
func (k *KV) List(opts actorstore.ListOptions) iter.Seq2[actorstore.Entry, error] {
	return func(yield func(actorstore.Entry, error) bool) {
		if err := k.c.check(); err != nil {
			yield(actorstore.Entry{}, err)
			return
		}
		limit, n := opts.Limit, 0
		if len(k.draft) > 0 || len(k.cleared) > 0 {
			opts.Limit = 0 // some of those that are stored may be gone
		}
		for e, err := range k.merged(opts) {
			if !yield(e, err) || err != nil {
				return
			}
			if n++; limit > 0 && n == limit {
				return
			}
		}
	}
}

// merged is what is stored with what the turn has made of it.
func (k *KV) merged(opts actorstore.ListOptions) iter.Seq2[actorstore.Entry, error] {
	return func(yield func(actorstore.Entry, error) bool) {
		own := k.drafted(&opts)
		before := func(a, b []byte) bool { return (bytes.Compare(a, b) < 0) != opts.Reverse }
		for e, err := range k.c.life.actor.User().List(k.c, opts) {
			if err != nil {
				yield(actorstore.Entry{}, err)
				return
			}
			for len(own) > 0 && before(own[0].Key, e.Key) {
				if !yield(own[0], nil) {
					return
				}
				own = own[1:]
			}
			if _, mine := k.draft[string(e.Key)]; mine || k.isCleared(e.Key) {
				continue // what the turn has of it comes in its place
			}
			if !yield(e, nil) {
				return
			}
		}
		for _, e := range own {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// drafted returns what the turn has put, of what opts select, in order.
func (k *KV) drafted(opts *actorstore.ListOptions) []actorstore.Entry {
	var es []actorstore.Entry
	s := span{opts.Start, opts.End}
	for key, v := range k.draft {
		if v == nil || !s.has([]byte(key)) || !strings.HasPrefix(key, string(opts.Prefix)) {
			continue
		}
		e := actorstore.Entry{Key: []byte(key), Size: len(v), Updated: k.c.now}
		if !opts.KeysOnly {
			e.Value = v
		}
		es = append(es, e)
	}
	slices.SortFunc(es, func(a, b actorstore.Entry) int {
		if opts.Reverse {
			a, b = b, a
		}
		return bytes.Compare(a.Key, b.Key)
	})
	return es
}
