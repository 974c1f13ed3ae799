package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// insertsJob is sqlite/insert-200: sqlite/insert-1 by many actors at once, each in a
// database of its own.
func insertsJob() job {
	return job{"sqlite/insert-200", "txn/s", 1, 8, func(ctx context.Context, a *actorstore.Actor, _ int) (shift, error) {
		db, err := mount(ctx, a)
		if err != nil {
			return nil, err
		}
		conn, err := db.connect("synchronous=FULL")
		if err != nil {
			return nil, errors.Join(err, db.close())
		}
		op, err := startInserts(conn, sizes{})
		if err != nil {
			return nil, errors.Join(err, conn.Close(), db.close())
		}
		return &inserts{db, conn, op}, nil
	}}
}

// startInserts has made the first transaction, which finds nothing in SQLite's cache: with
// many databases it would not be over with the warm-up.
func startInserts(c *sqlite3.Conn, s sizes) (operation, error) {
	op, err := startInsert(c, s)
	if err != nil {
		return nil, err
	}
	if err := op.run(1); err != nil {
		return nil, errors.Join(err, op.close())
	}
	return op, nil
}

// inserts is an actor with a database.
type inserts struct {
	db   *mounted
	conn *sqlite3.Conn
	op   operation
}

func (s *inserts) work(_ context.Context, more func() bool) error {
	return repeat(more, func() error { return s.op.run(1) })
}

func (s *inserts) close() error { return errors.Join(s.op.close(), s.conn.Close(), s.db.close()) }

// files is the peer of sqlite/insert-200 that has as many files.
type files []*session

var _ runner = files(nil)

func openFiles(ctx context.Context, at site) (_ runner, err error) {
	var f files
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	w := workload{start: startInserts}
	for i := range at.sizes.actors {
		s, err := w.open(ctx, &filePlace{filepath.Join(at.dir, fmt.Sprintf("%d.db", i)), "WAL"}, at.sizes)
		if err != nil {
			return nil, err
		}
		f = append(f, s)
	}
	return f, nil
}

func (f files) run(_ context.Context, n int) error {
	return together(len(f), n, func(i int, more func() bool) error {
		return repeat(more, func() error { return f[i].op.run(1) })
	})
}

func (f files) counts() faultkv.Counts { return faultkv.Counts{} }

func (f files) close() error {
	var errs []error
	for _, s := range f {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
