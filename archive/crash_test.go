package archive

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// newCrashing returns a model whose machine and whose bucket can fail.
func newCrashing(t *testing.T, seed uint64) (*model, *buckettest.Faulty) {
	b := buckettest.NewFaulty(buckettest.NewMemory(), nil)
	return newOnCrashDisk(t, seed, b), b
}

// newOnCrashDisk returns a model whose machine can fail.
func newOnCrashDisk(t *testing.T, seed uint64, b bucket.Bucket) *model {
	m := newModel(t, seed, b)
	m.stop()
	m.disk = pebblekv.NewCrashDisk()
	m.opts.baseBytes, m.opts.mergeRuns = 30_000, 4
	m.open()
	return m
}

// TestPrefixes tests that at each moment between two calls of the bucket the last state of each lineage is one that the store
// had, no older than it was at a moment before; each state in between is there, too.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	m, b := newCrashing(t, 11)
	memory := b.Bucket.(*buckettest.Memory)
	var moments []*buckettest.Memory
	b.Set(func(op, name string) buckettest.Fault {
		if op == "put" || op == "delete" {
			moments = append(moments, memory.Copy())
		}
		return buckettest.None
	})
	m.commit(20)
	m.start()
	m.sync()
	for range testkit.Pick(20, 40, 200) {
		m.commit(10)
		m.sync()
	}
	if err := m.w.Close(); err != nil {
		t.Fatal(err)
	}
	moments = append(moments, memory.Copy())
	newest, opened := uint64(0), 0
	for i, at := range moments {
		a, err := Open(t.Context(), at)
		if errors.Is(err, ErrNotArchive) && newest == 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		lines, err := a.Lines(t.Context())
		if err != nil {
			t.Fatalf("moment %d: %v", i, err)
		}
		for _, l := range lines {
			if l.Last.Number < newest {
				t.Fatalf("moment %d: the last state is %d, it was %d", i, l.Last.Number, newest)
			}
			newest = l.Last.Number
			for _, n := range []uint64{newest, l.First.Number + m.rnd.Uint64N(newest-l.First.Number+1)} {
				if got := look(t, a, a.manifest.bookmark(l.Number, n)); !maps.Equal(got, m.states[n]) {
					t.Fatalf("moment %d: as of %d of %d it has %d rows, want %d", i, n, newest, len(got), len(m.states[n]))
				}
				opened++
			}
		}
	}
	if newest != m.db.Records().Last() || opened < 50 {
		t.Errorf("the last state is %d of %d, %d were looked into", newest, m.db.Records().Last(), opened)
	}
	t.Logf("%d moments, %d states", len(moments), opened)
}

// TestFaults tests that after calls of the bucket that fail, are done all the same, late or twice, and after crashes of the machine, each
// state that can be restored is one that the store had, and that all is there in the end.
func TestFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testkit.Pick(3, 5, 60)) {
		m, b := newCrashing(t, 100+seed)
		rnd := rand.New(rand.NewPCG(seed, 3))
		locked := make(chan struct{}, 1)
		b.Set(func(op, name string) buckettest.Fault {
			locked <- struct{}{}
			defer func() { <-locked }()
			switch {
			case rnd.IntN(4) > 0:
				return buckettest.None
			case op == "get" || op == "list":
				return buckettest.Refused
			}
			return buckettest.Fault(rnd.IntN(5))
		})
		m.lives(seed, 6, 20*time.Millisecond)
		b.Set(nil)
		m.goesOn(seed)
	}
}

// lives runs the store and its Writer through some lives, each of which ends with a crash of the machine, and calls Sync now and then, for
// at most so long.
func (m *model) lives(seed uint64, n int, patience time.Duration) {
	m.t.Helper()
	for range n {
		m.start()
		for range 8 {
			m.commit(10)
			if m.rnd.IntN(2) == 0 {
				ctx, cancel := context.WithTimeout(m.t.Context(), time.Duration(m.rnd.Int64N(int64(patience))))
				if err := m.w.Sync(ctx); err != nil && ctx.Err() == nil {
					m.t.Fatalf("seed %d: %v", seed, err)
				}
				cancel()
			}
		}
		m.crash()
	}
}

// goesOn tests that a Writer stores all there is when nothing fails any more, and that every state is one that the store had.
func (m *model) goesOn(seed uint64) {
	m.t.Helper()
	m.start()
	m.sync()
	m.everyState(seed)
	if err := m.w.Close(); err != nil {
		m.t.Fatalf("seed %d: %v", seed, err)
	}
}

