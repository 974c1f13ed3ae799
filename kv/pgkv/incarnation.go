package pgkv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
)

// A commit that is only applied is in the memory of the server that took it. The table
// incarnation tells whether the server may have lost it: one row with a random number. It
// is unlogged, so it is empty after every crash, of the machine or of one process (after
// which PostgreSQL ends all others and recovers), and on a standby that takes over. A
// server that was shut down cleanly keeps the row, and all else. A host that finds no row
// makes one.
// https://www.postgresql.org/docs/15/sql-createtable.html#SQL-CREATETABLE-UNLOGGED
//
// No connection outlives what empties the table, so it is looked at once for each of them,
// when it is opened.

// incarnations number the lives of servers that a DB has met.
type incarnations struct {
	mu  sync.Mutex
	id  [16]byte      // of the one that was met last  +checklocks:mu
	now atomic.Uint64 // kv.Incarnation
}

// meet returns the number of the life whose row has the id.
func (in *incarnations) meet(id [16]byte) kv.Incarnation {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.id != id {
		in.id = id
		in.now.Add(1)
	}
	return kv.Incarnation(in.now.Load())
}

// Incarnation counts the servers that this DB has met: each crash and each failover
// begins another one, and so does the first connection. A DB learns of it with its next
// connection; one is kept open only to notice when that is lost. See kv.Engine.
func (db *DB) Incarnation() kv.Incarnation { return kv.Incarnation(db.incarnations.now.Load()) }

// identify finds out in which incarnation of its server a connection is.
func (db *DB) identify(ctx context.Context, c *conn) error {
	if db.opts.ReadOnly {
		return nil // on a standby such a table can't be read
	}
	id, err := c.incarnation(ctx)
	if err == nil && id == nil {
		// It waits for no disk and no standby: an unlogged row is in no log.
		if err = c.exec(ctx, db.sql.begun); err == nil {
			id, err = c.incarnation(ctx)
		}
	}
	switch {
	case code(err) == codeUnsupported:
		return &lostError{errors.New("the server is a standby")}
	case err != nil:
		return err
	case id == nil:
		return fmt.Errorf("%w: the server keeps no row of its incarnation", kv.ErrCorrupt)
	}
	c.in = db.incarnations.meet(*id)
	return nil
}

// incarnation returns the id of the server's incarnation, nil if it has none yet.
func (c *conn) incarnation(ctx context.Context) (id *[16]byte, err error) {
	err = c.query(ctx, c.sql.incarnation, nil, func(col [][]byte) {
		if len(col) == 1 && len(col[0]) == 16 {
			id = (*[16]byte)(append([]byte(nil), col[0]...))
		}
	})
	return id, err
}

// errLost says that commits that were applied may be gone.
func errLost() error {
	return fmt.Errorf("%w: the server has crashed or was replaced since", kv.ErrUnknownOutcome)
}

// Sync returns when everything applied before it is on stable storage: of the
// server, and of as many standbys as its settings ask for. See kv.Engine.
func (db *DB) Sync(ctx context.Context, in kv.Incarnation) error {
	if err := db.begin(ctx); err != nil {
		return err
	}
	defer db.life.leave()
	if db.opts.ReadOnly {
		return nil
	}
	return wrap("sync", db.call(ctx, db.writes, func(ctx context.Context, c *conn) error {
		if c.in != in {
			return errLost()
		}
		// A transaction that has written waits for its commit record to be on stable
		// storage, and what was committed before it is there before.
		err := c.exec(ctx, db.sql.sync)
		if err == nil && c.warned {
			// It was told not to wait for the standbys.
			c.bad = true
			return orUnknown(nil)
		}
		return err
	}))
}

// meetServer begins the first incarnation, and the watch over it.
func (db *DB) meetServer(ctx context.Context) error {
	c, err := db.openConn(ctx, func(r *retry, err error) error {
		if !worth(ctx, err) {
			return err
		}
		return r.again(ctx, err)
	})
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.Background())
	db.unwatch = stop
	go db.watchServer(watching, c)
	return nil
}

// watchServer keeps a connection open and does nothing with it, until ctx ends: when it is
// lost the next one tells whether the server is in another incarnation. So that is
// noticed, as soon as a server answers again, also while everything is answered from
// memory.
func (db *DB) watchServer(ctx context.Context, c *conn) {
	for err := error(nil); err == nil; {
		// Nothing is ever notified: it returns when the connection is lost, or ctx ends.
		_ = c.pg.WaitForNotification(ctx)
		c.kill()
		c, err = db.openConn(ctx, func(r *retry, err error) error { return r.pause(ctx, err) })
	}
}

// openConn opens a connection that is in no pool, and again while again returns nil.
func (db *DB) openConn(ctx context.Context, again func(*retry, error) error) (*conn, error) {
	r := db.retry()
	for {
		limited, cancel := context.WithTimeout(ctx, db.opts.Timeout)
		c, err := db.writes.connect(limited)
		cancel()
		if err == nil {
			return c, nil
		}
		if err := again(r, err); err != nil {
			return nil, err
		}
	}
}
