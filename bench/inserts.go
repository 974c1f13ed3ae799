package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

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

// sessions is the peer of sqlite/insert-200 that has as many databases elsewhere.
type sessions struct {
	of []*session
	// yield is for where nobody waits for a disk: else one would make many transactions on
	// end, with what it needs in the caches of the processor, as none of 200 has it.
	yield bool
}

var _ runner = (*sessions)(nil)

// openSessions has a database in each of the places that where makes.
func openSessions(ctx context.Context, at site, where func(i int) place) (_ *sessions, err error) {
	all := new(sessions)
	defer func() {
		if err != nil {
			err = errors.Join(err, all.close())
		}
	}()
	w := workload{start: startInserts}
	for i := range at.sizes.actors {
		s, err := w.open(ctx, where(i), at.sizes)
		if err != nil {
			return nil, err
		}
		all.of = append(all.of, s)
	}
	return all, nil
}

func openFiles(ctx context.Context, at site) (runner, error) {
	all, err := openSessions(ctx, at, func(i int) place {
		return &filePlace{filepath.Join(at.dir, fmt.Sprintf("%d.db", i)), "WAL"}
	})
	if err != nil {
		return nil, err // and not a runner that is a nil pointer
	}
	return all, nil
}

func openMemories(ctx context.Context, at site) (runner, error) {
	all, err := openSessions(ctx, at, func(i int) place {
		own := at
		own.dir = filepath.Join(at.dir, fmt.Sprint(i))
		return openMemory(own)
	})
	if err != nil {
		return nil, err
	}
	all.yield = true
	return all, nil
}

func (all *sessions) run(_ context.Context, n int) error {
	return together(len(all.of), n, func(i int, more func() bool) error {
		return repeat(more, func() error {
			if all.yield {
				defer runtime.Gosched()
			}
			return all.of[i].op.run(1)
		})
	})
}

func (all *sessions) counts() faultkv.Counts { return faultkv.Counts{} }

func (all *sessions) close() error {
	var errs []error
	for _, s := range all.of {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
