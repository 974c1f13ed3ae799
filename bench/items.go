package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Peers of items, beside raw. A playback is raw as it is elsewhere: the commits of the workload,
// with all their rows. A view is a transaction of package txn that reads one row, which is below.
const (
	sqliteTable = "sqlite-table"
	playback    = "playback"
	txnView     = "view"
)

// listRows is how many items a list has, and how many changes Sync tells of.
const listRows = 100

// An account is an item with two aliases. A team has listRows of them.
type account struct {
	_     struct{} `path:"/account-:ID, /email-:Email, /team-:Team/account-:ID"`
	ID    uint64
	Email string
	Team  uint64
	Note  []byte
}

func email(id uint64) string { return fmt.Sprintf("user-%d@example.com", id) }

func team(id uint64) uint64 { return 1 + id/listRows }

// accountMaker makes up accounts with ids from 1 on. The account is the same one each time.
func accountMaker() func() *account {
	noise, a, next := newNoise(1), &account{Note: make([]byte, bodySize)}, uint64(1)
	return func() *account {
		a.ID, a.Email, a.Team = next, email(next), team(next)
		noise.Read(a.Note) // never fails
		next++
		return a
	}
}

// openAccounts opens an item store with so many accounts.
func openAccounts(ctx context.Context, e kv.Engine, n int) *itemstore.Store {
	schema := must(itemstore.NewSchema(1, itemstore.TypeOf[account](nil)))
	store, next := must(itemstore.Open(ctx, e, "bench", schema, nil)), accountMaker()
	for n > 0 {
		var items []any
		for ; n > 0 && len(items) < 500; n-- {
			a := *next()
			a.Note = bytes.Clone(a.Note)
			items = append(items, &a)
		}
		check(store.PutAll(ctx, items, nil))
	}
	return store
}

// openItemPut is items/put: a new account is put, a durable commit.
func openItemPut(s *stand) {
	store, next := openAccounts(s.ctx, s.openEngine(), 0), accountMaker()
	s.workers = []worker{repeat(func() error { return store.Put(s.ctx, next(), nil) })}
}

// openRawPut is its peer: one durable commit of one row of the same payload.
func openRawPut(s *stand) {
	engine, next := s.openEngine(), accountMaker()
	var payload []byte
	s.workers = []worker{repeat(func() error {
		a := next()
		payload = fmt.Appendf(payload[:0], "ID %d Email %s Team %d Note %s", a.ID, a.Email, a.Team, a.Note)
		return engine.Commit(s.ctx, &kv.Commit{Durability: kv.Durable, Ops: []kv.Op{kv.Set(fmt.Appendf(nil, "account/%016x", a.ID), payload)}})
	})}
}

// openPlaybackPut is its peer too: what a put commits, with the rows of all paths, the log and the stamps in them.
func openPlaybackPut(s *stand) { workload{open: openItemPut, commits: 1, kept: 1024}.openRaw(s) }

// openItemGet is items/get: a random account by its email.
func openItemGet(s *stand) {
	s.workers = []worker{repeat(itemGetter(s.ctx, s.openEngine(), s.sizes.point))}
}

func itemGetter(ctx context.Context, e kv.Engine, n int) func() error {
	store, rnd := openAccounts(ctx, e, n), newRand(1)
	paths := make([]itemstore.Path, n)
	for i := range paths {
		paths[i] = itemstore.At("email", email(uint64(i+1)))
	}
	return func() error {
		i := rnd.IntN(n)
		a, err := itemstore.Get[account](ctx, store, paths[i])
		if err == nil && (a.ID != uint64(i+1) || len(a.Note) != bodySize) {
			err = fmt.Errorf("account %d is %+v", i+1, a)
		}
		return err
	}
}

// emailRows returns the keys of the rows that n operations of items/get read.
func emailRows(ctx context.Context, engine *faultkv.Engine, n int) (keys [][]byte) {
	get := itemGetter(ctx, engine, n)
	var schema []byte
	engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeGet {
			if keys = append(keys, bytes.Clone(op.Key)); schema == nil || len(op.Key) < len(schema) {
				schema = keys[len(keys)-1] // the shortest one
			}
		}
		return nil
	})
	for range n {
		check(get())
	}
	engine.Hook(nil)
	return slices.DeleteFunc(keys, func(k []byte) bool { return bytes.Equal(k, schema) })
}

