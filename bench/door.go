package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/ncruces/go-sqlite3"
)

// belowDoor is the peer of door/update: package vfs alone.
const belowDoor = "vfs"

// An executor runs a statement in a transaction of its own.
type executor func(ctx context.Context, query string, args ...any) error

// updates opens door/update: an actor whose database gets one row after the other, each in a
// transaction that is durable before the next one begins. Rows are as wide as those of
// sqlite/insert-1, beside which the line stands, so that the two can be compared. Both sides
// go through database/sql, on the same kind of store and with the same options, so that what
// differs is the way into the actor.
func updates(way func(*stand, *greenroom.Store) executor) func(*stand) {
	return func(s *stand) {
		store := must(greenroom.New(s.ctx, s.openEngine(), &greenroom.Options{Limits: limits()}))
		exec := way(s, owned(s, store))
		check(exec(s.ctx, createTable))
		rows := newRows(blobSize)
		s.workers = []worker{repeat(func() error {
			rows.next()
			return exec(s.ctx, insertRow, rows.a, rows.b)
		})}
	}
}

// throughDoor runs statements through the root package, which opens the database with the
// first.
func throughDoor(s *stand, store *greenroom.Store) executor {
	a := owned(s, must(store.Actor(s.ctx, "bench", nil)))
	return func(ctx context.Context, query string, args ...any) error {
		return a.Update(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Exec(query, args...)
			return err
		})
	}
}

// throughVFS runs statements through package vfs.
func throughVFS(s *stand, store *greenroom.Store) executor {
	a := owned(s, must(store.Lower().Named(s.ctx, "bench", nil)))
	db := owned(s, must(vfs.Open(s.ctx, a, nil)))
	return func(ctx context.Context, query string, args ...any) error {
		return db.Update(ctx, func(tx *vfs.Tx) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		})
	}
}

// Peers of together/transfer.
const (
	twoTables  = "two-tables"  // a SQLite file has both balances, in tables of their own
	twoUpdates = "two-updates" // two transactions, one after the other: a crash in between loses money
)

// transfers are together/transfer: an amount is moved from one actor to another, durably, and noted in both.
func transfers() []workload {
	return []workload{{name: "together/transfer", unit: "transfer/s", open: transferring(oneUpdate), peers: []peer{
		{twoUpdates, 1.6, anywhere, transferring(twoByTwo)}, {twoTables, 0, near, openTables},
	}}}
}

// A statement of a transfer changes the balance, and another one notes it.
const (
	makeAccount = `CREATE TABLE account(balance INTEGER NOT NULL); INSERT INTO account VALUES(1000000000); CREATE TABLE entry(id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)`
	addAmount   = `UPDATE account SET balance = balance + ?`
	noteAmount  = `INSERT INTO entry(amount) VALUES(?)`
)

// transferring opens together/transfer in one of two ways.
func transferring(move func(ctx context.Context, accounts []*greenroom.Actor) error) func(*stand) {
	return func(s *stand) {
		store := owned(s, must(greenroom.New(s.ctx, s.openEngine(), &greenroom.Options{Limits: limits()})))
		var accounts []*greenroom.Actor
		for i := range 2 {
			a := owned(s, must(store.Actor(s.ctx, name(i), nil)))
			_, err := a.SQL().ExecContext(s.ctx, makeAccount)
			check(err)
			accounts = append(accounts, a)
		}
		s.workers = []worker{repeat(func() error { return move(s.ctx, accounts) })}
	}
}

func add(tx *greenroom.Tx, amount int) error {
	if _, err := tx.Exec(addAmount, amount); err != nil {
		return err
	}
	_, err := tx.Exec(noteAmount, amount)
	return err
}

// oneUpdate moves an amount by one transaction of both actors.
func oneUpdate(ctx context.Context, accounts []*greenroom.Actor) error {
	return greenroom.Update(ctx, accounts, func(txs []*greenroom.Tx) error {
		if err := add(txs[0], -1); err != nil {
			return err
		}
		return add(txs[1], 1)
	})
}

// twoByTwo moves it by one of each.
func twoByTwo(ctx context.Context, accounts []*greenroom.Actor) error {
	for i, amount := range []int{-1, 1} {
		if err := accounts[i].Update(ctx, func(tx *greenroom.Tx) error { return add(tx, amount) }); err != nil {
			return err
		}
	}
	return nil
}

// openTables is the same in a SQLite file, in WAL mode, with synchronous=FULL.
func openTables(s *stand) {
	c := openPlace(s, fileWALFull, "bank")()
	var steps []*sqlite3.Stmt
	for i, amount := range []string{"-1", "1"} {
		of := strings.NewReplacer("account", fmt.Sprint("account", i), "entry", fmt.Sprint("entry", i), "?", amount)
		check(c.Exec(of.Replace(makeAccount)))
		steps = append(steps, statement(s, c, of.Replace(addAmount)), statement(s, c, of.Replace(noteAmount)))
	}
	s.workers = []worker{repeat(func() (err error) {
		tx := c.Begin()
		defer tx.End(&err)
		for _, step := range steps {
			if err := step.Exec(); err != nil {
				return err
			}
		}
		return nil
	})}
}