// TestCrashedWrites has the machine crash before each write to its disk, of the store's and of its Writer's: the store then is one that it was, and its
// Writer goes on with the same lineage, in which each state is one that the store had.
func TestCrashedWrites(t *testing.T) {
	t.Parallel()
	m, b := newCrashing(t, 51)
	memory := b.Bucket.(*buckettest.Memory)
	type moment struct {
		bucket *buckettest.Memory
		disk   *pebblekv.CrashDisk
	}
	var moments []moment
	n, every := 0, testkit.Pick(40, 1, 1)
	locked := make(chan struct{}, 1)
	rnd := rand.New(rand.NewPCG(51, 7))
	m.commit(10)
	m.disk.OnWrite(func() {
		locked <- struct{}{}
		defer func() { <-locked }()
		if n++; n%every == 0 {
			// In this order: what a bucket has is on the disk.
			b := memory.Copy()
			moments = append(moments, moment{b, m.disk.Crash(rnd.IntN(101), rnd)})
		}
	})
	m.start()
	for range 6 {
		m.commit(10)
		m.sync()
	}
	if err := m.w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.disk.OnWrite(nil)
	for i, at := range moments {
		c := *m
		c.states = maps.Clone(m.states)
		c.disk, c.bucket, c.w = at.disk, at.bucket, nil
		c.open()
		last := c.db.Records().Last()
		if c.rows = maps.Clone(m.states[last]); !maps.Equal(rowsOf(t, c.db), c.rows) {
			t.Fatalf("write %d: the store isn't what it was with commit %d", (i+1)*every, last)
		}
		c.commit(2)
		c.goesOn(uint64(i))
		if lines, err := c.archive().Lines(t.Context()); err != nil || len(lines) != 1 {
			t.Errorf("write %d: %d lineages, %v", (i+1)*every, len(lines), err)
		}
		c.stop()
	}
	if len(moments) < 4 {
		t.Errorf("%d moments of %d writes", len(moments), n)
	}
	t.Logf("%d moments of %d writes", len(moments), n)
}

// TestCrashedBeginning tests that a machine that crashes at any moment while its store's first Writer begins leaves a store that
// goes on with its own backups, in one lineage, whether the last change of the bucket was made or not.
func TestCrashedBeginning(t *testing.T) {
	t.Parallel()
	for _, commits := range []int{0, 30} {
		for _, fault := range []buckettest.Fault{buckettest.Refused, buckettest.Lost} {
			for last, over := 1, false; !over; last++ {
				m, b := newCrashing(t, uint64(300+last))
				m.commit(commits)
				ctx, broken := context.WithCancel(t.Context())
				n := 0
				b.Set(func(op, name string) buckettest.Fault {
					if op == "put" {
						n++
					}
					switch {
					case n < last:
						return buckettest.None
					case n == last && op == "put":
						broken()
						return fault
					}
					return buckettest.Refused
				})
				m.start()
				m.commit(3)
				if err := m.w.Sync(ctx); err == nil {
					over = true // it takes fewer puts
				} else if ctx.Err() == nil {
					t.Fatalf("%d commits, put %d %v: %v", commits, last, fault, err)
				}
				m.crash()
				broken()
				b.Set(nil)
				m.commit(10)
				m.goesOn(uint64(last))
			}
		}
	}
}

// TestLostEpoch tests that a Writer that has begun, and wasn't told so, doesn't take what it finds for another store's.
func TestLostEpoch(t *testing.T) {
	m, b := newCrashing(t, 400)
	lost := false
	b.Set(func(op, name string) buckettest.Fault {
		if op == "put" && name == epochName(1) && !lost {
			lost = true
			return buckettest.Lost
		}
		return buckettest.None
	})
	m.commit(5)
	m.goesOn(0)
}

// everyState tests some states of every lineage, and that the last one is the store's.
func (m *model) everyState(seed uint64) {
	a := m.archive()
	lines, err := a.Lines(m.t.Context())
	if err != nil {
		m.t.Fatalf("seed %d: %v", seed, err)
	}
	var all []string
	for _, l := range lines {
		all = append(all, l.First.String()+" to "+l.Last.String())
		for _, n := range []uint64{l.First.Number, l.Last.Number, l.First.Number + m.rnd.Uint64N(l.Last.Number-l.First.Number+1)} {
			if got := look(m.t, a, a.manifest.bookmark(l.Number, n)); !maps.Equal(got, m.states[n]) {
				m.t.Fatalf("seed %d: as of %d of %v it has %d rows, want %d", seed, n, l, len(got), len(m.states[n]))
			}
		}
	}
	if last := lines[len(lines)-1].Last.Number; last != m.db.Records().Last() {
		m.t.Fatalf("seed %d: the last state is %d of %d", seed, last, m.db.Records().Last())
	}
	if len(lines) != 1 {
		m.t.Errorf("seed %d: the history has gaps: %s", seed, strings.Join(all, ", "))
	}
}

// TestBaseDiskFull tests that a base which the disk has no room for doesn't end the backup.
func TestBaseDiskFull(t *testing.T) {
	m, _ := newCrashing(t, 12)
	m.commit(20)
	m.start()
	m.sync()
	m.disk.SetFull(true)
	if _, err := m.w.makeBase(t.Context(), known{}, 0); !errors.Is(err, errNoBase) {
		t.Errorf("a base on a full disk: %v", err)
	}
	m.disk.SetFull(false)
	m.everyState(12)
}

// TestDamagedLastBase tests that a Writer goes on if the last base is damaged, and makes another one.
func TestDamagedLastBase(t *testing.T) {
	m, b := newCrashing(t, 13)
	m.commit(20)
	m.start()
	m.sync()
	if err := m.w.Close(); err != nil {
		t.Fatal(err)
	}
	bases, err := readBases(t.Context(), b, 1)
	if err != nil || len(bases) == 0 {
		t.Fatal(bases, err)
	}
	if err := bucket.PutBytes(t.Context(), b, bases[len(bases)-1].name, []byte("damage"), bucket.Replacing); err != nil {
		t.Fatal(err)
	}
	m.start()
	m.commit(20)
	m.sync()
	if err := m.w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := m.archive()
	mark := a.manifest.bookmark(m.w.Status().Line, m.db.Records().Last())
	if got := look(t, a, mark); !maps.Equal(got, m.rows) {
		t.Errorf("the last state has %d rows, want %d", len(got), len(m.rows))
	}
}
