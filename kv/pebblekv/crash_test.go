package pebblekv

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// A history is a sequence of random commits, and what the store holds after each.
// Every commit writes its number under "n", so that a state names itself.
type history struct {
	commits []*kv.Commit
	states  []map[string]string // states[i] is the state after i commits
}

func newHistory(rnd *rand.Rand, commits int) *history {
	h := &history{states: []map[string]string{{}}}
	for i := 1; i <= commits; i++ {
		c := &kv.Commit{Durability: kv.Durability(rnd.IntN(2))}
		state := maps.Clone(h.states[i-1])
		set := func(k, v string) {
			c.Ops = append(c.Ops, kv.Set([]byte(k), []byte(v)))
			state[k] = v
		}
		set("n", strconv.Itoa(i))
		for range rnd.IntN(6) {
			k := fmt.Sprintf("k%02d", rnd.IntN(40))
			switch rnd.IntN(8) {
			case 0:
				end := fmt.Sprintf("k%02d", rnd.IntN(41))
				c.Ops = append(c.Ops, kv.ClearRange([]byte(k), []byte(end)))
				maps.DeleteFunc(state, func(have, _ string) bool { return have >= k && have < end })
			case 1:
				c.Ops = append(c.Ops, kv.Clear([]byte(k)))
				delete(state, k)
			case 2, 3:
				v := make([]byte, rnd.IntN(3)*rnd.IntN(20_000))
				for j := range v {
					v[j] = byte(rnd.Uint32())
				}
				set(k, string(v))
			default: // a little is changed
				if v := []byte(state[k]); len(v) > 0 {
					v[rnd.IntN(len(v))]++
					set(k, string(v))
				}
			}
		}
		h.commits = append(h.commits, c)
		h.states = append(h.states, state)
	}
	return h
}

