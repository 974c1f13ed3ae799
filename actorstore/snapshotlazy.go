package actorstore

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// find says how to read key as it was after commit seq, which is that of an open
// Snapshot: from the entry, from the engine's snapshot, or, when there is neither and
// no error, from the newest state.
//
// +checklocks:t.mu
func (t *tip) find(key []byte, seq uint64) (*entry, kv.Snapshot, error) {
	for _, u := range t.undos {
		if u.seq <= seq {
			continue
		}
		if u.final() {
			return nil, u.pin, u.err
		}
		if e := u.old[string(key)]; e != nil {
			return e, nil, nil
		}
	}
	return nil, nil, nil
}

// A learned is what an answer of the engine is worth.
type learned struct {
	key   []byte
	entry *entry // what to keep, nil for nothing
	// seq is the newest commit at a time before the question. snap, unless it is
	// nil, is the Snapshot for which the newest state was read.
	seq  uint64
	snap *Snapshot
}

// learn says whether the answer is one of the state in question, and keeps it in the
// cache if it is also that of the newest one. If it isn't, wait, unless it is nil,
// is closed when asking again makes sense.
func (t *tip) learn(l *learned) (ok bool, wait <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := l.seq
	if l.snap != nil {
		if e, pin, err := t.find(l.key, l.snap.seq); e != nil || pin != nil || err != nil {
			return false, nil // it was touched, and this is how to read it
		}
		if t.over {
			return false, nil // it may have been another's state already
		}
		from = l.snap.seq
	} else if t.sending != nil && t.sending.touches(l.key) {
		if t.sent == nil {
			t.sent = make(chan struct{})
		}
		return false, t.sent
	}
	newest := l.snap != nil || t.a.Seq() == l.seq
	if l.entry != nil && newest && !t.over && t.a.Err() == nil {
		l.entry.tenant, l.entry.from = t.tenant, from
		t.cache.put(l.entry, false)
	}
	return true, nil
}

// remembered returns what to keep of an answer, nil for nothing.
func (t *tip) remembered(key, value []byte, err error, whole bool) *entry {
	if t.cache == nil || err != nil && !errors.Is(err, ErrNotFound) || len(value) > layout.RowSize {
		return nil
	}
	e := &entry{key: string(key)}
	switch {
	case err != nil && whole:
		e.kind = entryAbsent
	case err != nil:
		e.kind = entryNoPage
	case !whole && len(value) == layout.RowSize:
		e.kind = entryPage
	}
	if err == nil {
		e.value = bytes.Clone(value)
	}
	return e
}

// read answers Page of the newest state, or Get if whole.
func (t *tip) read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	seq := t.a.Seq()
	for {
		if e := t.cached(key); e != nil {
			if e.from > seq {
				// It is just being entered, with others, of which we may not have
				// the new value after this.
				seq = t.entered()
				continue
			}
			if e.answers(whole) {
				if err := t.a.owned(ctx, t.a.store.eng); err != nil {
					return dst, err
				}
				return e.answer(dst, whole)
			}
		}
		out, err := t.a.space.read(ctx, key, dst, whole)
		if err := t.a.owned(ctx, t.a.store.eng); err != nil {
			return dst, err
		}
		l := learned{key: key, seq: seq, entry: t.remembered(key, out[len(dst):], err, whole)}
		ok, wait := t.learn(&l)
		if ok {
			return out, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
		if err := t.a.check(); err != nil {
			return dst, err
		}
		seq = t.a.Seq()
	}
}

// entered returns the newest commit, when all of it is in the cache.
func (t *tip) entered() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.a.Seq()
}

// readLazy answers Page, or Get if whole, of s as a tip has it.
func (s *Snapshot) readLazy(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	t := s.tip
	for {
		var e *entry
		// The engine may have shown its snapshot a commit that the cache hasn't yet.
		if s.snap == nil || t.a.Seq() >= s.seq {
			e = t.cached(key)
		}
		if e == nil || e.from > s.seq || !e.answers(whole) {
			if s.snap != nil {
				return s.readPinned(ctx, s.snap, key, dst, whole)
			}
			old, pin, err := s.find(ctx, key)
			switch {
			case err != nil:
				return dst, err
			case pin != nil:
				return s.readPinned(ctx, pin, key, dst, whole)
			case old != nil:
				e = old
			}
			// Else no commit since s has touched it: the newest value is that of s.
		}
		if e != nil && e.answers(whole) {
			if err := s.owned(ctx); err != nil {
				return dst, err
			}
			return e.answer(dst, whole)
		}
		out, err := s.readPinned(ctx, s.owner.store.eng, key, dst, whole)
		if err := s.check(); err != nil {
			return dst, err
		}
		l := learned{key: key, snap: s, entry: t.remembered(key, out[len(dst):], err, whole)}
		if ok, _ := t.learn(&l); ok {
			return out, err
		}
	}
}

// find is the tip's, when the handle isn't just being closed.
func (s *Snapshot) find(ctx context.Context, key []byte) (*entry, kv.Snapshot, error) {
	t := s.tip
	for retired := false; ; retired = true {
		t.mu.Lock()
		e, pin, err := t.find(key, s.seq)
		found := !t.over || e != nil || pin != nil || err != nil
		t.mu.Unlock()
		if found {
			return e, pin, err
		}
		if retired {
			if err := s.check(); err != nil {
				return nil, nil, err
			}
			panic("actorstore: a handle was closed and nothing keeps the state of a snapshot")
		}
		select {
		case <-t.retired:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// readPinned reads a snapshot of the engine.
func (s *Snapshot) readPinned(ctx context.Context, pin kv.Reader, key, dst []byte, whole bool) ([]byte, error) {
	sp := space{src: pin, store: s.space.store, prefix: s.space.prefix}
	out, err := sp.read(ctx, key, dst, whole)
	if err := s.owned(ctx); err != nil {
		return dst, err
	}
	return out, err
}

// read is get if whole, else page.
func (s *space) read(ctx context.Context, key, dst []byte, whole bool) ([]byte, error) {
	if whole {
		return s.get(ctx, key, dst)
	}
	return s.page(ctx, key, dst)
}

// A lazySource is the engine as a Snapshot without one sees it, for scans: the newest
// state, or once a commit has made that another one, what was pinned before.
type lazySource struct{ s *Snapshot }

// Get is not used: single keys are read by readLazy.
func (l lazySource) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	panic("actorstore: a row of a lazy snapshot is read by itself")
}

// Scan is kv.Reader's. The state of a scan is fixed by the time its first entry is
// there: if no commit has begun to change it by then, it is that of the Snapshot.
func (l lazySource) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		begun, pin, err := false, kv.Snapshot(nil), error(nil)
		for e, scanErr := range l.s.owner.store.eng.Scan(ctx, r) {
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
	// For a snapshot that may list, every commit that changes the state it shows has pinned that
	// before, so that the key doesn't matter.
	_, pin, err := l.s.find(ctx, nil)
	return pin, err
}
