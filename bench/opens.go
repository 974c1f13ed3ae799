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

// openRows is how many rows the databases of sqlite/open have.
const openRows = 100

// openLines is sqlite/open: a database that is nowhere open is opened, its first row read,
// and all closed again, one database after the other. The subject takes the actor and
// mounts its database for that; its engine, as the file system of the peer, stays.
func openLines(engine string) []line {
	return []line{{
		"sqlite/open", "open/s",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) { return openActorDoors(ctx, at) }},
		side{fileWALFull, func(ctx context.Context, at site) (runner, error) { return openFileDoors(at) }},
	}}
}

// A visitor does sqlite/open: enter opens the i-th database, and leave closes what is below
// the connection.
type visitor struct {
	databases int
	next      int
	enter     func(ctx context.Context, i int) (c *sqlite3.Conn, leave func() error, err error)
	called    func() faultkv.Counts
	end       func() error
}

var _ runner = (*visitor)(nil)

func (v *visitor) run(ctx context.Context, n int) error {
	for range n {
		if err := v.visit(ctx, v.next, firstRow); err != nil {
			return err
		}
		v.next = (v.next + 1) % v.databases
	}
	return nil
}

// visit opens a database, does something there, and closes it.
func (v *visitor) visit(ctx context.Context, i int, do func(*sqlite3.Conn) error) error {
	c, leave, err := v.enter(ctx, i)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(), leave())
}

// fill makes all databases, and closes the visitor if that fails.
func (v *visitor) fill(ctx context.Context) (runner, error) {
	for i := range v.databases {
		if err := v.visit(ctx, i, func(c *sqlite3.Conn) error { return load(c, openRows) }); err != nil {
			return nil, errors.Join(err, v.close())
		}
	}
	return v, nil
}

func (v *visitor) counts() faultkv.Counts { return v.called() }

func (v *visitor) close() error { return v.end() }

func firstRow(c *sqlite3.Conn) error { return readRow(c, 1) }

// readRow reads the row of that id.
func readRow(c *sqlite3.Conn, id int) (err error) {
	stmt, err := prepare(c, fmt.Sprintf(`SELECT a FROM t WHERE id = %d`, id))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	if !stmt.Step() || stmt.ColumnInt64(0) == 0 {
		return errors.Join(fmt.Errorf("row %d was not read", id), stmt.Err())
	}
	return nil
}

func openFileDoors(at site) (runner, error) {
	v := &visitor{databases: at.sizes.opens, enter: func(_ context.Context, i int) (*sqlite3.Conn, func() error, error) {
		// The mode is in the file: only the first visit changes it.
		c, err := connect(filepath.Join(at.dir, fmt.Sprintf("%d.db", i)), "journal_mode=WAL")
		return c, func() error { return nil }, err
	}, called: func() faultkv.Counts { return faultkv.Counts{} }, end: func() error { return nil }}
	return v.fill(context.Background())
}

func openActorDoors(ctx context.Context, at site) (runner, error) {
	v, err := openDoors(ctx, at)
	if err != nil {
		return nil, err
	}
	v.databases = at.sizes.opens
	return v.fill(ctx)
}

// openDoors opens a new store whose actors are visited.
func openDoors(ctx context.Context, at site) (*visitor, error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	counting := faultkv.New(engine)
	store, err := openStore(ctx, counting)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return actorDoors(store, counting), nil
}

// actorDoors visits the actors of a store, which it closes with its engine.
func actorDoors(store *actorstore.Store, engine *faultkv.Engine) *visitor {
	return &visitor{enter: func(ctx context.Context, i int) (*sqlite3.Conn, func() error, error) {
		actor, err := store.Named(ctx, fmt.Sprint("bench ", i), nil)
		if err != nil {
			return nil, nil, err
		}
		db, err := mount(ctx, actor)
		if err != nil {
			return nil, nil, errors.Join(err, actor.Close())
		}
		leave := func() error { return errors.Join(db.close(), actor.Close()) }
		c, err := db.connect()
		if err != nil {
			return nil, nil, errors.Join(err, leave())
		}
		return c, leave, nil
	}, called: engine.Counts, end: func() error { return errors.Join(store.Close(), engine.Close()) }}
}
