//go:build unix

package pgkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

func set(key, value string) kv.Op { return kv.Set([]byte(key), []byte(value)) }

func is(key, value string) kv.Check { return kv.Check{Key: []byte(key), Value: []byte(value)} }

func absent(key string) kv.Check { return kv.Check{Key: []byte(key), Absent: true} }

// wantGet checks the value of a key, "-" for none.
func wantGet(t testing.TB, r kv.Reader, key, want string) {
	t.Helper()
	v, err := r.Get(ctx, []byte(key), nil)
	got := string(v)
	if errors.Is(err, kv.ErrNotFound) {
		got, err = "-", nil
	}
	if err != nil || got != want {
		t.Errorf("Get(%s): got %q, %v, want %q", key, got, err, want)
	}
}

// The answer to COMMIT is lost: without another try the outcome is unknown, and
// Outcome knows it.
func TestLostAnswer(t *testing.T) {
	at := newURL(t)
	p, through := pgtest.NewProxy(t, at)
	db, other := openAt(t, through, &Options{RetryFor: -1, Calls: 1}), openAt(t, at, nil)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "0")}}); err != nil {
		t.Fatal(err)
	}
	for i, id := range []kv.CommitID{{1}, {}} {
		p.Set(pgtest.Pass, pgtest.Hold)
		done := make(chan error, 1)
		go func() {
			done <- db.Commit(ctx, &kv.Commit{ID: id, Ops: []kv.Op{set("a", strconv.Itoa(i+1))},
				OnApply: func() { t.Error("OnApply was called") }})
		}()
		// What the proxy holds first may be for another connection, so the commit is looked for.
		await(t, func() bool {
			v, err := other.Get(ctx, []byte("a"), nil)
			return err != nil || string(v) == strconv.Itoa(i+1)
		})
		p.Cut(true)
		if err := <-done; !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Fatalf("Commit: got %v, want %v", err, kv.ErrUnknownOutcome)
		}
		p.Set(pgtest.Pass, pgtest.Pass)
		want := kv.OutcomeApplied
		if id == (kv.CommitID{}) {
			want = kv.OutcomeUnknown
		}
		for range 2 {
			if got, err := db.Outcome(ctx, id); got != want || err != nil {
				t.Errorf("Outcome(%x): got %v, %v, want %v", id[:1], got, err, want)
			}
		}
		// Without a retry a read may still meet a connection that was cut.
		await(t, func() bool {
			v, err := db.Get(ctx, []byte("a"), nil)
			return err == nil && string(v) == strconv.Itoa(i+1)
		})
	}
}

// With another try allowed a commit settles itself, whether it got there or not.
func TestCommitSettles(t *testing.T) {
	p, through := pgtest.NewProxy(t, newURL(t))
	db := openAt(t, through, &Options{Calls: 2})
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("n", "0")}}); err != nil {
		t.Fatal(err)
	}
	for i, keep := range [][2]pgtest.Flow{{pgtest.Pass, pgtest.Hold}, {pgtest.Hold, pgtest.Pass}, {pgtest.Pass, pgtest.Hold}} {
		p.Set(keep[0], keep[1])
		done := make(chan error, 1)
		var applied atomic.Int32
		go func() {
			done <- db.Commit(ctx, &kv.Commit{
				ID: kv.CommitID{byte(i + 1)}, Checks: []kv.Check{is("n", strconv.Itoa(i))},
				Ops: []kv.Op{set("n", strconv.Itoa(i+1))}, OnApply: func() { applied.Add(1) },
			})
		}()
		p.Await()
		p.Set(pgtest.Pass, pgtest.Pass)
		p.Cut(true)
		if err := <-done; err != nil || applied.Load() != 1 {
			t.Fatalf("commit %d: %v, OnApply called %d times", i, err, applied.Load())
		}
		wantGet(t, db, "n", strconv.Itoa(i+1))
	}
}

// A commit that waits for a lock ends with its context, and isn't applied.
func TestContextEndsCommit(t *testing.T) {
	db := open(t)
	db.grace = time.Minute // the server's answer is what this is about
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "0"), set("b", "0")}}); err != nil {
		t.Fatal(err)
	}
	other, err := db.connect(t)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if err := other.simple(ctx, "begin; select * from "+quote(db.target.schema)+".kv where key = 'a' for update"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- db.Commit(soon, &kv.Commit{ID: kv.CommitID{1}, Checks: []kv.Check{is("a", "0")}, Ops: []kv.Op{set("b", "1")}})
	}()
	await(t, func() bool {
		return pgtest.Shared(t).SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%"+db.target.schema+"%'") != "0"
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, kv.ErrUnknownOutcome) {
		t.Errorf("Commit: got %v, want %v", err, context.Canceled)
	}
	if got, err := db.Outcome(ctx, kv.CommitID{1}); got != kv.OutcomeNotApplied || err != nil {
		t.Errorf("Outcome: got %v, %v, want %v", got, err, kv.OutcomeNotApplied)
	}
	if err := other.simple(ctx, "rollback"); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "b", "0")
}

