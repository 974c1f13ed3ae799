package vfs

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
)

// CheckOptions change what Check does. The zero value is fine.
type CheckOptions struct {
	// FilesOnly leaves out SQLite's own look at the database.
	FilesOnly bool
}

// A CheckReader is the state of an actor that Check reads: an *actorstore.View, or
// an *actorstore.Snapshot.
type CheckReader interface {
	actorstore.Reader
	// ID says whose state it is.
	ID() actorstore.ID
	// Survey lists keys, and goes on after damage.
	Survey(ctx context.Context, start, end []byte) iter.Seq2[actorstore.Entry, error]
}

var _, _ CheckReader = (*actorstore.View)(nil), (*actorstore.Snapshot)(nil)

// Check walks the SQLite files of an actor, those under keys of the older form too,
// and yields what is wrong with them; nothing for a healthy actor. It goes together
// with Check of actorstore: that the rows of a key are damaged is said there, and
// not again here.
//
// These are faults: a size record that can't be read, or states an impossible size; a
// chunk of more than 4096 bytes; a chunk that is missing below the size, which would
// read as zeros; a WAL or WAL index, which nothing here reads; and what SQLite finds.
// SQLite itself leaves chunks out, and they are not missed: the lock-byte page at
// 1 GiB, and pages that came to the free list before they were ever written. Of a
// file that SQLite's format can't be seen in, because it is encrypted, nothing is
// known about which those are: only its first chunk is missed.
//
// Harmless is what a crash leaves and the next owner removes when it opens the
// database: chunks beyond the size, and a journal that is over, which is to say of
// which the first byte is 0, or whose main file is empty. Chunks of a file that has
// no size record are left by a crash while the file was first stored. The loss of the
// record looks the same, and they are removed all the same; so it is a fault if the
// chunks of a main file without a journal were written over more than an hour. A
// journal of no bytes is what journal_mode TRUNCATE and PERSIST keep, and no finding.
//
// Unfinished is a journal that is not over: the next owner rolls it back. Until then
// the main file is neither complete nor checked for holes.
//
// If r is an *actorstore.View, no journal is hot and there is no fault in the files,
// SQLite looks at the database too, with PRAGMA integrity_check: each line that it
// prints is a fault. Page 1 must begin as SQLite's format does; what is encrypted is
// left out. A finding of SQLite says "sqlite" for the place.
//
// An error means that the engine failed, not that something is damaged; it comes with
// a zero Finding and ends the sequence. A check takes constant memory, beside one bit
// for each page in SQLite. A nil opts is the zero CheckOptions.
func Check(ctx context.Context, r CheckReader, opts *CheckOptions) iter.Seq2[actorstore.Finding, error] {
	if opts == nil {
		opts = &CheckOptions{}
	}
	return func(yield func(actorstore.Finding, error) bool) {
		c := &checker{ctx: ctx, r: r, yield: yield, sound: true}
		err := c.files()
		if view, ok := r.(*actorstore.View); ok && err == nil && c.sound && c.plain && !c.opaque && !opts.FilesOnly {
			err = c.integrity(view)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(actorstore.Finding{}, fmt.Errorf("vfs: check: %w", err))
		}
	}
}

// errStopped ends a check whose consumer wants no more.
var errStopped = errors.New("vfs: the check was stopped")

// A checker is one walk. Its methods return an error to end it: the engine's, or
// errStopped.
type checker struct {
	ctx   context.Context
	r     CheckReader
	yield func(actorstore.Finding, error) bool
	sound bool // no fault and no hot journal was found: SQLite may look

	plain, opaque bool // a main file of SQLite's format was seen; one of another

	key   []byte // scratch
	chunk chunkBuf
	holes holes
}

// A severity says what a finding is.
type severity int

const (
	fault severity = iota
	harmless
	unfinished
)

// find yields a finding about what lies under key.
func (c *checker) find(s severity, key []byte, format string, args ...any) error {
	return c.findAt(s, actorstore.Describe(key), fmt.Sprintf(format, args...))
}

func (c *checker) findAt(s severity, where, what string) error {
	if s != harmless {
		c.sound = false
	}
	f := actorstore.Finding{
		Actor: c.r.ID(), Where: where, What: what,
		Harmless: s != fault, Unfinished: s == unfinished,
	}
	if !c.yield(f, nil) {
		return errStopped
	}
	return nil
}

// survey is CheckReader.Survey, of which the error of a damaged key is not one: it
// makes the check unsound.
func (c *checker) survey(start, end []byte) iter.Seq2[actorstore.Entry, error] {
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

// files checks all files that there are.
func (c *checker) files() error {
	for tag := actorstore.FileMain; tag <= actorstore.FileSHM; tag++ {
		if err := c.file(&keyedFile{tag: tag}); err != nil {
			return err
		}
	}
	return c.namedFiles()
}

// namedFiles checks the files under keys of the older form: those with a size
// record, and those that have only chunks.
func (c *checker) namedFiles() error {
	start := actorstore.AppendFileMeta(nil, actorstore.FileSHM+1)
	chunks, _ := actorstore.FileChunks(actorstore.FileMain, 0)
	for e, err := range c.survey(start, chunks[:2]) {
		if err != nil {
			return err
		}
		if f, ok := namedOf(e.Key); ok {
			if err := c.file(f); err != nil {
				return err
			}
		}
	}
	from, _ := actorstore.FileChunks(actorstore.FileSHM+1, 0)
	from = from[:3]
	for {
		f, err := c.nextNamed(from)
		if f == nil || err != nil {
			return err
		}
		if has, err := c.load(f); err != nil {
			return err
		} else if !has {
			if err := c.file(f); err != nil {
				return err
			}
		}
		_, from = f.chunks()
	}
}

// nextNamed returns the file of the first chunk of the older form from the key from
// on, nil if there is none.
func (c *checker) nextNamed(from []byte) (*keyedFile, error) {
	_, end := actorstore.NamespaceRange(actorstore.NamespaceSQLite)
	for e, err := range c.survey(from, end) {
		if err != nil {
			return nil, err
		}
		if f, ok := namedOfChunk(e.Key); ok {
			return f, nil
		}
	}
	return nil, nil
}
