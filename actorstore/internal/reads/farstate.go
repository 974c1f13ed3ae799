package reads

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/kv"
)

// readAt reads the newest state, if no commit has touched the key since.
func (t *far) readAt(ctx context.Context, s *State, key, dst []byte, whole bool) ([]byte, error) {
	if s.Seq == 0 {
		return dst, cmp.Or(s.Owned(ctx), kv.ErrNotFound)
	}
	for {
		var e *cache.Entry
		// The engine may have shown its snapshot a commit that the cache hasn't yet.
		if s.snap == nil || t.Handle.Seq() >= s.Seq {
			e = t.part.Get(key)
		}
		if e == nil || e.From > s.Seq || !e.Answers(whole) {
			if s.snap != nil {
				return readPinned(ctx, s, s.snap, key, dst, whole)
			}
			old, pin, err := t.findAt(ctx, s, key)
			switch {
			case err != nil:
				return dst, err
			case pin != nil:
				return readPinned(ctx, s, pin, key, dst, whole)
			case old != nil:
				e = old
			}
			// Else no commit since s has touched it: the newest value is that of s.
		}
		if e != nil && e.Answers(whole) {
			if err := s.Owned(ctx); err != nil {
				return dst, err
			}
			return e.Answer(dst, whole)
		}
		out, err := readPinned(ctx, s, t.Engine, key, dst, whole)
		if err := s.Err(); err != nil {
			return dst, err
		}
		l := learned{key: key, snap: s, entry: t.entry(key, out[len(dst):], err, whole)}
		if ok, _ := t.learn(&l); ok {
			return out, err
		}
	}
}

// findAt is find for s, when the handle isn't just being closed.
func (t *far) findAt(ctx context.Context, s *State, key []byte) (*cache.Entry, kv.Snapshot, error) {
	for retired := false; ; retired = true {
		t.mu.Lock()
		e, pin, err := t.past.find(key, s.Seq)
		found := !t.over || e != nil || pin != nil || err != nil
		t.mu.Unlock()
		if found {
			return e, pin, err
		}
		if retired {
			// The handle failed, or s was closed while it was read.
			return nil, nil, cmp.Or(s.Err(), error(ErrClosed))
		}
		select {
		case <-t.retired:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// readPinned reads what the engine shows of the actor of s.
func readPinned(ctx context.Context, s *State, pin kv.Reader, key, dst []byte, whole bool) ([]byte, error) {
	sp := s.Rows.Of(pin)
	out, err := sp.Read(ctx, key, dst, whole)
	if err := s.Owned(ctx); err != nil {
		return dst, err
	}
	return out, err
}

// A lazySource is the engine as a State without a snapshot sees it, for scans: the newest
// state, or once a commit has made that another one, what was pinned before.
type lazySource struct {
	t *far
	s *State
}

// Get is not used: single keys are read by readAt.
func (l lazySource) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	panic("actorstore: a row of a lazy snapshot is read by itself")
}

// Scan is kv.Reader's. The state of a scan is fixed by the time its first entry is
// there: if no commit has begun to change it by then, it is that of the State.
func (l lazySource) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	if l.s.Seq == 0 { // before its first commit an actor has nothing
		return func(func(kv.Entry, error) bool) {}
	}
	return func(yield func(kv.Entry, error) bool) {
		begun, pin, err := false, kv.Snapshot(nil), error(nil)
		for e, scanErr := range l.t.Engine.Scan(ctx, r) {
			if !begun && scanErr == nil {
				if pin, err = l.pinned(ctx); pin != nil || err != nil {
					break
				}
				begun = true
			}
			if !yield(e, scanErr) || scanErr != nil {
				return
			}
		}
		if !begun && pin == nil && err == nil { // nothing was there
			pin, err = l.pinned(ctx)
		}
		switch {
		case err != nil:
			yield(kv.Entry{}, err)
		case pin != nil:
			pin.Scan(ctx, r)(yield)
		}
	}
}

// pinned returns the engine's snapshot of the state, nil while that is the newest.
func (l lazySource) pinned(ctx context.Context) (kv.Snapshot, error) {
	// For a State that may be listed, every commit that changes the state it shows has pinned that
	// before, so that the key doesn't matter.
	_, pin, err := l.t.findAt(ctx, l.s, nil)
	return pin, err
}

// prefetch reads with one scan, of the newest state, if that can be the state of s.
func (t *far) prefetch(ctx context.Context, s *State, r kv.Range, limit int) (int, error) {
	if t.part == nil || s.Seq == 0 || !t.newest(s) {
		return 0, nil
	}
	// A value of one row has two, with METADATA. Of larger ones less comes.
	r.Limit = 2 * max(limit, 0)
	src := kv.Reader(t.Engine)
	if s.snap != nil {
		src = s.snap
	}
	var read []*cache.Entry
	// The last key may be cut off by the limit: nothing is known of it.
	err := s.Rows.Entries(src.Scan(ctx, r), limit, true, func(e rows.Entry) error {
		if e.Size <= layout.RowSize {
			read = append(read, t.entry(e.Key, e.Value, nil, true))
		}
		return nil
	})
	if err == nil {
		err = s.Owned(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("actorstore: prefetch: %w", err)
	}
	kept := 0
	for _, e := range read {
		l := learned{key: []byte(e.Key), entry: e, seq: s.Seq}
		if s.snap == nil { // it was read from the newest state, else from that of seq
			l.snap = s
		}
		if ok, _ := t.learn(&l); ok && e.Kept() {
			kept++
		}
	}
	return kept, nil
}

// newest says whether what the engine shows can be what s shows and the newest state
// at once, which is all that the cache is for.
func (t *far) newest(s *State) bool {
	if s.snap != nil {
		return t.Handle.Seq() == s.Seq
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.Seq >= t.past.pinned()
}

// cached says whether the first page of key would be answered from memory.
func (t *far) cached(s *State, key []byte) bool {
	if t.part == nil {
		return false
	}
	e := t.part.Peek(key)
	if e != nil && e.From <= s.Seq && e.Answers(false) {
		return true
	}
	if s.snap != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, pin, err := t.past.find(key, s.Seq)
	if old == nil && pin == nil && err == nil {
		old = e // no commit has touched it since
	}
	return old != nil && old.Answers(false)
}