// However the wait for standbys is ended, from outside or by a context, the commit must
// not look durable.
func TestNoStandby(t *testing.T) {
	t.Parallel()
	n := pgtest.Start(t)
	db := openAt(t, n.URL(patient), &Options{RetryFor: -1})
	n.SQL(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	n.SQL(t, "SELECT pg_reload_conf()")
	await(t, func() bool { return n.SQL(t, "SHOW synchronous_standby_names") == "*" })
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "applied")}, Durability: kv.Applied}); err != nil {
		t.Fatalf("a commit that waits for nothing: %v", err)
	}
	wantGet(t, db, "a", "applied")
	for _, end := range []string{"context", "cancel", "terminate"} {
		soon, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			done <- db.Commit(soon, &kv.Commit{ID: kv.CommitID{1}, Ops: []kv.Op{set("a", end)}})
		}()
		const waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
		await(t, func() bool { return n.SQL(t, "SELECT count(*) "+waiting) != "0" })
		switch end {
		case "context":
			cancel()
		case "cancel":
			n.SQL(t, "SELECT pg_cancel_backend(pid) "+waiting)
		case "terminate":
			n.SQL(t, "SELECT pg_terminate_backend(pid) "+waiting)
		}
		if err := <-done; !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("%s: got %v, want %v", end, err, kv.ErrUnknownOutcome)
		}
		cancel()
	}
	n.SQL(t, "ALTER SYSTEM RESET synchronous_standby_names")
	n.SQL(t, "SELECT pg_reload_conf()")
	if got, err := db.Outcome(ctx, kv.CommitID{1}); got != kv.OutcomeApplied || err != nil {
		t.Errorf("Outcome: got %v, %v, want %v", got, err, kv.OutcomeApplied)
	}
}

// A server whose default is not to wait must still wait for what is Durable.
func TestDurableByDefault(t *testing.T) {
	t.Parallel()
	n := pgtest.Start(t, "synchronous_commit=off")
	db := openAt(t, n.URL(""), nil)
	for _, p := range []*pool{db.writes, db.reads, db.pins} {
		c, err := p.take(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := c.one(ctx, "show synchronous_commit"); got != "on" || err != nil {
			t.Errorf("synchronous_commit is %s, %v", got, err)
		}
		p.give(c)
	}
}

// Snapshots end with their connections, and say so; the next ones are fine.
func TestSnapshotLost(t *testing.T) {
	url := newURL(t)
	db := openAt(t, url, nil)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1")}}); err != nil {
		t.Fatal(err)
	}
	s, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wantGet(t, s, "a", "1")
	pgtest.Shared(t).SQL(t, fmt.Sprintf("SELECT pg_terminate_backend(%d, 60000)", s.(*snapshot).c.pg.PID()))
	for range 2 {
		if _, err := s.Get(ctx, []byte("a"), nil); !errors.Is(err, errSnapshotLost) {
			t.Errorf("Get: got %v, want %v", err, errSnapshotLost)
		}
		if err := exhaust(s, kv.Range{}); !errors.Is(err, errSnapshotLost) {
			t.Errorf("Scan: got %v, want %v", err, errSnapshotLost)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wantGet(t, again, "a", "1")
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// A reader that gives up leaves the snapshot to the others.
func TestSnapshotOutlivesReader(t *testing.T) {
	p, through := pgtest.NewProxy(t, newURL(t))
	db := openAt(t, through, nil)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("a", "1")}}); err != nil {
		t.Fatal(err)
	}
	s, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.Set(pgtest.Hold, pgtest.Pass)
	soon, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.Get(soon, []byte("a"), nil)
		done <- err
	}()
	p.Await()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Get: got %v, want %v", err, context.Canceled)
	}
	p.Resume()
	wantGet(t, s, "a", "1")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Backends are killed all the time: a counter must show exactly the acknowledged
// increments, and no caller may see an error.
func TestKilledBackends(t *testing.T) {
	t.Parallel()
	db := open(t)
	n := pgtest.Shared(t)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("n", "0")}}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var commits atomic.Int64
	for w := range 6 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := increment(db, w, i); err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				commits.Add(1)
			}
		})
	}
	kills := testkit.Pick(20, 20, 200)
	for range kills {
		n.SQL(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'greenroom' AND query LIKE '%`+db.target.schema+`%' ORDER BY random() LIMIT 2`)
	}
	close(stop)
	wg.Wait()
	wantGet(t, db, "n", strconv.FormatInt(commits.Load(), 10))
	t.Logf("%d commits, %d times two backends killed", commits.Load(), kills)
}

// increment adds one to the counter, however often that conflicts.
func increment(db *DB, worker, i int) error {
	for try := 0; ; try++ {
		v, err := db.Get(ctx, []byte("n"), nil)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(v))
		if err != nil {
			return err
		}
		err = db.Commit(ctx, &kv.Commit{
			ID:         kv.CommitID{byte(worker + 1), byte(i >> 8), byte(i), byte(try >> 8), byte(try)},
			Checks:     []kv.Check{is("n", string(v))},
			Ops:        []kv.Op{set("n", strconv.Itoa(n+1))},
			Durability: kv.Durability(i % 2),
		})
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
}

// The server dies and comes back: what was acknowledged as durable is there.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	n := pgtest.Start(t)
	db := openAt(t, n.URL(""), &Options{RetryFor: time.Minute})
	var acked atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				c := &kv.Commit{ID: kv.CommitID{byte(w + 1), byte(i >> 16), byte(i >> 8), byte(i)},
					Checks: []kv.Check{absent(fmt.Sprintf("%d/%d", w, i))}, Ops: []kv.Op{set(fmt.Sprintf("%d/%d", w, i), "x")}}
				if err := db.Commit(ctx, c); err != nil {
					t.Errorf("commit %d of %d: %v", i, w, err)
					return
				}
				acked.Add(1)
			}
		})
	}
	for range 2 {
		before := acked.Load()
		await(t, func() bool { return acked.Load() >= before+200 || t.Failed() })
		n.Kill(t)
		n.Start(t)
	}
	before := acked.Load()
	await(t, func() bool { return acked.Load() >= before+200 || t.Failed() })
	close(stop)
	wg.Wait()
	count := int64(0)
	for _, err := range db.Scan(ctx, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != acked.Load() {
		t.Errorf("%d commits were acknowledged, %d are there", acked.Load(), count)
	}
}
