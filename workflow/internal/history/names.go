package history

import (
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/batch"
)

// maxName is the length of the longest name, in bytes.
const maxName = 4096

// Name returns the index of a name, which is registered if it is new; it is written with
// the next commit of anything. A name that is not UTF-8 is errInvalid, and one of more
// than maxName bytes, or than a value may have, errTooLarge.
func (h *History) Name(name string) (NameIndex, error) {
	if i, ok := h.Lookup(name); ok {
		return i, nil
	}
	if err := h.checkName(name); err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m.register(name), nil
}

// checkName says why a name can't be stored.
func (h *History) checkName(name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w name %q: not UTF-8", errInvalid, clip(name))
	}
	if limit := min(maxName, h.limits.ValueSize); len(name) > limit {
		err := &batch.LimitError{Err: batch.ErrValueTooLarge, What: "bytes of the name", Size: len(name), Limit: limit}
		return &SizeError{Path: strconv.Quote(clip(name)), What: err.What, Size: err.Size, Limit: err.Limit, Err: err}
	}
	return nil
}

// clip returns the beginning of a long name.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return name[:most] + "…"
	}
	return name
}

// register returns the index of a name.
func (m *memory) register(name string) NameIndex {
	i, ok := m.index[name]
	if !ok {
		i = NameIndex(len(m.names))
		m.names = append(m.names, name)
		m.index[name] = i
	}
	return i
}

// Lookup returns the index of a name that is registered.
func (h *History) Lookup(name string) (NameIndex, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	i, ok := h.m.index[name]
	return i, ok
}

// NameOf returns the name of that index, "" without one.
func (h *History) NameOf(i NameIndex) string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if int64(i) < int64(len(h.m.names)) {
		return h.m.names[i]
	}
	return ""
}

// Unstored returns how many names are registered and not written.
func (h *History) Unstored() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.m.names) - int(h.m.stored)
}

// StoreNames writes names ahead of what needs them, up to a hundred in a commit, until at
// most so many are left: for a writer of small commits. Errors are those of
// Tx.Commit.
func (h *History) StoreNames(ctx context.Context, left int) error {
	for h.Unstored() > left {
		tx := h.Begin()
		tx.naming = 100
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		tx.Free()
	}
	return nil
}

// Path returns a location in words: see Snapshot.Path.
func (h *History) Path(l Location) string {
	var buf [128]byte // most paths fit
	h.mu.RLock()
	defer h.mu.RUnlock()
	return string(appendPath(buf[:0], l, h.m.names))
}
