package vfs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/vfs"
)

// The disk is pebblekv.CrashDisk because no package but pebblekv may import Pebble,
// tests neither, and none below vfs may know of vfs.

var crashSeed = flag.Uint64("crashseed", 0, "seed of TestPebbleCrash; 0 takes a random one")

// TestPebbleCrash runs random transactions on Pebble and crashes the disk under them
// at random points, a random part of what isn't synced lost. What is left must be the
// state after one of the transactions from the last that was acknowledged before the
// crash to the last that had begun by its end.
func TestPebbleCrash(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./vfs -run TestPebbleCrash -crashseed %d", seed)
	want := testkit.Pick(8, 80, 240)
	clones, old, unacked, recovered := 0, 0, 0, 0
	for round := 0; clones < want && !t.Failed(); round++ {
		limits := []batch.Limits{{Entries: 16}, oneBatch, {AtomicBatches: 1}}[round%3]
		p := newPebbleCrash(t, limits, rand.New(rand.NewPCG(seed, uint64(round))))
		for _, c := range p.run(t) {
			i, journal := p.check(t, c)
			clones++
			switch {
			case i > c.acked:
				unacked++
			case c.started > c.acked:
				old++
			}
			if journal {
				recovered++
			}
		}
	}
	t.Logf("%d clones: %d within a transaction that was undone, %d within one that was there, %d rolled a journal back",
		clones, old, unacked, recovered)
	// Among few clones a kind may be missing by chance.
	if clones >= 240 && (old == 0 || unacked == 0 || recovered == 0) {
		t.Error("some kind of crash was not met")
	}
}

// A pebbleCrash is one store on Pebble, and its history.
type pebbleCrash struct {
	limits batch.Limits
	rnd    *rand.Rand
	disk   *pebblekv.CrashDisk
	log    []string // the transactions
	states []string // states[i] is the database after i of them
	// Transactions that have begun, and those that were acknowledged.
	started, acked atomic.Int64
}

// A clone is what a crash left, and what is known about it.
type clone struct {
	disk           *pebblekv.CrashDisk
	unsynced       int
	acked, started int // before it began, and after it was made
}

// smallPebble makes flushes and compactions happen all the time.
var smallPebble = &pebblekv.Options{MemtableBytes: 256 << 10, CacheBytes: 1 << 20}

func newPebbleCrash(t *testing.T, limits batch.Limits, rnd *rand.Rand) *pebbleCrash {
	t.Helper()
	return &pebbleCrash{limits: limits, rnd: rnd, disk: pebblekv.NewCrashDisk()}
}

// transactions are the kinds of them; a number is put in.
var transactions = []string{
	"insert into t(b) values (randomblob(%d))",
	"update t set b = randomblob(1 + %d) where a = (select max(a) from t)",
	"insert into t(b) select randomblob(2000) from generate_series(1, 1 + %d %% 60)",
	"update t set b = randomblob(%d)",
	"update t set b = randomblob(1500) where a %% (1 + %d %% 7) = 0",
	"delete from t where a %% (2 + %d %% 3) = 0",
	"begin; delete from t where a > 60; insert into t(b) select randomblob(3000) from generate_series(1, 20 + %d %% 20); commit",
	"vacuum -- %d",
	"create index if not exists i on t(b) -- %d",
	"drop index if exists i -- %d",
}

