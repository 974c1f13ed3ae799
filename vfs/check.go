package vfs

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
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
// chunk of more than 4096 bytes; chunks of a main file without a size record, which is
// lost then; a chunk that is missing below the size, which would read as zeros; a WAL
// index, which nothing here stores, and a WAL under keys of the older form, which
// nothing here reads; and what SQLite finds.
// SQLite itself leaves chunks out, and they are not missed: the lock-byte page at
// 1 GiB, and pages that came to the free list before they were ever written. Of a
// file that SQLite's format can't be seen in, because it is encrypted, nothing is
// known about which those are: only its first chunk is missed.
//
// Harmless is what a crash leaves and the next owner removes when it opens the
// database: chunks beyond the size, and a journal that is over, which is to say of
// which the first byte is 0 (the whole header, if the main file is encrypted), or whose
// main file is empty. A journal of no bytes is what
// journal_mode TRUNCATE and PERSIST keep, and no finding.
//
// Unfinished is a journal that is not over: the next owner rolls it back. Until then
// the main file is neither complete nor checked for holes. Nor is it beside the log of
// a database in WAL mode, which is no finding. A log beside an empty main file is
// harmless.
//
// If r is an *actorstore.View, no journal is hot and there is no fault in the files,
// SQLite looks at the database too, with PRAGMA integrity_check: each line that it
// prints is a fault. Page 1 must begin as SQLite's format does; what is encrypted is
// left out. A finding of SQLite says "sqlite" for the place. A table that SQLite can't look
// at without a function, a collation or a module that the program registers (see
// Options.Extensions) is unchecked, and no fault; the other tables are looked at.
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
		if view, ok := r.(*actorstore.View); ok && err == nil && c.sound && c.plain && !opts.FilesOnly {
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

	plain  bool // the database is of SQLite's format, not encrypted
	logged bool // it has a log from which SQLite reads

	key   []byte // scratch
	chunk chunked.Buf
	holes holes
}

// A severity says what a finding is.
type severity int

const (
	fault severity = iota
	harmless
	unfinished
	unchecked
)

// find yields a finding about what lies under key.
func (c *checker) find(s severity, key []byte, format string, args ...any) error {
	return c.findAt(s, actorstore.Describe(key), fmt.Sprintf(format, args...))
}

func (c *checker) findAt(s severity, where, what string) error {
	if s == fault || s == unfinished {
		c.sound = false
	}
	f := actorstore.Finding{
		Actor: c.r.ID(), Where: where, What: what,
		Harmless: s != fault, Unfinished: s == unfinished, Unchecked: s == unchecked,
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
	main, journal, err := c.database()
	log := tagged(c.r.Layout(), actorstore.FileWAL)
	if err == nil {
		err = c.load(log)
	}
	if err != nil {
		return err
	}
	c.logged = log.size > 0 && main.size > 0
	for _, pair := range [...][2]*keyedFile{{main, journal}, {journal, main}, {log, main}} {
		if err := c.file(pair[0], pair[1]); err != nil {
			return err
		}
	}
	if err := c.unread(tagged(c.r.Layout(), actorstore.FileSHM)); err != nil {
		return err
	}
	return c.oldFiles(main, journal)
}

// database returns the two files that opening the database would read. They are under
// today's keys, unless only the older form has a main file. What is rewritten is so
// chunk by chunk, and its size record last.
func (c *checker) database() (main, journal *keyedFile, err error) {
	main, journal = tagged(c.r.Layout(), actorstore.FileMain), tagged(c.r.Layout(), actorstore.FileJournal)
	if err := errors.Join(c.load(main), c.load(journal)); err != nil {
		return nil, nil, err
	}
	main.live, journal.live = true, true
	if main.has {
		return main, journal, nil
	}
	old, err := c.onlyOld()
	if old == nil || err != nil {
		return main, journal, err
	}
	oldJournal := old.sibling(actorstore.FileJournal)
	if err := errors.Join(c.load(old), c.load(oldJournal)); err != nil {
		return nil, nil, err
	}
	old.moved, old.live = main, true
	if oldJournal.has && !journal.has {
		oldJournal.moved, oldJournal.live = journal, true
		journal = oldJournal
	}
	return old, journal, nil
}

// onlyOld returns the main file of the older form, if there is exactly one: with two
// nobody knows which is the database, and none is opened.
func (c *checker) onlyOld() (*keyedFile, error) {
	var only *keyedFile
	start, end := c.r.Layout().NamedFileMetas()
	for e, err := range c.survey(start, end) {
		if err != nil {
			return nil, err
		}
		if f, ok := oldFileOf(c.r.Layout(), e.Key); ok && f.tag == actorstore.FileMain {
			if only != nil {
				return nil, nil
			}
			only = f
		}
	}
	return only, nil
}

// oldFiles checks the files of the older form but for those of the database: those with
// a size record, and those that have only chunks.
func (c *checker) oldFiles(main, journal *keyedFile) error {
	start, end := c.r.Layout().NamedFileMetas()
	for e, err := range c.survey(start, end) {
		if err != nil {
			return err
		}
		f, ok := oldFileOf(c.r.Layout(), e.Key)
		if !ok || main.old && f.name == main.name || journal.old && f.name == journal.name {
			continue
		}
		if main.old && f.tag == actorstore.FileJournal && f.sibling(actorstore.FileMain).name == main.name {
			err = c.find(harmless, e.Key, "another journal has taken its place; the next owner removes it")
		} else {
			err = c.beside(f)
		}
		if err != nil {
			return err
		}
	}
	_, from := c.r.Layout().FileChunks(actorstore.FileSHM, 0)
	for {
		f, err := c.nextOld(from)
		if f == nil || err != nil {
			return err
		}
		if err := c.load(f); err != nil {
			return err
		}
		if !f.has {
			if err := c.beside(f); err != nil {
				return err
			}
		}
		_, from = f.chunks(0)
	}
}

// nextOld returns the file of the first chunk of the older form from the key from on,
// nil if there is none.
func (c *checker) nextOld(from []byte) (*keyedFile, error) {
	_, end := c.r.Layout().Range(actorstore.NamespaceSQLite)
	for e, err := range c.survey(from, end) {
		if err != nil {
			return nil, err
		}
		if name, _, ok := c.r.Layout().ParseNamedFileChunk(e.Key); ok {
			return oldFile(c.r.Layout(), name), nil
		}
	}
	return nil, nil
}

// beside checks a file of the older form that is none of the database's.
func (c *checker) beside(f *keyedFile) error {
	other := f.sibling(actorstore.FileMain)
	if f.tag == actorstore.FileMain {
		other = f.sibling(actorstore.FileJournal)
	}
	if err := errors.Join(c.load(f), c.load(other)); err != nil {
		return err
	}
	if f.tag > actorstore.FileJournal {
		return c.unread(f)
	}
	return c.file(f, other)
}
