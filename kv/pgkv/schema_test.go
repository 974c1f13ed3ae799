//go:build unix

package pgkv

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// olderStore returns the address of a store as the program of that version made it, with
// data in it, and its schema.
func olderStore(t testing.TB, version int) (url, schema string) {
	t.Helper()
	n := pgtest.Shared(t)
	schema = n.Schema()
	db := &DB{target: &target{schema: schema}}
	n.SQL(t, `create schema `+schema+`; create table `+schema+`.meta(name text primary key, value text not null);
		insert into `+schema+`.meta values('version', '0');`+db.steps(0, version)+`;
		insert into `+schema+`.kv(key, value) values('a', 'old'), ('n', '\x05');
		insert into `+schema+`.kv(key, rest, value) values(convert_to(repeat('k', 2600), 'utf8') || sha256('long'), 'long', 'value')`)
	return n.URL(patient + "&schema=" + schema), schema
}

// versionOf returns the version of the tables.
func versionOf(t testing.TB, schema string) string {
	t.Helper()
	return pgtest.Shared(t).SQL(t, `select value from `+schema+`.meta where name = 'version'`)
}

// checkUpgraded uses what is in an older store, and what it didn't have.
func checkUpgraded(t *testing.T, url, schema string) {
	t.Helper()
	db := openAt(t, url, nil)
	if got := versionOf(t, schema); got != fmt.Sprint(schemaVersion) {
		t.Errorf("the tables have version %s", got)
	}
	wantGet(t, db, "a", "old")
	wantGet(t, db, strings.Repeat("k", 2600)+"long", "value")
	txs, err := txn.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := txs.Update(ctx, func(tx *txn.Tx) error { return tx.Atomic(txn.MutationAdd, []byte("n"), []byte{2}) }); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "n", "\x07")
	// A program that has the store open since can't make a transaction: its version would
	// be given out twice.
	c, err := db.connect(t)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.simple(ctx, `update `+schema+`.version set number = number + 1`); code(err) != "23514" {
		t.Errorf("a version was given out as it used to be: %v", err)
	}
}

// TestUpgrade: a store of every older version is upgraded when it is opened, and only
// read when nothing may be changed.
func TestUpgrade(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		url, schema := olderStore(t, version)
		if _, err := Open(ctx, url, &Options{ReadOnly: true}); !errors.Is(err, errReadOnly) {
			t.Errorf("version %d, to be read: got %v, want %v", version, err, errReadOnly)
		}
		checkUpgraded(t, url, schema)
	}
}

// TestUpgradeFails: an upgrade that doesn't finish leaves everything as it was. The tables
// of a newer version are refused.
func TestUpgradeFails(t *testing.T) {
	url, schema := olderStore(t, 1)
	n := pgtest.Shared(t)
	// In the way of the last thing that the upgrade does.
	n.SQL(t, `create function `+schema+`.no() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
		create trigger no before update on `+schema+`.meta for each row execute function `+schema+`.no()`)
	if _, err := Open(ctx, url, nil); err == nil {
		t.Fatal("the upgrade failed, and the store is open")
	}
	state := func() string {
		return versionOf(t, schema) + " " + n.SQL(t, `select count(*) from pg_proc where pronamespace = '`+schema+`'::regnamespace and proname = 'mutate'`)
	}
	if got := state(); got != "1 0" {
		t.Errorf("version and functions: %s, want what was", got)
	}
	n.SQL(t, `drop trigger no on `+schema+`.meta; drop function `+schema+`.no()`)

	// And one whose connection breaks while it waits.
	where, _, err := parse(url, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	blocker, err := (&DB{target: where, sql: newStatements(schema)}).dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.close()
	if err := blocker.simple(ctx, `begin; select * from `+schema+`.meta for update`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Open(ctx, url, &Options{RetryFor: -1})
		done <- err
	}()
	waiting := `from pg_stat_activity where wait_event_type = 'Lock' and query like '%` + schema + `%mutate%'`
	await(t, func() bool { return n.SQL(t, `select count(*) `+waiting) == "1" })
	n.SQL(t, `select pg_terminate_backend(pid, 10000) `+waiting)
	if err := <-done; !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want %v", err, ErrUnavailable)
	}
	if err := blocker.simple(ctx, `rollback`); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != "1 0" {
		t.Errorf("version and functions: %s, want what was", got)
	}
	checkUpgraded(t, url, schema)

	n.SQL(t, fmt.Sprintf(`update %s.meta set value = '%d'`, schema, schemaVersion+1))
	var format *kv.FormatError
	if _, err := Open(ctx, url, nil); !errors.As(err, &format) || format.Found != schemaVersion+1 || format.Known != schemaVersion {
		t.Errorf("a newer store: got %v", err)
	}
}
