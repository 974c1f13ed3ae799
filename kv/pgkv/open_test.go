//go:build unix

package pgkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		url         string
		opts        *Options
		schema      string
		calls, pins int
		retry       time.Duration
	}{
		{"postgres://u:p@h:1/d", nil, "greenroom", 16, 32, 15 * time.Second},
		{"postgresql://u@h1:1,h2:2/d?schema=a%20b&calls=3&pins=5&sslmode=disable&retry=2s", nil, "a b", 3, 5, 2 * time.Second},
		{"postgres://u@h/d?calls=3&pins=5&retry=2s", &Options{Calls: 7, Pins: 8, RetryFor: 9}, "greenroom", 7, 8, 9},
		{"postgres:///d?schema=Ünï&retry=0s", &Options{Calls: 7}, "Ünï", 7, 32, -1},
	} {
		target, o, err := parse(test.url, test.opts.orDefault(), test.opts)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		if target.schema != test.schema || o.Calls != test.calls || o.Pins != test.pins || o.RetryFor != test.retry {
			t.Errorf("%s: got schema %q, calls %d, pins %d, retry %v", test.url, target.schema, o.Calls, o.Pins, o.RetryFor)
		}
		for _, own := range []string{"schema", "calls", "pins", "retry"} {
			if v, ok := target.config.RuntimeParams[own]; ok {
				t.Errorf("%s: the server is sent %s=%s", test.url, own, v)
			}
		}
	}
	for _, url := range []string{
		"", "host=h password=secret", "mysql://u:secret@h/d", "postgres://u:secret@h:port/d", "postgres://u:secret%zz@h/d",
		"postgres://u:secret@h/d?schema=", "postgres://u:secret@h/d?schema=pg_x", "postgres://u:secret@h/d?schema=" + strings.Repeat("x", 64),
		"postgres://u:secret@h/d?calls=0", "postgres://u:secret@h/d?pins=secret", "postgres://u:secret@h/d?a=%zz",
		"postgres://u:secret@h/d?sslmode=secret", "postgres://u:secret@h/d?retry=secret", "postgres://u:secret@h/d?retry=-1s",
	} {
		_, _, err := parse(url, (*Options)(nil).orDefault(), nil)
		if !errors.Is(err, ErrURL) {
			t.Errorf("%s: got %v, want %v", url, err, ErrURL)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows what it should not: %v", err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	n := pgtest.Shared(t)
	schema := func(sql string) string {
		s := n.Schema()
		if sql != "" {
			n.SQL(t, strings.ReplaceAll(sql, "$", s))
		}
		return n.URL("schema=" + s)
	}
	// A port that was free a moment ago may be taken by now; nothing listens on this one.
	const nobody = "127.0.0.1:1"
	const meta = `CREATE SCHEMA $; CREATE TABLE $.meta(name text, value text); INSERT INTO $.meta VALUES`
	for _, test := range []struct {
		name string
		url  string
		opts Options
		want error
	}{
		{"must exist", schema(""), Options{MustExist: true}, kv.ErrNoStore},
		{"read-only", schema(""), Options{ReadOnly: true}, kv.ErrNoStore},
		{"an empty schema must hold a store", schema("CREATE SCHEMA $"), Options{MustExist: true}, kv.ErrNoStore},
		{"other tables", schema("CREATE SCHEMA $; CREATE TABLE $.t(x int)"), Options{}, kv.ErrNotAStore},
		{"another meta", schema("CREATE SCHEMA $; CREATE TABLE $.meta(x int)"), Options{}, kv.ErrNotAStore},
		{"newer", schema(meta + fmt.Sprintf("('version', '%d')", schemaVersion+1)), Options{}, kv.ErrNewerFormat},
		{"no version", schema(meta + "('version', 'x')"), Options{}, kv.ErrCorrupt},
		{"empty meta", schema(meta + "('x', '1')"), Options{}, kv.ErrCorrupt},
		{"no database", strings.Replace(schema(""), "/postgres?", "/nothing?", 1), Options{}, kv.ErrNoStore},
		{"no server", "postgres://u:secret@" + nobody + "/d", Options{RetryFor: time.Millisecond}, ErrUnavailable},
		{"no server, once", "postgres://u:secret@" + nobody + "/d", Options{RetryFor: -1}, ErrUnavailable},
		{"not TLS", strings.Replace(schema(""), "sslmode=disable", "sslmode=require", 1), Options{RetryFor: -1}, ErrUnavailable},
	} {
		db, err := Open(t.Context(), test.url, &test.opts)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", test.name, err)
		}
		if err == nil {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(gone, schema(""), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: got %v", err)
	}
}

// Many hosts may create the same store at the same time.
func TestOpenTogether(t *testing.T) {
	url := newURL(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := Open(ctx, url, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1")}}); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Stores of one database don't see each other, whatever their schemas are called.
func TestSchemas(t *testing.T) {
	n := pgtest.Shared(t)
	for i, suffix := range []string{"", "%22%3Bdrop", "'x", "%20A"} {
		name := n.Schema()
		url := n.URL("schema=" + name + suffix)
		db := openAt(t, url, nil)
		wantGet(t, db, "k", "-")
		if err := db.Commit(ctx, &kv.Commit{ID: kv.CommitID{1}, Ops: []kv.Op{set("k", fmt.Sprint(i))}}); err != nil {
			t.Fatal(err)
		}
		wantGet(t, openAt(t, url, &Options{MustExist: true}), "k", fmt.Sprint(i))
		if suffix != "" {
			t.Cleanup(func() { n.SQL(t, "SET client_min_messages = warning; DROP SCHEMA "+quote(db.target.schema)+" CASCADE") })
		}
	}
}

func TestReadOnly(t *testing.T) {
	url := newURL(t)
	if err := openAt(t, url, nil).Commit(ctx, &kv.Commit{Ops: []kv.Op{set("k", "v")}}); err != nil {
		t.Fatal(err)
	}
	db := openAt(t, url, &Options{ReadOnly: true})
	wantGet(t, db, "k", "v")
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("k", "w")}}); !errors.Is(err, errReadOnly) {
		t.Errorf("Commit: got %v, want %v", err, errReadOnly)
	}
	if err := db.Sync(ctx, db.Incarnation()); err != nil {
		t.Errorf("Sync: %v", err)
	}
	wantGet(t, db, "k", "v")
}

// After Close nothing is left on the server: no connection, and no row of outcomes.
func TestCloseCleansUp(t *testing.T) {
	n := pgtest.Shared(t)
	schema := n.Schema()
	url := n.URL("application_name=leaving&schema=" + schema)
	db := openAt(t, url, nil)
	db.closeTimeout = time.Minute // else the rows may stay, for their age to remove them
	for i := range 20 {
		if err := db.Commit(ctx, &kv.Commit{ID: kv.CommitID{byte(i + 1)}, Ops: []kv.Op{set("k", "v")}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.SQL(t, "SELECT count(*) FROM "+schema+".outcome"); got != "1" {
		t.Errorf("20 commits, one after the other, left %s rows of outcomes, want 1", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := n.SQL(t, "SELECT count(*) FROM "+schema+".outcome"); got != "0" {
		t.Errorf("closing left %s rows of outcomes", got)
	}
	await(t, func() bool {
		return n.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaving'") == "0"
	})
}

// A dropped store is gone, and what is beside it stays.
func TestDrop(t *testing.T) {
	n := pgtest.Shared(t)
	for _, beside := range []bool{false, true} {
		schema := n.Schema()
		url := n.URL("schema=" + schema)
		if err := Drop(ctx, url); !errors.Is(err, kv.ErrNoStore) {
			t.Errorf("before there is one: got %v, want %v", err, kv.ErrNoStore)
		}
		db, err := Open(ctx, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		want := "0"
		if beside {
			n.SQL(t, "CREATE TABLE "+schema+".other(x int)")
			want = "1"
		}
		if err := Drop(ctx, url); err != nil {
			t.Fatal(err)
		}
		if got := n.SQL(t, "SELECT count(*) FROM pg_namespace WHERE nspname = '"+schema+"'"); got != want {
			t.Errorf("beside another table: %v: %s schemas are left, want %s", beside, got, want)
		}
		if _, err := Open(ctx, url, &Options{MustExist: true}); err == nil {
			t.Error("a dropped store opens")
		}
	}
}
