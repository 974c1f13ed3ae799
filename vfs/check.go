package vfs

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/filecheck"
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
// a database in WAL mode, which isn't a finding. A log beside an empty main file is
// harmless.
//
// If r is an *actorstore.View, no journal is hot and the files have no fault,
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
		c := filecheck.New(ctx, r, yield)
		err := c.Files()
		if view, ok := r.(*actorstore.View); ok && err == nil && c.Sound() && c.Plain() && !opts.FilesOnly {
			err = (&sqliteCheck{c, ctx}).integrity(view)
		}
		if err != nil && !errors.Is(err, filecheck.ErrStopped) {
			yield(actorstore.Finding{}, fmt.Errorf("vfs: check: %w", err))
		}
	}
}
