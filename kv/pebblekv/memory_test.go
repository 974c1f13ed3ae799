package pebblekv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
)

// patchModel is a store whose values are changed a little each time, and what they should be.
type patchModel struct {
	*testing.T
	db   *DB
	disk *vfs.MemFS
	opts *Options
	rng  *rand.Rand
	want map[string][]byte
}

func (m *patchModel) open() {
	m.Helper()
	db, err := open("store", m.opts, m.disk)
	if err != nil {
		m.Fatal(err)
	}
	m.db = db
}

func (m *patchModel) key() []byte { return fmt.Append(nil, "k", m.rng.IntN(12)) }

// next returns a new value of a key: most often one that differs in little.
func (m *patchModel) next(key []byte) []byte {
	v := bytes.Clone(m.want[string(key)])
	switch n := m.rng.IntN(20); {
	case n == 0:
		v = make([]byte, m.rng.IntN(2*workaround.MinPatched))
	case n == 1:
		v = make([]byte, workaround.MaxPatched-3+m.rng.IntN(6))
	case n == 2 && len(v) > 0:
		v = v[:m.rng.IntN(len(v))]
	case n == 3:
		v = append(v, make([]byte, m.rng.IntN(700))...)
	}
	for range m.rng.IntN(6) {
		if len(v) > 0 {
			v[m.rng.IntN(len(v))] = byte(m.rng.Uint32())
		}
	}
	return v
}

// step applies a commit.
func (m *patchModel) step() {
	c := &kv.Commit{Durability: kv.Applied}
	for range 1 + m.rng.IntN(4) {
		k := m.key()
		switch n := m.rng.IntN(40); {
		case n == 0:
			c.Ops = append(c.Ops, kv.Clear(k))
			delete(m.want, string(k))
		case n == 1:
			end := m.key()
			c.Ops = append(c.Ops, kv.ClearRange(k, end))
			for other := range m.want {
				if other >= string(k) && other < string(end) {
					delete(m.want, other)
				}
			}
		default:
			v := m.next(k)
			c.Ops = append(c.Ops, kv.Set(k, v))
			m.want[string(k)] = v
		}
	}
	if err := m.db.Commit(m.Context(), c); err != nil {
		m.Fatal(err)
	}
}

// compare reads everything in each way.
func (m *patchModel) compare(r kv.Reader) {
	m.Helper()
	for _, reverse := range []bool{false, true} {
		got := map[string][]byte{}
		for e, err := range r.Scan(m.Context(), kv.Range{Reverse: reverse}) {
			if err != nil {
				m.Fatal(err)
			}
			got[string(e.Key)] = bytes.Clone(e.Value)
		}
		if len(got) != len(m.want) {
			m.Errorf("%d rows, want %d", len(got), len(m.want))
		}
		for k, v := range m.want {
			if !bytes.Equal(got[k], v) {
				m.Errorf("reverse %v: %s is %d bytes, want %d", reverse, k, len(got[k]), len(v))
			}
		}
	}
	for range 2 { // snapshots read in another way the second time
		for i := range 12 {
			k := fmt.Append(nil, "k", i)
			want, there := m.want[string(k)]
			got, err := r.Get(m.Context(), k, nil)
			if there && (err != nil || !bytes.Equal(got, want)) || !there && !errors.Is(err, kv.ErrNotFound) {
				m.Errorf("%s is %d bytes, %v, want %d: %v", k, len(got), err, len(want), there)
			}
		}
	}
}

