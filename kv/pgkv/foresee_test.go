//go:build unix

package pgkv

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A counting is a store whose server counts how often it evaluates an atomic operation,
// and how often with the gate held.
type counting struct {
	db    *DB
	txs   *txn.DB
	known map[string]int // what was counted when it was last asked
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	db := open(t)
	txs, err := txn.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{db, txs, map[string]int{}}
	c.sql(t, `create sequence {s}.free; create sequence {s}.gated;
		alter function {s}.mutate(bytea, int4, bytea) rename to mutate_counted;
		create function {s}.mutate(v bytea, op int4, p bytea) returns bytea language plpgsql volatile as $$ begin
			if exists (select from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'
					and (classid::int8 << 32 | objid::int8) = {gate}) then
				perform nextval('{s}.gated');
			else
				perform nextval('{s}.free');
			end if;
			return {s}.mutate_counted(v, op, p);
		end $$`)
	t.Cleanup(func() { // or Drop finds a function that it doesn't know
		c.sql(t, `drop function {s}.mutate; alter function {s}.mutate_counted(bytea, int4, bytea) rename to mutate;
			drop sequence {s}.free; drop sequence {s}.gated`)
	})
	return c
}

// sql runs a query beside the store.
func (c *counting) sql(t *testing.T, query string) string {
	t.Helper()
	schema := c.db.target.schema
	return pgtest.Shared(t).SQL(t, strings.NewReplacer("{s}", quote(schema), "{gate}", fmt.Sprint(gateID(schema))).Replace(query))
}

// counts returns how often operations were evaluated since it was last asked.
func (c *counting) counts(t *testing.T) (free, gated int) {
	t.Helper()
	since := func(name string) (n int) {
		text := c.sql(t, `select last_value - case when is_called then 0 else 1 end from {s}.`+name)
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
		before := c.known[name]
		c.known[name] = n
		return n - before
	}
	return since("free"), since("gated")
}

// large is an operand: n in its low byte, and bits in all others.
func large(n byte) []byte { return append([]byte{n}, bytes.Repeat([]byte{0x11}, 99_999)...) }

// add adds large numbers to so many keys, and a few bytes to what lies beside them.
func (c *counting) add(n int) error {
	return c.txs.Update(ctx, func(tx *txn.Tx) error {
		var errs []error
		for i := range n {
			errs = append(errs, tx.Atomic(txn.MutationAdd, fmt.Appendf(nil, "n%02d", i), large(1)))
		}
		errs = append(errs, tx.Atomic(txn.MutationAppendIfFits, []byte("log"), []byte("x")))
		return errors.Join(errs...)
	})
}

// TestForeseen: what takes the server long is done before a transaction keeps others out.
func TestForeseen(t *testing.T) {
	c := newCounting(t)
	for round := range 2 {
		if err := c.add(20); err != nil {
			t.Fatal(err)
		}
		if free, gated := c.counts(t); free != 20 || gated != 1 {
			t.Errorf("round %d: %d operations were evaluated before the gate, %d behind it", round, free, gated)
		}
	}
	for i := range 20 {
		want, _ := txn.MutationAdd.Apply(large(1), true, large(1))
		if got, err := c.db.Get(ctx, fmt.Appendf(nil, "n%02d", i), nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("number %d is %.10x, %v; want %.10x", i, got, err, want)
		}
	}
	wantGet(t, c.db, "log", "xx")
	// What is small isn't sent twice for that.
	if err := c.add(1); err != nil {
		t.Fatal(err)
	}
	if free, gated := c.counts(t); free != 0 || gated != 2 {
		t.Errorf("small: %d operations were evaluated before the gate, %d behind it", free, gated)
	}
}

// TestForeseenWrong: what others have written, added or removed meanwhile counts.
func TestForeseenWrong(t *testing.T) {
	c := newCounting(t)
	if err := c.add(4); err != nil {
		t.Fatal(err)
	}
	if err := c.db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("n03", "")}}); err != nil {
		t.Fatal(err)
	}
	c.counts(t)
	other, err := c.db.connect(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.close)
	gate := fmt.Sprint(gateID(c.db.target.schema))
	if err := other.simple(ctx, `begin; select pg_advisory_xact_lock_shared(`+gate+`)`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.add(6) }()
	err = pglocal.Poll(func() (bool, error) { // until it has foreseen all, and waits
		return c.sql(t, `select count(*) from pg_locks where not granted and locktype = 'advisory'
			and (classid::int8 << 32 | objid::int8) = {gate}`) == "1", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if free, gated := c.counts(t); free != 6 || gated != 0 {
		t.Errorf("%d operations were evaluated before the gate, %d behind it", free, gated)
	}
	if err := other.simple(ctx, strings.ReplaceAll(`
		update {s}.kv set value = '\x07' where key = 'n01';
		delete from {s}.kv where key = 'n02';
		insert into {s}.kv(key, value) values('n04', '\x09');
		commit`, "{s}", quote(c.db.target.schema))); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if free, gated := c.counts(t); free != 0 || gated != 3+1 {
		t.Errorf("then %d operations were evaluated before the gate, %d behind it", free, gated)
	}
	for i, before := range [][]byte{large(1), {7}, nil, {}, {9}, nil} {
		want, _ := txn.MutationAdd.Apply(before, before != nil, large(1))
		if got, err := c.db.Get(ctx, fmt.Appendf(nil, "n%02d", i), nil); err != nil || !bytes.Equal(got, want) {
			t.Errorf("number %d is %.10x, %v; want %.10x", i, got, err, want)
		}
	}
}
