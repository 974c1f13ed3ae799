package reads

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/kv"
)

// A learned is what an answer of the engine is worth.
type learned struct {
	key   []byte
	entry *cache.Entry // what to keep, nil for nothing
	// seq is the newest commit at a time before the question. snap, unless it is
	// nil, is the State for which the newest one was read.
	seq  uint64
	snap *State
}

// learn says whether the answer is one of the state in question, and keeps it in the
// cache if it is also that of the newest one. If it isn't, wait, unless it is nil,
// is closed when asking again makes sense.
func (t *far) learn(l *learned) (ok bool, wait <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := l.seq
	if l.snap != nil {
		if e, pin, err := t.past.find(l.key, l.snap.Seq); e != nil || pin != nil || err != nil {
			return false, nil // it was touched, and this is how to read it
		}
		if t.over {
			return false, nil // it may have been another's state already
		}
		from = l.snap.Seq
	} else if t.sending != nil && t.sending.touches(l.key) {
		if t.sent == nil {
			t.sent = make(chan struct{})
		}
		return false, t.sent
	}
	newest := l.snap != nil || t.Handle.Seq() == l.seq
	if l.entry != nil && newest && !t.over && t.Handle.Err() == nil {
		l.entry.From = from
		t.part.Put(l.entry, false)
	}
	return true, nil
}

// entry returns what to keep of an answer, nil for nothing.
func (t *far) entry(key, value []byte, err error, whole bool) *cache.Entry {
	if t.part == nil || err != nil && !errors.Is(err, kv.ErrNotFound) || len(value) > layout.RowSize {
		return nil
	}
	e := &cache.Entry{Key: string(key)}
	switch {
	case err != nil && whole:
		e.Kind = cache.Absent
	case err != nil:
		e.Kind = cache.NoPage
	case !whole && len(value) == layout.RowSize:
		e.Kind = cache.Page
	}
	if err == nil {
		e.Value = bytes.Clone(value)
	}
	return e
}

// Read is Reads'.
func (t *far) Read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	seq := t.Handle.Seq()
	if seq == 0 { // before its first commit an actor has nothing
		return dst, cmp.Or(t.Handle.Owned(ctx, t.Engine), kv.ErrNotFound)
	}
	for {
		if e := t.part.Get(key); e != nil {
			if e.From > seq {
				// It is just being entered, with others, of which we may not have
				// the new value after this.
				seq = t.entered()
				continue
			}
			if e.Answers(whole) {
				if err := t.Handle.Owned(ctx, t.Engine); err != nil {
					return dst, err
				}
				return e.Answer(dst, whole)
			}
		}
		out, err := t.Rows.Read(ctx, key, dst, whole)
		if err := t.Handle.Owned(ctx, t.Engine); err != nil {
			return dst, err
		}
		l := learned{key: key, seq: seq, entry: t.entry(key, out[len(dst):], err, whole)}
		ok, wait := t.learn(&l)
		if ok {
			return out, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
		if err := t.Handle.Usable(); err != nil {
			return dst, err
		}
		seq = t.Handle.Seq()
	}
}

// entered returns the newest commit, when all of it is in the cache.
func (t *far) entered() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Handle.Seq()
}

// Size is Reads'. Memory may know it.
func (t *far) Size(ctx context.Context, key []byte, empty bool) (int64, error) {
	if empty {
		return -1, nil
	}
	e := t.part.Get(key)
	switch {
	case e == nil || !e.Answers(true):
		return t.Rows.Size(ctx, key)
	case e.Kind == cache.Absent:
		return -1, nil
	}
	return int64(len(e.Value)), nil
}

// Preload is Reads'.
func (t *far) Preload(ctx context.Context, ranges []kv.Range, each func(rows.Entry) error) error {
	seq := t.Handle.Seq() // the newest commit before the question
	if seq == 0 {
		return t.Handle.Owned(ctx, t.Engine)
	}
	var read []*cache.Entry
	err := Preload(ctx, &t.Rows, ranges, func(e rows.Entry) error {
		if t.part != nil && e.Size <= layout.RowSize {
			kept := t.entry(e.Key, e.Value, nil, true)
			kept.Use() // before, or it would not be asked for now
			read = append(read, kept)
		}
		if each == nil {
			return nil
		}
		return each(e)
	})
	if owned := t.Handle.Owned(ctx, t.Engine); owned != nil {
		return owned
	}
	if err != nil {
		return err
	}
	for _, e := range read {
		t.learn(&learned{key: []byte(e.Key), entry: e, seq: seq})
	}
	return nil
}