// run runs the transactions in this goroutine, and has another crash the disk
// meanwhile. Commits of the engine say roughly when, and chance does the rest.
func (p *pebbleCrash) run(t *testing.T) []clone {
	t.Helper()
	db, err := p.disk.Open(smallPebble)
	if err != nil {
		t.Fatal(err)
	}
	engine := faultkv.New(db)
	r := openRig(t, engine, p.limits)
	pool, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{MaxConns: 1, Pragmas: []string{"cache_size=20"}})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, table)
	p.states = []string{digest(t, pool)}

	now, clones := make(chan struct{}, 1), make(chan []clone)
	go p.crash(now, clones, rand.New(rand.NewPCG(p.rnd.Uint64(), 1)))
	pick := rand.New(rand.NewPCG(p.rnd.Uint64(), 2))
	engine.Hook(func(op faultkv.Op) error {
		// One goroutine commits. It lets the other one have its turn, which on one core
		// it would hardly get before a transaction is over.
		if (op.Point == faultkv.BeforeCommit || op.Point == faultkv.AfterCommit) && pick.IntN(8) == 0 {
			select {
			case now <- struct{}{}:
			default: // one is being made
			}
			for range pick.IntN(100) {
				runtime.Gosched()
			}
		}
		return nil
	})
	for range 24 {
		sql := fmt.Sprintf(transactions[p.rnd.IntN(len(transactions))], p.rnd.IntN(3000))
		p.log = append(p.log, sql)
		p.started.Add(1)
		exec(t, pool, sql)
		p.acked.Add(1)
		p.states = append(p.states, digest(t, pool))
	}
	close(now)
	made := <-clones
	for _, c := range []func() error{pool.Close, r.Actor.Close, r.Store.Close, engine.Close} {
		if err := c(); err != nil {
			t.Error(err)
		}
	}
	return made
}

// crash makes clones until now is closed.
func (p *pebbleCrash) crash(now <-chan struct{}, done chan<- []clone, rnd *rand.Rand) {
	var clones []clone
	for range now {
		for range rnd.IntN(100) {
			runtime.Gosched()
		}
		c := clone{unsynced: []int{0, 100, rnd.IntN(101)}[rnd.IntN(3)]}
		c.acked = int(p.acked.Load())
		c.disk = p.disk.Crash(c.unsynced, rnd)
		c.started = int(p.started.Load())
		clones = append(clones, c)
	}
	done <- clones
}

// check opens what a crash left. It returns how many transactions are in it, and
// whether a journal had to be rolled back.
func (p *pebbleCrash) check(t *testing.T, c clone) (n int, journal bool) {
	t.Helper()
	where := fmt.Sprintf("crash in %q, with %d %% of what was not synced", p.log[c.acked:c.started], c.unsynced)
	db, err := c.disk.Open(smallPebble)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	r := openRig(t, db, p.limits)
	pool, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	journal = pool.Stats().Recoveries > 0
	intact(t, pool)
	got := digest(t, pool)
	// Statements that change nothing leave the same state more than once.
	if n = slices.Index(p.states[c.acked:c.started+1], got); n < 0 {
		t.Errorf("%s: the state is not one of those from %d to %d, but number %d", where, c.acked, c.started, slices.Index(p.states, got))
	}
	exec(t, pool, "create table if not exists after_crash(a)")
	intact(t, pool)
	if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
		t.Errorf("%s: the actor believes %d bytes are used, its keys hold %d", where, used, counted)
	}
	sound(t, r, where)
	for _, c := range []func() error{pool.Close, r.Actor.Close, r.Store.Close, db.Close} {
		if err := c(); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	return c.acked + n, journal
}

// sound fails the test if a check of the store, and of the database's files, finds
// anything.
func sound(t *testing.T, r *fixture, where string) {
	t.Helper()
	for f, err := range r.Store.Check(t.Context()) {
		t.Errorf("%s: %+v, %v", where, f, err)
	}
	snap, err := r.Actor.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range vfs.Check(t.Context(), snap, &vfs.CheckOptions{FilesOnly: true}) {
		t.Errorf("%s: %+v, %v", where, f, err)
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
}

// digest stands for everything that SQL can see of t and its index.
func digest(t *testing.T, db *vfs.DB) string {
	t.Helper()
	h := sha256.New()
	rows, err := db.QueryContext(context.Background(), "select name, sql from sqlite_schema where name <> 'after_crash' union all select a, b from t not indexed order by 1")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var a, b any
		if err := rows.Scan(&a, &b); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%v %v\n", a, b)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}
