package vfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// busyTimeout is how long an export waits where the database is closed to readers, as it
// is when a connection leaves WAL mode: as long as go-sqlite3's connections do.
const busyTimeout = time.Minute

// exportStep is how many bytes of the file are read and written at once.
const exportStep = 256 << 10

// Export writes the database to w as an SQLite file, and returns its size in bytes:
// the state that is committed when Export begins, whatever is written meanwhile, by
// this program's connections or in w's own time. No connection waits for it. It takes the
// memory of a few pages; holes, such as the page at 1 GiB that SQLite leaves out, are
// zeros. A database in which nothing was ever created is an empty file, which is one
// to SQLite too.
//
// The pages are as they are stored: if an encrypting VFS sits above, encrypted. In WAL
// mode, where the newest pages are in the log, SQLite first makes a copy in
// Options.TempDir, which takes the size of the database there; if it is encrypted, too,
// Export refuses (ErrUnsupported).
//
// Errors are those of w, the context's, and those of reading: ErrSnapshotTooOld when
// it takes longer, or others commit more often, than Options.MaxSnapshotAge and
// MaxSnapshots allow. w has then got the
// beginning of a file.
func (db *DB) Export(ctx context.Context, w io.Writer) (size int64, err error) {
	d, err := db.vfs.find(mountName)
	if err != nil {
		return 0, err
	}
	w = contextWriter{ctx, w}
	h := d.openHandle(ctx, true)
	patience := time.Now().Add(busyTimeout)
	h.busy = func() bool { return ctx.Err() == nil && time.Now().Before(patience) }
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := h.Lock(sqlitevfs.LOCK_SHARED); err != nil {
		return 0, fmt.Errorf("vfs: export: %w", errors.Join(err, ctx.Err()))
	}
	switch {
	case h.view.header.Logged():
		size, err = db.exportLogged(ctx, w)
	case h.view.size > 0 && !bytes.HasPrefix(h.view.header[:], format.Magic) && d.wal.there():
		// What is encrypted doesn't say that it is in WAL mode; SQLite has opened the
		// log all the same, and the copy that it makes would be in the clear.
		err = fmt.Errorf("%w: the log of an encrypted database; leave WAL mode first", ErrUnsupported)
	default:
		size, err = rollbackMode{h}.writeTo(w)
	}
	if err != nil {
		return size, fmt.Errorf("vfs: export: %w", err)
	}
	return size, nil
}

// writeTo writes the file as h's view shows it.
func (h rollbackMode) writeTo(w io.Writer) (n int64, err error) {
	buf := make([]byte, min(exportStep, h.view.size))
	for n < h.view.size {
		b := buf[:min(int64(len(buf)), h.view.size-n)]
		if _, err := h.readView(h.view, b, n); err != nil {
			return n, err
		}
		h.overlayCounter(b, n, &h.view.header, h.view) // as SQLite reads it
		wrote, err := w.Write(b)
		n += int64(wrote)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// exportLogged writes a copy of the database that SQLite makes.
func (db *DB) exportLogged(ctx context.Context, w io.Writer) (n int64, err error) {
	dir, err := os.MkdirTemp(db.vfs.opts.TempDir, "greenroom-export-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "copy.db")
	if err := db.copyTo(ctx, path); err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.Copy(w, f)
}

// copyTo makes the file at path a copy of the database.
//
// https://sqlite.org/backup.html
func (db *DB) copyTo(ctx context.Context, path string) (err error) {
	var src *sqlite3.Conn
	defer closeRaw(&src, &err)
	if src, err = sqlite3.OpenFlags(db.dsn, sqlite3.OPEN_READONLY|sqlite3.OPEN_URI); err != nil {
		return err
	}
	src.SetInterrupt(ctx)
	if err := src.BusyTimeout(busyTimeout); err != nil {
		return err
	}
	// One transaction, or SQLite begins anew whenever another connection commits.
	if err := src.Exec("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1"); err != nil {
		return err
	}
	// If it fails it is thrown away, so it needs no journal.
	to := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"vfs": {"os"}, "_pragma": {"journal_mode(off)", "synchronous(off)"},
	}.Encode()}
	b, err := src.BackupInit("main", to.String())
	if err != nil {
		return err
	}
	for done := false; !done && err == nil; {
		if err = ctx.Err(); err == nil {
			done, err = b.Step(exportStep / chunked.Size)
		}
	}
	if closed := b.Close(); err == nil {
		err = closed
	}
	return err
}

// A contextWriter ends with its context.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c contextWriter) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(b)
}
