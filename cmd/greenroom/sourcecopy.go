package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// needsCopy returns the ending of the companion of a database file with which it
// is to be copied, and "" if that would not help against err.
//
// SQLite rolls a transaction back that was cut off, but may not write here. And it
// can read a write-ahead log only where it may write the log's index, unless a
// program that uses the log does that.
//
// https://sqlite.org/tempfiles.html#shared_memory_files
func needsCopy(path string, err error) (companion string) {
	if errors.Is(err, sqlite3.READONLY_ROLLBACK) {
		return "-journal"
	}
	if !errors.Is(err, sqlite3.CANTOPEN) {
		return ""
	}
	head, _, herr := readHead(path)
	_, ierr := readIndex(path)
	if herr == nil && isWAL(head) && ierr == nil {
		return "-wal"
	}
	return ""
}

// openCopy copies the database file with its companion to a temporary folder, and
// opens it there after SQLite has rolled back or taken in what the companion holds.
func (s *source) openCopy(ctx context.Context, path, companion string, hint io.Writer) error {
	defer showHint(hint, "copying "+visibleText(filepath.Base(s.name))+" …")()
	dir, err := s.tempDir()
	if err != nil {
		return err
	}
	copied := filepath.Join(dir, "copy.db")
	if err := copyLocked(ctx, path, companion, copied); err != nil {
		return err
	}
	if companion == "-journal" {
		if err := refuseSuperJournal(s.name, copied+companion); err != nil {
			return err
		}
		return s.begin(ctx, copied, sqlite3.OPEN_READWRITE)
	}
	if err := leaveWAL(copied); err != nil {
		return err
	}
	return s.begin(ctx, copied, sqlite3.OPEN_READONLY)
}

// copyLocked copies a database file and its companion, if that is there, under a
// lock that keeps others from writing to the file or rolling back its journal.
//
// https://sqlite.org/lockingv3.html
func copyLocked(ctx context.Context, path, companion, to string) (err error) {
	c, err := openFile(path, sqlite3.OPEN_READONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }() // which unlocks
	pointer, err := c.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return err
	}
	file, ok := pointer.(sqlitevfs.File)
	if !ok {
		return fmt.Errorf("%s can't be locked", path)
	}
	if err := file.Lock(sqlitevfs.LOCK_SHARED); err != nil {
		return err
	}
	size, err := file.Size()
	before, ierr := readIndex(path)
	if err = errors.Join(err, ierr); err != nil {
		return err
	}
	if err = writeFile(ctx, to, io.NewSectionReader(file, 0, size)); err == nil {
		err = copyFile(ctx, path+companion, to+companion)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The lock doesn't keep others from the log. But a connection that writes to the
	// log, or begins to use it, changes its index.
	after, err := readIndex(path)
	if err == nil && (before == nil) != (after == nil) || !bytes.Equal(before, after) {
		err = sqlite3.BUSY
	}
	return err
}

// readIndex returns the index of the log beside a database file, nil if it is absent.
func readIndex(path string) ([]byte, error) {
	index, err := os.ReadFile(path + "-shm")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return index, err
}

func copyFile(ctx context.Context, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	return errors.Join(writeFile(ctx, to, f), f.Close())
}

// writeFile makes a file of what r has.
func writeFile(ctx context.Context, path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, &patientReader{ctx, r})
	return errors.Join(err, f.Close())
}

// A patientReader reads until its context is done.
type patientReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *patientReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// refuseSuperJournal refuses a journal whose transaction was one over several
// files that may still be undone. Rolling it back ends with a look whether the
// other files are done, and then the super-journal is removed: that is not to be
// decided from a copy.
//
// https://sqlite.org/fileformat2.html#the_rollback_journal
// https://sqlite.org/atomiccommit.html#section_5
func refuseSuperJournal(name, journal string) error {
	super, err := superJournal(journal)
	if err != nil || super == "" {
		return err
	}
	if _, err := os.Lstat(super); errors.Is(err, fs.ErrNotExist) {
		return nil // the transaction was committed, so SQLite ignores the journal
	}
	return say(sqlite3.READONLY_ROLLBACK, "%s has an unfinished transaction over several files beside it (see %s): "+
		"open it once with write access, so that it is rolled back", name, super)
}

// superJournal returns the name of the super-journal that ends a journal, "" without
// one: the name, its length, its checksum, and the magic of a journal.
func superJournal(journal string) (name string, err error) {
	const (
		magic   = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
		maxName = 4096
		tail    = 16 // what is behind the name
	)
	f, err := os.Open(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	b := make([]byte, min(info.Size(), maxName+tail))
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil || len(b) < tail {
		return "", err
	}
	b, end := b[:len(b)-tail], b[len(b)-tail:]
	length := int(binary.BigEndian.Uint32(end))
	if string(end[8:]) != magic || length > len(b) {
		return "", nil
	}
	return string(b[len(b)-length:]), nil
}
