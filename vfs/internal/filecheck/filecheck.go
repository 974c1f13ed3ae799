// Package filecheck looks at the files of a database in an actor's keys, and tells what is wrong with them.
package filecheck

// Files, from the top down: files.go, which files there are; file.go, one file; holes.go, which chunks may be missing;
// filecheck.go, how a state is read and a finding told; keyed.go, the keys of a file.

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A Reader is the state of an actor that a check reads: an *actorstore.View, or
// an *actorstore.Snapshot.
type Reader interface {
	actorstore.Reader
	// ID says whose state it is.
	ID() actorstore.ID
	// Survey lists keys, and goes on after damage.
	Survey(ctx context.Context, start, end []byte) iter.Seq2[actorstore.Entry, error]
}

var _, _ Reader = (*actorstore.View)(nil), (*actorstore.Snapshot)(nil)

// ErrStopped ends a check whose consumer wants no more.
var ErrStopped = errors.New("vfs: the check was stopped")

// A Checker is one check. Its methods return an error to end it: the engine's, or
// ErrStopped. It isn't safe for concurrent use.
type Checker struct {
	ctx   context.Context
	r     Reader
	yield func(actorstore.Finding, error) bool
	sound bool // no fault and no hot journal was found: SQLite may look

	plain  bool // the database is of SQLite's format, not encrypted
	logged bool // it has a log from which SQLite reads

	key   []byte // scratch
	chunk chunked.Buf
}

// New returns a Checker of r's actor, which hands findings to yield until that returns false.
func New(ctx context.Context, r Reader, yield func(actorstore.Finding, error) bool) *Checker {
	return &Checker{ctx: ctx, r: r, yield: yield, sound: true}
}

// Sound says whether neither a fault nor a hot journal was found.
func (c *Checker) Sound() bool { return c.sound }

// Plain says whether the database is of SQLite's format, and not encrypted.
func (c *Checker) Plain() bool { return c.plain }

// A Severity says what a finding is.
type Severity int

// The severities, as actorstore.Finding has them.
const (
	Fault Severity = iota
	Harmless
	Unfinished
	Unchecked
)

// find yields a finding about what lies under key.
func (c *Checker) find(s Severity, key []byte, format string, args ...any) error {
	return c.FindAt(s, actorstore.Describe(key), fmt.Sprintf(format, args...))
}

// FindAt yields a finding about what lies at where, a place in words.
func (c *Checker) FindAt(s Severity, where, what string) error {
	if s == Fault || s == Unfinished {
		c.sound = false
	}
	f := actorstore.Finding{
		Actor: c.r.ID(), Where: where, What: what,
		Harmless: s != Fault, Unfinished: s == Unfinished, Unchecked: s == Unchecked,
	}
	if !c.yield(f, nil) {
		return ErrStopped
	}
	return nil
}

// survey is Reader.Survey, of which the error of a damaged key is not one: it
// makes the check unsound.
func (c *Checker) survey(start, end []byte) iter.Seq2[actorstore.Entry, error] {
	return func(yield func(actorstore.Entry, error) bool) {
		for e, err := range c.r.Survey(c.ctx, start, end) {
			if err != nil && e.Key != nil && errors.Is(err, actorstore.ErrCorrupt) {
				c.sound, err = false, nil
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// load reads the size record of f.
func (c *Checker) load(f *keyedFile) error {
	c.key = f.appendMeta(c.key[:0])
	record, err := c.r.Get(c.ctx, c.key, nil)
	switch {
	case errors.Is(err, actorstore.ErrNotFound):
		return nil
	case errors.Is(err, actorstore.ErrCorrupt):
		c.sound, f.has, f.broken = false, true, errRows
		return nil
	case err != nil:
		return err
	}
	f.has = true
	f.size, f.broken = chunked.ParseMeta(record)
	return nil
}

// errRows: the rows of a size record are damaged, which is not for Check to tell.
var errRows = errors.New("vfs: damaged rows")

// read fills b, which lies within one chunk of f, with the bytes at off, and with
// zeros what isn't there. What is damaged is not there either.
func (c *Checker) read(f *keyedFile, b []byte, off int64) error {
	var chunk []byte
	for _, g := range [...]*keyedFile{f.moved, f} {
		if g == nil {
			continue
		}
		c.key = g.appendChunk(c.key[:0], uint32(off/chunked.Size))
		found, err := c.r.Page(c.ctx, c.key, c.chunk[:0])
		if err == nil {
			chunk = found
			break
		}
		if !errors.Is(err, actorstore.ErrNotFound) && !errors.Is(err, actorstore.ErrCorrupt) {
			return err
		}
	}
	clear(b[copy(b, chunk[min(int(off%chunked.Size), len(chunk)):]):])
	return nil
}
