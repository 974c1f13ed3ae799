package vfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// A journal that a crash left is rolled back before the first connection of the pool, so that no
// connection finds the database busy because another one is doing it. SQLite itself rolls it back:
// the format of its journal, and what of one may be believed, are its own business. Any connection
// does so before its first read, so we open one for that, on a VFS that is registered only
// meanwhile.

// recover rolls back the journal that was found when db was loaded, if SQLite can
// read it. No connection has db open yet. After an error the journal is still there.
func (db *database) recover(ctx context.Context) error {
	if db.actor == nil || !db.leftover() {
		return nil
	}
	legible, err := db.journal.legible(ctx)
	if err != nil || !legible {
		return err
	}
	v := &VFS{opts: *db.opts, temp: &tempRoom{most: db.opts.TempBytes}, databases: map[string]*database{mountName: db}}
	v.opts.Wrap = nil // what one of SQLite's own journals undoes is as it is stored
	name := fmt.Sprintf("greenroom-recovery-%d", pools.Add(1))
	if err := v.Register(name); err != nil {
		return err
	}
	err = readOnce(ctx, "file:/"+mountName+"?vfs="+name)
	if err := v.Unregister(); err != nil {
		return err
	}
	if !db.leftover() {
		return nil // what else the connection met, others will meet, too
	}
	if cause := db.cause.Load(); cause != nil && !errors.Is(err, *cause) {
		err = errors.Join(err, *cause) // SQLite doesn't keep every one
	}
	return err
}

// errWrongKey is why SQLite may not open a journal or a log that it can't read.
var errWrongKey = errors.New("vfs: a journal or a log is left that can't be read: it is encrypted, and the connection has no key or another one")

// guardJournal returns an error if a journal must be rolled back that the connection
// which opens it can't read. To SQLite, which finds no header, it would be over, and it
// would remove it, and with it the only way back.
func (v *VFS) guardJournal(name *sqlitevfs.Filename) error {
	db := v.lookup(strings.TrimSuffix(name.String(), "-journal"))
	if db == nil || !db.leftover() {
		return nil
	}
	legible, err := db.journal.legible(context.Background())
	if err == nil && !legible {
		err = readable(name.DatabaseFile())
	}
	return db.ownerError(err, sqlite3.ExtendedErrorCode(sqlite3.CANTOPEN))
}

// guard returns an error if there is a log that the connection which opens it can't
// read: SQLite would find nothing in it, and remove it in the end.
func (h logMode) guard(name *sqlitevfs.Filename) error {
	if h.readOnly || !h.db.wal.there() {
		return nil
	}
	return h.sqliteError(readable(name.DatabaseFile()), sqlite3.ExtendedErrorCode(sqlite3.CANTOPEN))
}

// readable returns an error unless main, as the VFS on top has it, is a database, so
// that what lies beside it can be read in the same way.
func readable(main sqlitevfs.File) error {
	start := make([]byte, format.HeaderSize)
	n, err := main.ReadAt(start, 0)
	switch {
	case bytes.HasPrefix(start[:n], format.Magic):
		return nil
	case err == nil || err == io.EOF:
		return errWrongKey
	}
	return err
}

// readOnce opens a connection, reads something with it, and closes it.
func readOnce(ctx context.Context, dsn string) (err error) {
	var c *sqlite3.Conn
	defer closeRaw(&c, &err)
	if c, err = sqlite3.OpenContext(ctx, dsn); err != nil {
		return err
	}
	c.SetInterrupt(ctx)
	return c.Exec("PRAGMA user_version")
}