// openRawGet is its peer: the same row by one Get of the engine.
func openRawGet(s *stand) {
	keys, next, dst := emailRows(s.ctx, s.openEngine(), s.sizes.point), 0, []byte(nil)
	s.workers = []worker{repeat(func() (err error) {
		next = (next + 1) % len(keys)
		dst, err = s.engine.Get(s.ctx, keys[next], dst[:0])
		return err
	})}
}

// openViewGet is its peer too: the same row by a transaction.
func openViewGet(s *stand) {
	keys, next, dst := emailRows(s.ctx, s.openEngine(), s.sizes.point), 0, []byte(nil)
	db := must(txn.New(s.engine, nil))
	s.workers = []worker{repeat(func() error {
		next = (next + 1) % len(keys)
		return db.View(s.ctx, func(tx *txn.Tx) (err error) {
			dst, err = tx.Get(s.ctx, keys[next], dst[:0])
			return err
		})
	})}
}

// teams is the number of the last whole team among so many accounts.
func teams(accounts int) int { return accounts / listRows }

// listed is how many accounts a store of lists has at least: two whole teams.
func listed(n int) int { return max(n, 3*listRows) }

// openItemList is items/list: all accounts of a random team.
func openItemList(s *stand) {
	n := listed(s.sizes.point)
	store, rnd := openAccounts(s.ctx, s.openEngine(), n), newRand(1)
	s.workers = []worker{repeat(func() error {
		// The first team has one account less, as ids begin with 1.
		prefix, found := itemstore.At("team", 2+rnd.IntN(teams(n)-1)), 0
		for item, err := range store.List(s.ctx, prefix, &itemstore.ListOptions{Limit: listRows}) {
			if err != nil {
				return err
			}
			if len(item.Value.(*account).Note) == bodySize {
				found++
			}
		}
		return wanted(found)
	})}
}

func wanted(found int) error {
	if found != listRows {
		return fmt.Errorf("found %d accounts, not %d", found, listRows)
	}
	return nil
}

// openItemSync is items/sync: what has changed since a token was made, all accounts of a team.
func openItemSync(s *stand) {
	store := openAccounts(s.ctx, s.openEngine(), listed(0))
	page := must(store.Page(s.ctx, itemstore.At("team", 2), nil))
	for _, item := range page.Items {
		check(store.Put(s.ctx, item.Value, nil))
	}
	s.workers = []worker{repeat(func() error {
		changes, err := store.Sync(s.ctx, page.Token)
		if err != nil {
			return err
		}
		return wanted(len(changes.Changes))
	})}
}

// openRawList is the peer of both: one scan of the engine over as many rows.
func openRawList(s *stand) {
	openAccounts(s.ctx, s.openEngine(), listed(s.sizes.point))
	var rows [][]byte // of accounts, by their keys: no others are as long
	for e, err := range s.engine.Scan(s.ctx, kv.Range{}) {
		check(err)
		if len(e.Value) > bodySize {
			rows = append(rows, bytes.Clone(e.Key))
		}
	}
	rnd := newRand(1)
	s.workers = []worker{repeat(func() error {
		found := 0
		r := kv.Range{Start: rows[rnd.IntN(len(rows)-listRows)], Limit: listRows}
		for _, err := range s.engine.Scan(s.ctx, r) {
			if err != nil {
				return err
			}
			found++
		}
		return wanted(found)
	})}
}

// accountsTable has the accounts as a program with a SQLite file would keep them: in WAL mode, with synchronous=FULL: each path
// is an index, and what has changed is found by a version.
const accountsTable = `CREATE TABLE account(id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, team INTEGER NOT NULL, note BLOB NOT NULL,
	version INTEGER NOT NULL);
	CREATE UNIQUE INDEX member ON account(team, id);
	CREATE INDEX changed ON account(team, version)`

