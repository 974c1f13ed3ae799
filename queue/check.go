package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Check reads the queue that v shows, and yields what is wrong with it: messages and
// senders' keys that can't be read, or that no queue can have stored so; and metadata that
// are missing beside messages, can't be read, name a next id that was given, or have
// another number of messages than there are. Rows that don't fit together, and keys of
// another form, actorstore's check finds.
//
// Harmless is a number of messages that is wrong: writers that remove messages and write
// the metadata in two commits leave that behind if they crash in between. None of it keeps
// Open from working: what it says about each is Quarantined, or made anew.
//
// An error means that the engine failed, not that something is damaged; it comes with a
// zero Finding and ends the sequence. A check takes constant memory.
func Check(ctx context.Context, v *actorstore.View) iter.Seq2[actorstore.Finding, error] {
	return func(yield func(actorstore.Finding, error) bool) {
		c := &checker{ctx: ctx, view: v, yield: yield, found: metadata{next: 1}}
		for _, part := range []func() error{c.messages, c.senders, c.metadata} {
			if err := part(); err != nil {
				yield(actorstore.Finding{}, fmt.Errorf("queue: check: %w", err))
				return
			}
			if c.stopped {
				return
			}
		}
	}
}

// A checker is one walk. Its methods return the engine's error.
type checker struct {
	ctx     context.Context
	view    *actorstore.View
	yield   func(actorstore.Finding, error) bool
	stopped bool // the caller wants no more
	found   metadata
}

// find yields a finding.
func (c *checker) find(key []byte, harmless bool, format string, args ...any) {
	c.report(actorstore.Finding{Where: actorstore.Describe(key), What: fmt.Sprintf(format, args...), Harmless: harmless})
}

func (c *checker) report(f actorstore.Finding) {
	f.Actor = c.view.Info().ID
	c.stopped = c.stopped || !c.yield(f, nil) // what comes after that isn't yielded
}

func (c *checker) messages() error {
	for e, err := range entries(c.ctx, c.view.Snapshot, nil) {
		if err != nil {
			return err
		}
		c.message(e)
		if c.stopped {
			return nil
		}
	}
	return nil
}

func (c *checker) message(e entry) {
	c.found.size++
	id, ok := parseMessageKey(c.view.Layout(), e.key)
	if !ok {
		return
	}
	c.found.taken(id)
	if id == 0 || id > lastID {
		c.find(e.key, false, "ids are between 1 and %s", lastID)
	}
	if e.err == nil { // else it was found before
		if _, err := parseRecord(e.value); err != nil {
			c.find(e.key, false, "%v", err)
		}
	}
}

// senders checks the notes of senders' keys.
func (c *checker) senders() error {
	for n, err := range c.view.Notes(c.ctx, []byte{actorstore.NamespaceQueue}) {
		if err != nil {
			return err
		}
		id, _, err := parseNote(n.Value)
		switch {
		case err != nil:
			c.report(actorstore.Finding{Where: "notes", What: fmt.Sprintf("a sender's key, %x: %v", n.Key, err)})
		case len(n.Key) != len(noteKey{}):
			c.report(actorstore.Finding{Where: "notes", What: fmt.Sprintf("a sender's key, %x, has %d bytes", n.Key, len(n.Key))})
		default:
			c.found.taken(id)
		}
		if c.stopped {
			return nil
		}
	}
	return nil
}

// metadata comes last: it holds what is stored against what was found.
func (c *checker) metadata() error {
	key := metadataKey(c.view.Layout())
	value, err := c.view.Get(c.ctx, key, nil)
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		if c.found.size > 0 {
			c.find(key, false, "it is missing, and there are %d messages", c.found.size)
		}
		return nil
	case errors.Is(err, actorstore.ErrCorrupt):
		return nil // which was found before
	case err != nil:
		return err
	}
	stored, err := parseMetadata(value)
	if err != nil {
		c.find(key, false, "%v", err)
		return nil
	}
	switch {
	case stored.next > lastID+1:
		c.find(key, false, "the next id is %s, which nobody can have come to", stored.next)
	case stored.next < c.found.next:
		c.find(key, false, "the next id is %s, and %s was given", stored.next, c.found.next-1)
	}
	if stored.size != c.found.size {
		c.find(key, true, "it counts %d messages, and there are %d", stored.size, c.found.size)
	}
	return nil
}
