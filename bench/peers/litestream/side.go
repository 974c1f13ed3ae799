package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/file"
	_ "modernc.org/sqlite" // the driver of files

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A side is actors with a database each, and their backup.
type side interface {
	// open opens so many actors in a directory, and makes them if the directory is empty. Each has a table, with a row.
	open(ctx context.Context, dir string, actors int) error
	// start starts a new backup, in the same directory.
	start(ctx context.Context) error
	// begun reports whether all actors are in the backup.
	begun() (bool, error)
	// insert inserts a row, durably, into the database of an actor, and returns what reports whether it is in the backup.
	insert(ctx context.Context, actor int) (there func() (bool, error), err error)
	close() error
}

// sideOf returns the side of that name, nil if that is unknown.
func sideOf(name string) side {
	switch name {
	case "greenroom":
		return &store{}
	case "litestream":
		return &files{}
	}
	return nil
}

const (
	createTable = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b BLOB)"
	insertRow   = "INSERT INTO t(a, b) VALUES(random(), randomblob(100))"
	// atOnce is how many actors are made at the same time.
	atOnce = 200
)

// A store is the actors of one store of Greenroom.
type store struct {
	dir    string
	db     *pebblekv.DB
	store  *greenroom.Store
	writer *archive.Writer
}

func (s *store) open(ctx context.Context, dir string, actors int) (err error) {
	s.dir = dir
	_, missing := os.Stat(filepath.Join(dir, "store"))
	if s.db, err = pebblekv.Open(filepath.Join(dir, "store"), nil); err != nil {
		return err
	}
	if s.store, err = greenroom.New(ctx, s.db, nil); err != nil {
		return err
	}
	if !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	return each(actors, func(i int) error { return s.exec(ctx, i, createTable, insertRow) })
}

func (s *store) start(context.Context) error {
	to, err := bucket.Folder(filepath.Join(s.dir, "backup"))
	if err == nil {
		s.writer, err = archive.Start(s.db, to, nil)
	}
	return err
}

func (s *store) begun() (bool, error) {
	st := s.writer.Status()
	return st.Line > 0 && st.Stored == st.Last, errors.Join(st.Err, st.Fatal)
}

func (s *store) insert(ctx context.Context, actor int) (func() (bool, error), error) {
	err := s.exec(ctx, actor, insertRow)
	number := s.db.Records().Last()
	return func() (bool, error) {
		st := s.writer.Status()
		return st.Stored >= number, errors.Join(st.Err, st.Fatal)
	}, err
}

// exec runs statements in a transaction of an actor.
func (s *store) exec(ctx context.Context, actor int, statements ...string) (err error) {
	a, err := s.store.Actor(ctx, fmt.Sprint("actor ", actor), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return a.Update(ctx, func(tx *greenroom.Tx) error {
		for _, text := range statements {
			if _, err := tx.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *store) close() (err error) {
	if s.writer != nil {
		err = errors.Join(s.writer.Close(), os.RemoveAll(filepath.Join(s.dir, "backup")))
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return err
}

// files are actors of which each is a SQLite file. Litestream leaves marks beside them, so each process makes its own.
type files struct {
	dir       string
	paths     []string
	databases []*litestream.DB
	all       *litestream.Store
}

func (f *files) open(ctx context.Context, dir string, actors int) error {
	f.dir, f.paths = filepath.Join(dir, "files"), make([]string, actors)
	return each(actors, func(i int) error {
		// A directory for each hundred, for those of a file system get slow.
		f.paths[i] = filepath.Join(f.dir, fmt.Sprintf("%03d", i/100), fmt.Sprintf("%02d.db", i%100))
		if err := os.MkdirAll(filepath.Dir(f.paths[i]), 0o755); err != nil {
			return err
		}
		return execute(ctx, f.paths[i], "OFF", createTable, insertRow)
	})
}

func (f *files) start(ctx context.Context) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	for _, path := range f.paths {
		db := litestream.NewDB(path)
		client := file.NewReplicaClient(path + ".backup")
		db.Replica = litestream.NewReplicaWithClient(db, client)
		client.Replica = db.Replica
		f.databases = append(f.databases, db)
	}
	f.all = litestream.NewStore(f.databases, litestream.DefaultCompactionLevels)
	return f.all.Open(ctx)
}

func (f *files) begun() (bool, error) {
	for _, db := range f.databases {
		if db.Replica.Pos().TXID == 0 {
			return false, nil
		}
	}
	return true, nil
}

func (f *files) insert(ctx context.Context, actor int) (func() (bool, error), error) {
	if f.databases == nil {
		return nil, execute(ctx, f.paths[actor], "FULL", insertRow)
	}
	r := f.databases[actor].Replica
	before := r.Pos().TXID
	err := execute(ctx, f.paths[actor], "FULL", insertRow)
	return func() (bool, error) { return r.Pos().TXID > before, nil }, err
}

// execute runs statements in a file, in WAL mode.
func execute(ctx context.Context, path, synchronous string, statements ...string) (err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous("+synchronous+")")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, text := range statements {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) close() (err error) {
	if f.all != nil {
		err = f.all.Close(context.Background())
	}
	return errors.Join(err, os.RemoveAll(f.dir))
}

// each calls fn for the numbers below n, several at once, and returns all errors.
func each(n int, fn func(i int) error) error {
	errs := make([]error, atOnce)
	var all sync.WaitGroup
	for first := range atOnce {
		all.Go(func() {
			for i := first; i < n && errs[first] == nil; i += atOnce {
				errs[first] = fn(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
