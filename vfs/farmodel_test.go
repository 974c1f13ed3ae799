package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/vfs/memdb"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A farScript is random SQL, one statement a line.
type farScript struct {
	*rand.Rand
	next int // id of the next row
}

// line returns a statement, and whether it yields rows.
func (s *farScript) line() (query string, rows bool) {
	id := 1 + s.IntN(max(s.next, 1))
	switch s.IntN(14) {
	case 0, 1, 2:
		n := 1 + s.IntN(60)
		s.next += n
		return fmt.Sprintf("insert into t(k, b) select (i * %d) %% 1009, zeroblob(%d) || hex(i) from (with n(i) as (values (1) union all select i + 1 from n where i < %d) select i from n)",
			1+s.IntN(500), s.IntN(3)*s.IntN(4000), n), false
	case 3:
		return fmt.Sprintf("update t set b = zeroblob(%d) || %d where id = %d", s.IntN(9000), s.IntN(100), id), false
	case 4:
		return fmt.Sprintf("update t set k = k + 1 where k %% 50 = %d", s.IntN(50)), false
	case 5:
		return fmt.Sprintf("delete from t where id between %d and %d", id, id+s.IntN(30)), false
	case 6:
		return fmt.Sprintf("insert into u select id, k from t where id > %d limit 40", id), false
	case 7:
		return "delete from u where a % 3 = 0", false
	case 8:
		return "select id, k, length(b), substr(b, -3) from t order by id", true
	case 9:
		return "select id, k, length(b) from t order by id desc", true
	case 10:
		return fmt.Sprintf("select id, k, length(b), substr(b, -2) from t where k >= %d order by k, id limit 50", s.IntN(1009)), true
	case 11:
		return fmt.Sprintf("select count(*), sum(k), max(length(b)) from t where k < %d", s.IntN(1009)), true
	case 12:
		return fmt.Sprintf("select t.id, length(t.b), k from u join t on t.id = u.a where u.a > %d order by u.a desc, k limit 50", id), true
	}
	return fmt.Sprintf("select id, length(b) from t where id = %d", id), true
}

// TestFarRandom runs random SQL on a far engine, in processes that come and go, and in
// memory, and compares what they answer. The cache is large, small or tiny, and some of
// what is read ahead fails.
func TestFarRandom(t *testing.T) {
	t.Parallel()
	tests := []struct {
		page  int
		cache int64
		mode  string
	}{
		{4096, 0, "delete"}, {4096, 256 << 10, "delete"}, {4096, 512 << 10, "wal"}, {4096, 1, "delete"}, {512, 128 << 10, "delete"},
		{16384, 1 << 20, "delete"}, {65536, 0, "delete"}, {1024, 1, "wal"}, {8192, 512 << 10, "truncate"},
	}
	for _, tt := range tests[:testkit.Pick(3, len(tests), len(tests))] {
		for seed := range testkit.Pick[uint64](1, 1, 2) {
			t.Run(fmt.Sprintf("page %d, cache %d, %s, seed %d", tt.page, tt.cache, tt.mode, seed), func(t *testing.T) {
				r := newFarRig(t)
				r.cache = tt.cache
				farRandom(t, r, fmt.Sprintf("page_size=%d", tt.page), tt.mode, seed)
			})
		}
	}
}

func farRandom(t *testing.T, r *farRig, pageSize, mode string, seed uint64) {
	model, err := sql.Open("sqlite3", memdb.TestDB(t))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	model.SetMaxOpenConns(1)
	script := &farScript{Rand: rand.New(rand.NewPCG(seed, uint64(len(pageSize))))}
	schema := []string{"create table t(id integer primary key, k, b)", "create index tk on t(k)", "create table u(a, b)"}
	used := int64(0)
	for session := range 4 {
		r.session(t, &vfs.Options{MaxConns: 2, Pragmas: []string{pageSize, "cache_size=8", "journal_mode=" + mode}}, func(db *vfs.DB) {
			if session == 0 {
				for _, q := range schema {
					exec(t, db, q)
					exec(t, model, q)
				}
			}
			r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeEntry, Match: prefetching, Skip: 40, Times: 3})
			defer r.Engine.Heal()
			for range 60 {
				query, rows := script.line()
				if !rows {
					exec(t, db, query)
					exec(t, model, query)
					continue
				}
				if got, want := rowsOf(t, db, query), rowsOf(t, model, query); got != want {
					t.Fatalf("session %d, %s:\ngot  %.300s\nwant %.300s", session, query, got, want)
				}
			}
			r.Engine.Heal()
			intact(t, db)
			s := db.Stats()
			used += s.PrefetchUsed
			if s.PrefetchUsed+s.PrefetchWasted > s.Prefetched || r.cache == 1 && s.Prefetched > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	if used == 0 && r.cache != 1 {
		t.Error("nothing was read ahead")
	}
}

// prefetching matches a scan of chunks, as reading ahead makes them: what fails there
// must not be noticed.
func prefetching(op faultkv.Op) bool {
	return op.Range.Limit == 0 && len(op.Range.Start) > 60
}

// rowsOf returns what a query yields.
func rowsOf(t testing.TB, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	values := make([]any, len(cols))
	for i := range values {
		values[i] = new(sql.NullString)
	}
	for rows.Next() {
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			out.WriteString(v.(*sql.NullString).String + " ")
		}
		out.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out.String()
}

// TestFarReaders: readers run beside a writer, with a cache that is too small for any of them: each
// sees whole transactions.
func TestFarReaders(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			r := newFarRig(t)
			r.cache = 512 << 10
			r.session(t, &vfs.Options{MaxConns: 5, Pragmas: []string{"cache_size=8", "journal_mode=" + mode}}, func(db *vfs.DB) {
				exec(t, db, "create table t(id integer primary key, k, b)")
				exec(t, db, "with n(i) as (values (1) union all select i + 1 from n where i < 600) insert into t select i, 0, zeroblob(900) from n")
				var done sync.WaitGroup
				ctx, stop := context.WithCancelCause(t.Context())
				for k := range 3 {
					done.Go(func() {
						for ctx.Err() == nil {
							var least, most, n int
							q := "select min(k), max(k), count(*) from (select k, b from t order by id " + []string{"asc", "desc", "asc"}[k] + ")"
							if err := db.QueryRowContext(t.Context(), q).Scan(&least, &most, &n); err != nil || least != most || n != 600 {
								stop(fmt.Errorf("reader %d: %d to %d of %d, %v", k, least, most, n, err))
							}
						}
					})
				}
				for i := range 30 {
					if _, err := db.ExecContext(t.Context(), "update t set k = ?", i); err != nil {
						stop(err)
					}
				}
				stop(nil)
				done.Wait()
				if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				intact(t, db)
			})
		})
	}
}
