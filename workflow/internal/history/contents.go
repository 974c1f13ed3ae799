package history

import (
	"fmt"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// settings are what Open fixes.
type settings struct {
	actor  *actorstore.Actor
	opts   Options
	limits batch.Limits
}

// checkName says why a name can't be stored.
func (s *settings) checkName(name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w name %q: not UTF-8", errInvalid, clip(name))
	}
	if limit := min(maxName, s.limits.ValueSize); len(name) > limit {
		err := &batch.LimitError{Err: batch.ErrValueTooLarge, What: "bytes of the name", Size: len(name), Limit: limit}
		return &SizeError{Path: strconv.Quote(clip(name)), What: err.What, Size: err.Size, Limit: err.Limit, Err: err}
	}
	return nil
}

// contents are a workflow in memory, and what of it is still to be written.
//
// mu guards memory and closed. It is held for memory alone: never while the engine is asked, nor during a commit,
// whose hooks take it. dirty has a lock of its own, and changes under mu.
type contents struct {
	settings
	dirty batch.Dirty[deferred]

	mu     sync.RWMutex
	m      memory // +checklocks:mu
	closed bool   // +checklocks:mu
}

// A deferred is something that was changed in memory and is to be written: an entry, the
// metadata of one, or a field.
type deferred struct {
	what  what
	at    Location
	field field
}

type what uint8

const (
	whatEntry what = iota
	whatMetadata
	whatField
)

// usable returns why nothing can be staged: ErrClosed, or what the actor's Err says.
//
// +checklocksread:c.mu
func (c *contents) usable() error {
	if c.closed {
		return ErrClosed
	}
	return c.actor.Err()
}

// Path returns a location in words: see Snapshot.Path.
func (c *contents) Path(l Location) string {
	var buf [128]byte // most paths fit
	c.mu.RLock()
	defer c.mu.RUnlock()
	return string(appendPath(buf[:0], l, c.m.names))
}

// written forgets that something was deferred which has been written since.
//
// +checklocks:c.mu
func (c *contents) written(done batch.Captured[deferred]) {
	c.dirty.Clear(done)
	for _, d := range done.Keys() {
		rec := c.m.records[d.at]
		if rec == nil || c.dirty.Dirty(d) {
			continue // gone, or deferred again
		}
		switch d.what {
		case whatEntry:
			rec.value = nil
		case whatMetadata:
			rec.metaValue = nil
		}
	}
}

// restoreNames registers names, which must be the first.
func (c *contents) restoreNames(names []string) error {
	for _, name := range names {
		if err := c.checkName(name); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m.names) > 0 || len(c.m.order) > 0 {
		return fmt.Errorf("%w: there is a history already", errInvalid)
	}
	for i, name := range names {
		if c.m.register(name) != NameIndex(i) {
			return fmt.Errorf("%w name %q: it comes twice", errInvalid, clip(name))
		}
	}
	return nil
}