// An accountsFile is such a file.
type accountsFile struct {
	*sqlite3.Conn
	stmts []*sqlite3.Stmt
	next  func() *account
}

// newAccountsFile makes the table through c, with so many accounts.
func newAccountsFile(c *sqlite3.Conn, n int) *accountsFile {
	f := &accountsFile{Conn: c, next: accountMaker()}
	check(c.Exec(accountsTable))
	insert := f.inserter()
	check(c.Exec(`BEGIN`))
	for range n {
		check(insert())
	}
	check(c.Exec(`COMMIT`))
	return f
}

// inserter returns a function that inserts the next account.
func (f *accountsFile) inserter() func() error {
	stmt := f.statement(`INSERT INTO account(id, email, team, note, version) VALUES(?1, ?2, ?3, ?4, ?1)`)
	return func() error {
		a := f.next()
		return errors.Join(stmt.BindInt64(1, int64(a.ID)), stmt.BindText(2, a.Email), stmt.BindInt64(3, int64(a.Team)), stmt.BindBlob(4, a.Note), stmt.Exec())
	}
}

func (f *accountsFile) statement(sql string) *sqlite3.Stmt {
	stmt, _, err := f.Prepare(sql)
	check(err)
	f.stmts = append(f.stmts, stmt)
	return stmt
}

// Close closes the statements. The connection stays the caller's.
func (f *accountsFile) Close() (err error) {
	for _, stmt := range f.stmts {
		err = errors.Join(err, stmt.Close())
	}
	return err
}

func openFilePut(s *stand) {
	f := owned(s, newAccountsFile(openPlace(s, fileWALFull, "accounts")(), 0))
	s.workers = []worker{repeat(f.inserter())}
}

func openFileGet(s *stand) {
	f := owned(s, newAccountsFile(openPlace(s, fileWALFull, "accounts")(), s.sizes.point))
	stmt, rnd := f.statement(`SELECT id, email, team, note FROM account WHERE email = ?`), newRand(1)
	s.workers = []worker{repeat(func() error {
		id := 1 + rnd.IntN(s.sizes.point)
		if err := stmt.BindText(1, email(uint64(id))); err != nil {
			return err
		}
		found, err := readAccounts(stmt)
		if err == nil && found != 1 {
			err = fmt.Errorf("account %d was found %d times", id, found)
		}
		return err
	})}
}

func openFileList(s *stand) {
	n := listed(s.sizes.point)
	f := owned(s, newAccountsFile(openPlace(s, fileWALFull, "accounts")(), n))
	stmt, rnd := f.statement(`SELECT id, email, team, note FROM account WHERE team = ? ORDER BY id LIMIT 100`), newRand(1)
	s.workers = []worker{repeat(func() error {
		if err := stmt.BindInt64(1, int64(2+rnd.IntN(teams(n)-1))); err != nil {
			return err
		}
		found, err := readAccounts(stmt)
		return errors.Join(err, wanted(found))
	})}
}

func openFileSync(s *stand) {
	f := owned(s, newAccountsFile(openPlace(s, fileWALFull, "accounts")(), listed(0)))
	check(f.Exec(`UPDATE account SET version = version + 1000 WHERE team = 2`))
	stmt := f.statement(`SELECT id, email, team, note FROM account WHERE team = 2 AND version > 1000 ORDER BY version`)
	s.workers = []worker{repeat(func() error {
		found, err := readAccounts(stmt)
		return errors.Join(err, wanted(found))
	})}
}

// readAccounts runs a statement that returns accounts, makes a value of each, and returns their number.
func readAccounts(stmt *sqlite3.Stmt) (found int, err error) {
	for stmt.Step() {
		a := &account{
			ID: uint64(stmt.ColumnInt64(0)), Email: stmt.ColumnText(1), Team: uint64(stmt.ColumnInt64(2)), Note: stmt.ColumnBlob(3, nil),
		}
		if len(a.Note) == bodySize {
			found++
		}
	}
	return found, stmt.Reset() // it reports what Step did
}