// TestPatchModel changes values a little, with flushes, compactions, snapshots, checkpoints and
// restarts in between, and compares all that is read with what was written.
func TestPatchModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		m := &patchModel{T: t, disk: vfs.NewMem(), rng: rand.New(rand.NewPCG(seed, 9)), want: map[string][]byte{}}
		m.opts = &Options{MemtableBytes: 64 << 10, PatchBytes: []int{0, 300_000, 20_000}[seed%3]}
		m.open()
		for range 40 {
			for range 20 {
				m.step()
			}
			snap, err := m.db.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m.compare(snap)
			m.compare(m.db)
			before := m.want
			m.want = cloned(before)
			for range 10 {
				m.step()
			}
			switch m.rng.IntN(6) {
			case 0:
				if err := m.db.store.db.Flush(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := m.db.store.db.Compact(t.Context(), []byte("k"), []byte("l"), false); err != nil {
					t.Fatal(err)
				}
			}
			after := m.want
			m.want = before
			m.compare(snap)
			m.want = after
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
			if m.rng.IntN(5) == 0 {
				if err := m.db.Close(); err != nil {
					t.Fatal(err)
				}
				m.open()
				m.compare(m.db)
			}
			m.bounded()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		if err := m.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func cloned(m map[string][]byte) map[string][]byte {
	c := map[string][]byte{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// bounded holds the memory against its bound, and what it says it is.
func (m *patchModel) bounded() {
	r := m.db.commits.memory
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		size := 0
		for k, row := range s.rows {
			size += len(k) + len(row.value) + recentEntry
			if row.patches > workaround.MaxPatches {
				m.Errorf("%s has %d patches", k, row.patches)
			}
		}
		if size != s.bytes || size > r.limit {
			m.Errorf("%d rows of %d bytes are remembered, counted as %d, at most %d", len(s.rows), size, s.bytes, r.limit)
		}
		s.mu.Unlock()
	}
}

// TestPatchConcurrent: several goroutines change the same values at once.
func TestPatchConcurrent(t *testing.T) {
	db, err := open("store", &Options{MemtableBytes: 1 << 20}, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	for g := range 4 {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		all.Go(func() {
			for range 500 {
				k := fmt.Append(nil, "k", rng.IntN(3))
				for {
					old, err := db.Get(t.Context(), k, nil)
					if err != nil && !errors.Is(err, kv.ErrNotFound) {
						t.Error(err)
						return
					}
					ch := kv.Check{Key: k, Value: old, Absent: err != nil}
					v := slices.Grow(bytes.Clone(old), 4096)[:4096]
					v[rng.IntN(len(v))]++
					ops := []kv.Op{kv.Set(k, v)}
					if rng.IntN(2) == 0 { // another value first
						first := bytes.Clone(v)
						first[rng.IntN(len(first))] += 100
						ops = append([]kv.Op{kv.Set(k, first)}, ops...)
					}
					err = db.Commit(t.Context(), &kv.Commit{Checks: []kv.Check{ch}, Ops: ops, Durability: kv.Applied})
					if errors.Is(err, kv.ErrConflict) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					break
				}
				mu.Lock()
				counts[string(k)]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for k, want := range counts {
		v, err := db.Get(t.Context(), []byte(k), nil)
		if err != nil {
			t.Fatal(err)
		}
		sum := byte(0)
		for _, b := range v {
			sum += b
		}
		if sum != byte(want) {
			t.Errorf("%s was changed %d times, and is so by %d, modulo 256", k, want, sum)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPatchBytes counts what goes to the log: the difference, but for each seventeenth commit.
func TestPatchBytes(t *testing.T) {
	m := &meter{n: map[string]int64{}}
	db, err := open("store", &Options{Metrics: m}, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	page := make([]byte, 4096)
	logged := func() int64 { return m.of(metricLogBytes.Name) }
	whole := 0
	for i := range 1 + 3*(workaround.MaxPatches+1) {
		copy(page[i*30:], fmt.Sprintf("row %d of this table", i))
		was := logged()
		if err := db.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set([]byte("page"), page)}}); err != nil {
			t.Fatal(err)
		}
		switch n := logged() - was; {
		case n > int64(len(page)):
			whole++
		case n > 100:
			t.Errorf("commit %d: %d bytes", i, n)
		}
	}
	if whole != 4 {
		t.Errorf("the page was written whole %d times", whole)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRecentReads: a reader that sees one row of a commit sees all its others, wherever it reads
// them.
func TestRecentReads(t *testing.T) {
	db, err := open("store", &Options{MemtableBytes: 1 << 20}, vfs.NewMem())
	if err != nil {
		t.Fatal(err)
	}
	keys := [][]byte{[]byte("large"), []byte("small"), []byte("sometimes")}
	value := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	const commits = 3000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range commits {
			var ops []kv.Op
			for k, key := range keys {
				v := value(i)
				if k == 0 || k == 2 && i%3 > 0 {
					v = append(v, make([]byte, 4000)...)
				}
				ops = append(ops, kv.Set(key, v))
			}
			if err := db.Commit(t.Context(), &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var readers sync.WaitGroup
	for g := range 3 {
		readers.Go(func() {
			last := uint64(0)
			for i := g; ; i++ {
				v, err := db.Get(t.Context(), keys[i%3], nil)
				if errors.Is(err, kv.ErrNotFound) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				n := binary.BigEndian.Uint64(v)
				if n < last {
					t.Errorf("%s is of commit %d, and %d was seen", keys[i%3], n, last)
					return
				}
				if last = n; n == commits-1 {
					return
				}
				select {
				case <-done:
					if t.Failed() {
						return
					}
				default:
				}
			}
		})
	}
	readers.Wait()
	<-done
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPatchTwice: if a commit sets a key twice, the second value isn't a patch of the stored one.
func TestPatchTwice(t *testing.T) {
	m := newMemory(1 << 20)
	page := make([]byte, 4096)
	ops := []kv.Op{kv.Set([]byte("k"), page), kv.Set([]byte("other"), page), kv.Set([]byte("k"), page)}
	e := new(encoding)
	m.landed(&kv.Commit{Ops: ops}, e)
	for i, want := range []bool{true, true, false} {
		if got := m.patch(e, ops[:i+1]) != nil; got != want {
			t.Errorf("operation %d: a patch is %v", i, got)
		}
	}
	if !m.supposed(e) {
		t.Error("what the patches belong to isn't there")
	}
	m.landed(&kv.Commit{Ops: ops[:1]}, new(encoding))
	if m.supposed(e) {
		t.Error("what the patches belong to is there")
	}
}

// TestLargeNotRemembered: the values of a commit with many operations are not patched.
func TestLargeNotRemembered(t *testing.T) {
	for n, want := range map[int]bool{maxRemembered: true, maxRemembered + 1: false} {
		m, c := newMemory(16<<20), &kv.Commit{}
		for i := range n {
			c.Ops = append(c.Ops, kv.Set(fmt.Append(nil, i), make([]byte, 4096)))
		}
		m.landed(c, new(encoding))
		if got := m.patch(new(encoding), c.Ops[:1]) != nil; got != want {
			t.Errorf("after %d operations: a patch is %v", n, got)
		}
	}
}

// TestClearedMeanwhile: a patch that was encoded before another commit cleared the value below it, with
// a range or by its key, isn't written.
func TestClearedMeanwhile(t *testing.T) {
	key := []byte("key")
	for _, clear := range []kv.Op{kv.ClearRange([]byte("k"), []byte("l")), kv.Clear(key), kv.Set(key, bytes.Repeat([]byte("x"), 1000))} {
		db, err := open("store", nil, vfs.NewMem())
		if err != nil {
			t.Fatal(err)
		}
		value := bytes.Repeat([]byte("value"), 200)
		if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, value)}}); err != nil {
			t.Fatal(err)
		}
		value[7]++
		c := &kv.Commit{Ops: []kv.Op{kv.Set(key, value)}}
		size, err := measure(c)
		if err != nil {
			t.Fatal(err)
		}
		version, b, e := db.commits.version.Load(), db.commits.newBatch(size), new(encoding)
		if err := db.commits.encode(b, c, size, e); err != nil {
			t.Fatal(err)
		}
		if len(e.patched) != 1 {
			t.Fatalf("%d patches", len(e.patched))
		}
		if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{clear}}); err != nil {
			t.Fatal(err)
		}
		number, err := db.commits.apply(c, b, size, version, e)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.commits.finish(c, b, number); err != nil {
			t.Fatal(err)
		}
		it, closer, err := db.commits.lookup(key) // what is stored, whatever is remembered
		if err != nil || !bytes.Equal(it, value) {
			t.Fatalf("%d bytes are stored, %v", len(it), err)
		}
		if err := errors.Join(closer.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
