package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
)

// sqliteFile is a queue as one makes it with a SQLite file: a table, in WAL mode, with
// synchronous=FULL.
const sqliteFile = "sqlite-file"

// A fileQueue is the peer of queue/cycle with one actor: a message is inserted, taken and
// deleted, three durable transactions. It has no leases that run out, no retries and no
// waiting receivers: what everybody writes first.
type fileQueue struct {
	enqueue, receive, complete *sqlite3.Stmt
	body                       [cycleBody]byte
}

func openFileQueue(ctx context.Context, at site) (runner, error) {
	w := workload{start: startFileQueue}
	return w.open(ctx, &filePlace{filepath.Join(at.dir, "queue.db"), "WAL"}, at.sizes)
}

func startFileQueue(c *sqlite3.Conn, _ sizes) (operation, error) {
	err := c.Exec(`CREATE TABLE message(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, body BLOB NOT NULL, taken INTEGER)`)
	if err != nil {
		return nil, err
	}
	o := &fileQueue{}
	noise(newRand(0), o.body[:])
	err = prepareAll(c, map[string]**sqlite3.Stmt{
		`INSERT INTO message(name, body) VALUES('job', ?)`: &o.enqueue,
		`UPDATE message SET taken = unixepoch() WHERE id =
			(SELECT id FROM message WHERE taken IS NULL ORDER BY id LIMIT 1) RETURNING id, body`: &o.receive,
		`DELETE FROM message WHERE id = ?`: &o.complete,
	})
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *fileQueue) run(n int) error {
	for range n {
		if err := o.cycle(); err != nil {
			return err
		}
	}
	return nil
}

var errNoMessage = errors.New("a message was not received")

func (o *fileQueue) cycle() error {
	if err := o.enqueue.BindBlob(1, o.body[:]); err != nil {
		return err
	}
	if err := o.enqueue.Exec(); err != nil {
		return err
	}
	if !o.receive.Step() || len(o.receive.ColumnRawBlob(1)) != cycleBody {
		return errors.Join(errNoMessage, o.receive.Reset())
	}
	id := o.receive.ColumnInt64(0)
	if o.receive.Step() {
		return errors.Join(errors.New("two messages were received"), o.receive.Reset())
	}
	// Reset reports what Step did: the transaction ended with it.
	if err := errors.Join(o.receive.Reset(), o.complete.BindInt64(1, id)); err != nil {
		return err
	}
	return o.complete.Exec()
}

func (o *fileQueue) close() error {
	return errors.Join(o.enqueue.Close(), o.receive.Close(), o.complete.Close())
}
