package batch_test

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/batch"
)

// dirtyModel says for each key how often it was marked, and up to which mark it
// is clean: the simplest thing that could be right.
type dirtyModel struct {
	marked, clean map[int]int
	order         []int // keys by their latest mark
}

func (m *dirtyModel) mark(k int) {
	m.marked[k]++
	m.order = append(slices.DeleteFunc(m.order, func(o int) bool { return o == k }), k)
}

func (m *dirtyModel) dirty() []int {
	return slices.DeleteFunc(slices.Clone(m.order), func(k int) bool { return m.clean[k] >= m.marked[k] })
}

// TestDirtyModel runs random histories: captures stay around, and are cleared
// late, twice, out of order, or never.
func TestDirtyModel(t *testing.T) {
	type capture struct {
		got    batch.Captured[int]
		marked map[int]int // per key, how many marks it covers
	}
	rapid.Check(t, func(t *rapid.T) {
		var d batch.Dirty[int]
		m := dirtyModel{marked: map[int]int{}, clean: map[int]int{}}
		var captures []capture
		t.Repeat(map[string]func(*rapid.T){
			"mark": func(t *rapid.T) {
				k := rapid.IntRange(0, 4).Draw(t, "key")
				d.Mark(k)
				m.mark(k)
			},
			"capture": func(t *rapid.T) {
				c := capture{d.Capture(), map[int]int{}}
				for _, k := range m.dirty() {
					c.marked[k] = m.marked[k]
				}
				if got := c.got.Keys(); !slices.Equal(got, m.dirty()) || c.got.Len() != len(got) {
					t.Fatalf("captured %v, want %v", got, m.dirty())
				}
				captures = append(captures, c)
			},
			"clear": func(t *rapid.T) {
				if len(captures) == 0 {
					t.Skip("nothing captured")
				}
				c := rapid.SampledFrom(captures).Draw(t, "capture")
				d.Clear(c.got)
				for k, n := range c.marked {
					if n == m.marked[k] {
						m.clean[k] = n
					}
				}
			},
			"": func(t *rapid.T) {
				if got, want := d.Len(), len(m.dirty()); got != want {
					t.Fatalf("Len = %d, want %d", got, want)
				}
				for k := range 5 {
					if got, want := d.Dirty(k), m.clean[k] < m.marked[k]; got != want {
						t.Fatalf("Dirty(%d) = %v, want %v", k, got, want)
					}
				}
			},
		})
	})
}

// TestDirtyConcurrent: writers change values and mark them while a flusher writes
// captured ones, and now and then fails. No change is lost: when all is quiet and
// flushed, what is stored is what is there.
func TestDirtyConcurrent(t *testing.T) {
	const keys, rounds = 8, 2000
	var (
		d      batch.Dirty[int]
		mu     sync.Mutex
		memory [keys]int
		stored [keys]int
	)
	flush := func(fail bool) {
		c := d.Capture()
		var b batch.Batch
		written := map[int]int{}
		mu.Lock()
		for _, k := range c.Keys() {
			written[k] = memory[k]
		}
		mu.Unlock()
		b.OnCommit(func() {
			for k, v := range written {
				stored[k] = v
			}
			d.Clear(c)
		})
		if fail {
			b.Settle(errBoom)
			return
		}
		b.Settle(nil)
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range rounds {
				k := (w*31 + i*7) % keys
				mu.Lock()
				memory[k]++
				mu.Unlock()
				d.Mark(k)
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for i := 0; ; i++ {
		flush(i%3 == 0)
		select {
		case <-done:
		default:
			continue
		}
		break
	}
	flush(false)
	if d.Len() != 0 {
		t.Errorf("%d keys dirty after the last flush, want 0", d.Len())
	}
	if stored != memory {
		t.Errorf("stored %v, want %v", stored, memory)
	}
}

// TestDirtyMarkDuringWrite is the case that a plain flag gets wrong.
func TestDirtyMarkDuringWrite(t *testing.T) {
	var d batch.Dirty[string]
	d.Mark("a")
	d.Mark("b")
	c := d.Capture()
	d.Mark("a") // while the write is under way
	d.Clear(c)
	if !d.Dirty("a") || d.Dirty("b") || d.Len() != 1 {
		t.Errorf("a dirty %v, b dirty %v, want true, false", d.Dirty("a"), d.Dirty("b"))
	}
	d.Clear(d.Capture())
	d.Mark("a")
	d.Clear(c) // an old capture says nothing about a new mark
	if !d.Dirty("a") {
		t.Error("an old capture cleared a new mark")
	}
}