// check opens what a crash left and returns how many commits are in it: the
// state must be the one after exactly that many.
func (h *history) check(t testing.TB, left vfs.FS) int {
	t.Helper()
	reading := *tiny
	reading.ReadOnly = true
	read := map[string]string{}
	switch db, err := open("store", &reading, left); {
	case err == nil:
		read = all(t, db)
		if err := db.Close(); err != nil {
			t.Errorf("Close of what is only read: %v", err)
		}
	case !errors.Is(err, kv.ErrNoStore): // which was never made
		t.Fatalf("opening after a crash for reading: %v", err)
	}
	db, err := open("store", tiny, left)
	if err != nil {
		t.Fatalf("opening after a crash: %v", err)
	}
	got := all(t, db)
	if err := db.Close(); err != nil {
		t.Errorf("Close after a crash: %v", err)
	}
	if !maps.Equal(read, got) {
		t.Fatalf("a store opened for reading sees commit %q, and the owner %q", read["n"], got["n"])
	}
	n := 0
	if s, ok := got["n"]; ok {
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(got, h.states[n]) {
		t.Fatalf("the store says that it holds the first %d commits, but it doesn't", n)
	}
	return n
}

// TestCrashAfterCommit crashes after every commit and loses nothing, everything, or a random part
// of what wasn't synced. What is left must be a prefix of the history, with every acknowledged
// durable commit.
func TestCrashAfterCommit(t *testing.T) {
	t.Parallel()
	seeds, step := testkit.Pick[uint64](1, 1, 3), testkit.Pick(6, 1, 1)
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			h := newHistory(rnd, 120)
			mem := vfs.NewCrashableMem()
			db, err := open("store", tiny, mem)
			if err != nil {
				t.Fatal(err)
			}
			durable := 0
			for i, c := range h.commits {
				if err := db.Commit(ctx, c); err != nil {
					t.Fatal(err)
				}
				if c.Durability == kv.Durable {
					durable = i + 1
				} else if i%10 == 0 {
					if err := db.Sync(ctx, db.Incarnation()); err != nil {
						t.Fatal(err)
					}
					durable = i + 1
				}
				if i%step != 0 {
					continue
				}
				for _, percent := range []int{0, 1 + rnd.IntN(99), 100} {
					left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rnd})
					if n := h.check(t, left); n < durable || n > i+1 {
						t.Fatalf("crash with %d %% of unsynced data after commit %d: %d commits left, of %d durable ones", percent, i+1, n, durable)
					}
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCrashAtWrite crashes just before writing operations of the disk, of the
// log, of flushes and compactions, and of creating the store.
func TestCrashAtWrite(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	h := newHistory(rnd, 300)
	mem := vfs.NewCrashableMem()
	d := newDisk(mem)
	var durable, ops atomic.Int64
	type crash struct {
		left    *vfs.MemFS
		durable int64
		op      errorfs.Op
	}
	crashes := make(chan crash, 10_000)
	d.set(func(op errorfs.Op) error {
		if n := ops.Add(1); !writes(op) || n > 60 && n%9 != 0 {
			return nil
		}
		// Read before the clone is made: what was durable then is in it.
		sure := durable.Load()
		percent := int(ops.Load()) % 3 * 50
		cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(sure), uint64(percent)))}
		crashes <- crash{mem.CrashClone(cfg), sure, op}
		return nil
	})
	db, err := open("store", tiny, d)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range h.commits {
		if err := db.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
		if c.Durability == kv.Durable {
			durable.Store(int64(i + 1))
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	close(crashes)
	n := 0
	for c := range crashes {
		if left := h.check(t, c.left); int64(left) < c.durable {
			t.Fatalf("crash before %v of %s: %d commits left, of %d durable ones", c.op.Kind, c.op.Path, left, c.durable)
		}
		n++
	}
	if n < 100 {
		t.Errorf("only %d crashes were tried", n)
	}
}

// TestCrashAtOpen crashes a store whose newest commits are in the log alone, and then crashes it
// again at each write of the next Open. Nothing is lost, and a store opened for reading alone loses
// nothing either.
func TestCrashAtOpen(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 11))
	h := newHistory(rnd, 40)
	mem := vfs.NewCrashableMem()
	var db *DB
	var err error
	for range 5 { // so that Pebble's numbers are larger than any other
		if db != nil {
			err = db.Close()
		}
		if err == nil {
			db, err = open("store", nil, mem)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range h.commits {
		if err := db.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	crashed := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rnd}
	left := mem.CrashClone(crashed)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	d := newDisk(left)
	var mu sync.Mutex
	var crashes []*vfs.MemFS
	d.set(func(op errorfs.Op) error {
		if writes(op) {
			mu.Lock()
			defer mu.Unlock()
			crashes = append(crashes, left.CrashClone(crashed), left.CrashClone(vfs.CrashCloneCfg{}))
		}
		return nil
	})
	if db, err = open("store", tiny, d); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for i, fs := range crashes {
		if n := h.check(t, fs); n != len(h.commits) {
			t.Fatalf("crash %d of %d: %d commits left, of %d", i, len(crashes), n, len(h.commits))
		}
	}
	if len(crashes) < 40 {
		t.Errorf("only %d crashes were tried", len(crashes))
	}
}

// TestCrashAtClose crashes a store at each write of closing it: nothing that was
// durable is lost, and nothing at all once it is closed.
func TestCrashAtClose(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 13))
	h := newHistory(rnd, 40)
	mem := vfs.NewCrashableMem()
	d := newDisk(mem)
	db, err := open("store", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	durable := 0
	for i, c := range h.commits {
		if err := db.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
		if c.Durability == kv.Durable {
			durable = i + 1
		}
	}
	var mu sync.Mutex
	var crashes []*vfs.MemFS
	d.set(func(op errorfs.Op) error {
		if writes(op) {
			mu.Lock()
			defer mu.Unlock()
			for _, percent := range []int{0, 50, 100} {
				crashes = append(crashes, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rnd}))
			}
		}
		return nil
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := h.check(t, mem.CrashClone(vfs.CrashCloneCfg{})); n != len(h.commits) {
		t.Errorf("a store that was closed has %d commits of %d", n, len(h.commits))
	}
	for i, fs := range crashes {
		if n := h.check(t, fs); n < durable {
			t.Fatalf("crash %d of %d: %d commits left, of %d durable ones", i, len(crashes), n, durable)
		}
	}
	if len(crashes) < 20 {
		t.Errorf("only %d crashes were tried", len(crashes))
	}
}

// TestMakingCutOff: a crash in the making of a store may leave the marker without its MANIFEST, which is not a store then; beside rows of one
// a MANIFEST is lost.
func TestMakingCutOff(t *testing.T) {
	left := func(rows bool) vfs.FS {
		disk := vfs.NewMem()
		names := []string{"marker.manifest.000001.MANIFEST-000001", "LOCK"}
		if rows {
			names = append(names, "000004.sst")
		}
		if err := disk.MkdirAll("store/"+logDir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			f, err := disk.Create("store/"+name, vfs.WriteCategoryUnspecified)
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return disk
	}
	disk := left(false)
	for _, o := range []Options{{ReadOnly: true}, {MustExist: true}} {
		if _, err := open("store", &o, disk); !errors.Is(err, kv.ErrNoStore) {
			t.Errorf("with %+v: %v, want %v", o, err, kv.ErrNoStore)
		}
	}
	db, err := open("store", tiny, disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Commit(ctx, numbered(1)), db.Close()); err != nil {
		t.Error(err)
	}
	for _, o := range []Options{{ReadOnly: true}, {}} {
		if _, err := open("store", &o, left(true)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("with rows and %+v: %v, want %v", o, err, kv.ErrCorrupt)
		}
	}
}
