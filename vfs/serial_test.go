package vfs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/vfs"
)

// A recorder runs random transactions on one connection, and writes down what they did
// and saw.
type recorder struct {
	conn  *sql.Conn
	rnd   *rand.Rand
	clock *atomic.Int64 // of all of them
	ids   *atomic.Int64
	did   history
	busy  int
}

// histKeys is how many lists there are.
const histKeys = 2

// tx runs one transaction, to a commit or a rollback.
func (r *recorder) tx(ctx context.Context) error {
	rec := &record{begin: r.clock.Add(1)}
	writes := r.rnd.IntN(2) == 0
	begin, end := "begin deferred", "commit"
	if writes && r.rnd.IntN(4) == 0 {
		begin = "begin immediate"
	}
	if r.rnd.IntN(6) == 0 {
		end = "rollback"
	}
	_, err := r.conn.ExecContext(ctx, begin)
	for range 1 + r.rnd.IntN(5) {
		if err == nil {
			err = r.op(ctx, rec, writes)
		}
	}
	if err == nil {
		_, err = r.conn.ExecContext(ctx, end)
		rec.committed = err == nil && end == "commit"
	}
	if errors.Is(err, sqlite3.BUSY) {
		r.busy++
		if _, err = r.conn.ExecContext(ctx, "rollback"); err != nil && strings.Contains(err.Error(), "no transaction is active") {
			err = nil // BEGIN IMMEDIATE itself was refused
		}
	}
	rec.end = r.clock.Add(1)
	r.did = append(r.did, rec)
	return err
}

// op reads a list, or appends to one, or changes so much that the transaction spills.
func (r *recorder) op(ctx context.Context, rec *record, writes bool) error {
	key := r.rnd.IntN(histKeys)
	runtime.Gosched() // to where the others are in the middle of theirs
	switch n := r.rnd.IntN(8); {
	case writes && n < 3:
		id := int(r.ids.Add(1))
		_, err := r.conn.ExecContext(ctx, "update list set v = v || ? where k = ?", fmt.Sprint(" ", id), key)
		if err == nil {
			rec.ops = append(rec.ops, wr(key, id))
		}
		return err
	case writes && n == 3:
		_, err := r.conn.ExecContext(ctx, "update pad set b = zeroblob(? + length(b) % 2)", 2000+2*r.rnd.IntN(100))
		return err
	}
	return r.read(ctx, rec, key)
}

// read reads a list.
func (r *recorder) read(ctx context.Context, rec *record, key int) error {
	var text string
	if err := r.conn.QueryRowContext(ctx, "select v from list where k = ?", key).Scan(&text); err != nil {
		return err
	}
	o := histOp{key: key}
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		o.saw = append(o.saw, n)
	}
	rec.ops = append(rec.ops, o)
	return nil
}

// TestSerializable records what eight connections do at once, and finds a serial order
// that explains it, and that keeps to real time.
func TestSerializable(t *testing.T) {
	t.Parallel()
	each := testkit.Pick(50, 100, 200)
	for name, c := range map[string]struct {
		limits batch.Limits
		cache  string
	}{
		"atomic":          {batch.Limits{}, "cache_size=100"},
		"spilled":         {batch.Limits{}, "cache_size=5"},
		"journal":         {oneBatch, "cache_size=100"},
		"journal spilled": {oneBatch, "cache_size=5"},
		"log":             {batch.Limits{}, "journal_mode=wal"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.limits)
			db := r.open(t, &vfs.Options{MaxConns: 9, Pragmas: []string{c.cache}})
			exec(t, db, "create table list(k integer primary key, v text, fill blob)")
			exec(t, db, "insert into list select value - 1, '', zeroblob(3000) from generate_series(1, ?)", histKeys)
			exec(t, db, "create table pad(b)")
			exec(t, db, "insert into pad select zeroblob(2000) from generate_series(1, 40)")
			seed := rand.Uint64()
			var clock, ids atomic.Int64
			var recorders [8]*recorder
			var all sync.WaitGroup
			for i := range recorders {
				recorders[i] = &recorder{conn: oneConn(t, db), rnd: rand.New(rand.NewPCG(seed, uint64(i))), clock: &clock, ids: &ids}
			}
			for _, rec := range recorders { // they begin together, to be beside each other
				all.Go(func() {
					for range each {
						if err := rec.tx(t.Context()); err != nil {
							t.Errorf("seed %d: %v", seed, err)
							return
						}
					}
				})
			}
			all.Wait()
			var h history
			busy, committed, overlapping := 0, 0, 0
			for _, rec := range recorders {
				h = append(h, rec.did...)
				busy += rec.busy
			}
			last := &recorder{conn: oneConn(t, db), rnd: rand.New(rand.NewPCG(seed, 9)), clock: &clock, ids: &ids}
			final := &record{begin: clock.Add(1), committed: true}
			for key := range histKeys { // else perhaps no transaction has read the last writes
				if err := last.read(t.Context(), final, key); err != nil {
					t.Fatal(err)
				}
			}
			final.end = clock.Add(1)
			h = append(h, final)
			for _, rec := range h {
				if rec.committed && len(rec.ops) > 0 {
					committed++
				}
				if rec.end > rec.begin+1 {
					overlapping++
				}
			}
			t.Logf("%d transactions, %d committed, %d beside others, %d found it busy, %d appended; %+v", len(h), committed, overlapping, busy, ids.Load(), db.Stats())
			if err := h.check(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if committed < len(h)/3 || overlapping < len(h)/10 {
				t.Errorf("%d of %d committed, %d beside others", committed, len(h), overlapping)
			}
			intact(t, last.conn)
		})
	}
}
