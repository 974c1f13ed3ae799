package vfs

import (
	"bytes"
	"context"
	"io"

	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A journalFile is the journal as SQLite has it open. All handles share the
// journal's state; closing one changes nothing.
type journalFile struct {
	noLocks
	db       *database
	ctx      context.Context
	readOnly bool // it is only looked at, by a connection that is not the writer
}

// sqliteError is the database's, for the writer unless the file is only looked at.
func (f *journalFile) sqliteError(err error, ioerr sqlite3.ExtendedErrorCode) error {
	if err != nil && !f.readOnly {
		f.db.disarm(err)
	}
	return f.db.ownerError(err, ioerr)
}

var _ sqlitevfs.File = (*journalFile)(nil)

func (f *journalFile) Close() error { return nil }

func (f *journalFile) ReadAt(b []byte, off int64) (int, error) {
	j := &f.db.journal
	j.mu.Lock()
	n, err := j.file.ReadAt(f.ctx, b, off)
	j.mu.Unlock()
	if n > 0 && !f.readOnly {
		f.db.lookedBack(off)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, f.sqliteError(err, sqlite3.IOERR_READ)
}

func (f *journalFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.db.healthy(); err != nil {
		return 0, f.sqliteError(err, sqlite3.IOERR_WRITE)
	}
	f.db.wentOn(off)
	j := &f.db.journal
	if off == 0 && bytes.HasPrefix(b, format.JournalOver) && j.active() {
		// That is how journal_mode=PERSIST says that it is over; encrypted, it is seen
		// when COMMIT_PHASETWO follows.
		if err := f.db.finishJournal(f.ctx, false); err != nil {
			return 0, f.sqliteError(err, sqlite3.IOERR_WRITE)
		}
		return len(b), nil
	}
	n, err := f.write(b, off)
	if err == nil {
		err = f.db.spill(f.ctx)
	}
	return n, f.sqliteError(err, sqlite3.IOERR_WRITE)
}

func (f *journalFile) write(b []byte, off int64) (int, error) {
	j := &f.db.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	n, err := j.file.WriteAt(f.ctx, b, off)
	if err == nil && off == 0 && n > 0 {
		j.live = !bytes.HasPrefix(b, format.JournalOver)
	}
	return n, err
}

func (f *journalFile) Truncate(size int64) error {
	j := &f.db.journal
	if size == 0 && j.active() {
		return f.sqliteError(f.db.finishJournal(f.ctx, false), sqlite3.IOERR_TRUNCATE)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if size >= j.file.Size() {
		return nil
	}
	return f.sqliteError(j.file.Resize(f.ctx, size), sqlite3.IOERR_TRUNCATE)
}

// Sync stores nothing: the journal is stored before any change of the main file
// is, and until then there is nothing that it would have to undo.
func (f *journalFile) Sync(sqlitevfs.SyncFlag) error {
	if !f.readOnly {
		f.db.synced()
	}
	return nil
}

func (f *journalFile) Size() (int64, error) {
	j := &f.db.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Size(), nil
}
