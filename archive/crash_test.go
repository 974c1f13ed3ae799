package archive

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// newCrashing returns a model whose machine and whose bucket can fail.
func newCrashing(t *testing.T, seed uint64) (*model, *buckettest.Faulty) {
	b := buckettest.NewFaulty(buckettest.NewMemory(), nil)
	m := newModel(t, seed, b)
	m.stop()
	m.disk = pebblekv.NewCrashDisk()
	m.opts.baseBytes, m.opts.mergeRuns = 30_000, 4
	m.open()
	return m, b
}

// TestPrefixes tests that at each moment between two calls of the bucket the last state of each lineage is one that the store
// had, no older than it was at a moment before; each state in between is there, too.
func TestPrefixes(t *testing.T) {
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
	for seed := range uint64(testkit.Pick(3, 8, 60)) {
		m, b := newCrashing(t, 100+seed)
		rnd := rand.New(rand.NewPCG(seed, 3))
		faulty := func(op, name string) buckettest.Fault {
			switch {
			case rnd.IntN(4) > 0:
				return buckettest.None
			case op == "get" || op == "list":
				return buckettest.Refused
			}
			return buckettest.Fault(rnd.IntN(5))
		}
		locked := make(chan struct{}, 1)
		b.Set(func(op, name string) buckettest.Fault {
			locked <- struct{}{}
			defer func() { <-locked }()
			return faulty(op, name)
		})
		for range 6 {
			m.start()
			for range 8 {
				m.commit(10)
				if rnd.IntN(2) == 0 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(20))*time.Millisecond)
					if err := m.w.Sync(ctx); err != nil && ctx.Err() == nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					cancel()
				}
			}
			m.crash()
		}
		b.Set(nil)
		m.start()
		m.sync()
		m.everyState(seed)
		if err := m.w.Close(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
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
