package batch_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/batch"
)

// drawGroup stages random writes into g, some over small limits.
func drawGroup(t *rapid.T, g *batch.Group, most int) {
	key := rapid.SliceOfN(rapid.Byte(), 0, 6)
	for range rapid.IntRange(0, most).Draw(t, "writes") {
		k := key.Draw(t, "key")
		switch batch.Kind(rapid.IntRange(0, 2).Draw(t, "kind")) {
		case batch.Put:
			g.Put(k, rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "value"))
		case batch.Delete:
			g.Delete(k)
		case batch.DeleteRange:
			g.DeleteRange(k, key.Draw(t, "end"))
		}
	}
}

func drawLimits(t *rapid.T) batch.Limits {
	return batch.Limits{
		KeySize:   rapid.IntRange(7, 8).Draw(t, "key size"),
		ValueSize: rapid.IntRange(10, 12).Draw(t, "value size"),
		Entries:   rapid.IntRange(1, 5).Draw(t, "entries"),
		Payload:   rapid.IntRange(16, 50).Draw(t, "payload"),
	}
}

// payload is the rule of the design, written down a second time.
func payload(ops []batch.Op) int {
	n := 0
	for _, o := range ops {
		n += len(o.Key) + 2
		if o.Kind != batch.Delete {
			n += len(o.Value)
		}
	}
	return n
}

// wantError returns the sentinel that Split must report, nil if none: every op
// alone first, ordinary ones before final ones, then the final group.
func wantError(b *batch.Batch, l batch.Limits) error {
	for _, o := range slices.Concat(b.Ops(), b.Final().Ops()) {
		switch {
		case len(o.Key)+2 > l.KeySize, o.Kind == batch.DeleteRange && len(o.Value)+2 > l.KeySize:
			return batch.ErrKeyTooLong
		case o.Kind == batch.Put && len(o.Value) > l.ValueSize:
			return batch.ErrValueTooLarge
		case payload([]batch.Op{o}) > l.Payload:
			return batch.ErrTooLarge
		}
	}
	if !fits(b.Final().Ops(), l) {
		return batch.ErrTooLarge
	}
	return nil
}

func fits(ops []batch.Op, l batch.Limits) bool {
	return len(ops) <= l.Entries && payload(ops) <= l.Payload
}

// fewest returns the smallest number of sub-batches that any cut of b has: it
// tries all of them.
func fewest(b *batch.Batch, l batch.Limits) int {
	ops, final := b.Ops(), b.Final().Ops()
	best := make([]int, len(ops)+1) // of ops[:i]
	for i := 1; i <= len(ops); i++ {
		best[i] = len(ops)
		for j := range i {
			if fits(ops[j:i], l) {
				best[i] = min(best[i], best[j]+1)
			}
		}
	}
	if len(final) == 0 {
		return best[len(ops)]
	}
	n := best[len(ops)] + 1
	for j := range ops {
		if fits(slices.Concat(ops[j:], final), l) {
			n = min(n, best[j]+1)
		}
	}
	return n
}

func TestSplitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b batch.Batch
		drawGroup(t, &b.Group, 20)
		drawGroup(t, b.Final(), 3)
		l := drawLimits(t)
		dst := []batch.Sub{{Payload: -1}}
		subs, err := b.Split(l, dst)
		if want := wantError(&b, l); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Fatalf("error %v, want %v", err, want)
		}
		if len(subs) == 0 || subs[0].Payload != -1 {
			t.Fatalf("Split lost what dst held: %v", subs)
		}
		if subs = subs[1:]; err != nil {
			if len(subs) != 0 {
				t.Fatalf("Split returned %d sub-batches and an error", len(subs))
			}
			return
		}
		checkSubs(t, &b, l, subs)
		again, err := b.Split(l, nil)
		if err != nil || len(subs) > 0 && !reflect.DeepEqual(again, subs) || len(again) != len(subs) {
			t.Fatalf("Split again gave %v, %v, first %v", again, err, subs)
		}
	})
}

func checkSubs(t *rapid.T, b *batch.Batch, l batch.Limits, subs []batch.Sub) {
	var all []batch.Op
	for i, s := range subs {
		if len(s.Ops) == 0 || !fits(s.Ops, l) {
			t.Fatalf("sub-batch %d has %d entries, %d bytes; limits %+v", i, len(s.Ops), payload(s.Ops), l)
		}
		if got, want := s.Payload, payload(s.Ops); got != want {
			t.Fatalf("sub-batch %d says payload %d, has %d", i, got, want)
		}
		all = append(all, s.Ops...)
	}
	if got, want := text(all), text(b.Ops())+text(b.Final().Ops()); got != want {
		t.Fatalf("sub-batches hold:\n%swant:\n%s", got, want)
	}
	if n := b.Final().Len(); n > 0 && len(subs[len(subs)-1].Ops) < n {
		t.Fatalf("the last sub-batch has %d ops, the final group %d", len(subs[len(subs)-1].Ops), n)
	}
	if got, want := len(subs), fewest(b, l); got != want {
		t.Fatalf("%d sub-batches, %d are enough", got, want)
	}
}

// TestSplitAtTheLimits holds the default limits exactly.
func TestSplitAtTheLimits(t *testing.T) {
	value := make([]byte, 128<<10)
	put := func(n, size int) func(g *batch.Group) {
		return func(g *batch.Group) {
			for range n {
				g.Put([]byte("key"), value[:size])
			}
		}
	}
	none := func(*batch.Group) {}
	for _, c := range []struct {
		name            string
		ordinary, final func(*batch.Group)
		want            []int // entries of each sub-batch
	}{
		{"nothing", none, none, nil},
		{"one", put(1, 0), none, []int{1}},
		{"as many as fit", put(128, 0), none, []int{128}},
		{"one more", put(129, 0), none, []int{128, 1}},
		{"many", put(300, 0), none, []int{128, 128, 44}},
		{"payload", put(8, 124923), none, []int{8}}, // 8 × (3 + 2 + 124923) = 999424
		{"payload and one byte", put(8, 124924), none, []int{7, 1}},
		{"final alone", none, put(128, 0), []int{128}},
		{"final fits", put(120, 0), put(8, 0), []int{128}},
		{"final does not fit", put(121, 0), put(8, 0), []int{121, 8}},
		{"final fits behind the rest", put(249, 0), put(7, 0), []int{128, 128}},
		{"final fits by payload", put(4, 124923), put(4, 124923), []int{8}},
		{"final does not fit by payload", put(4, 124923), put(4, 124924), []int{4, 4}},
	} {
		var b batch.Batch
		c.ordinary(&b.Group)
		c.final(b.Final())
		var got []int
		for _, s := range split(t, &b, batch.DefaultLimits()) {
			got = append(got, len(s.Ops))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: sub-batches of %v entries, want %v", c.name, got, c.want)
		}
	}
}

func TestFinalTooLarge(t *testing.T) {
	var b batch.Batch
	b.Put([]byte("ordinary"), nil)
	for range 129 {
		b.Final().Put([]byte("final"), nil)
	}
	_, err := b.Split(batch.Limits{}, nil)
	checkLimitError(t, "entries", err, batch.LimitError{Err: batch.ErrTooLarge, Key: []byte("final"), Size: 129, Limit: 128})

	b.Reset()
	for range 2 {
		b.Final().Put([]byte("final"), make([]byte, 8))
	}
	_, err = b.Split(batch.Limits{Payload: 29}, nil)
	checkLimitError(t, "payload", err, batch.LimitError{Err: batch.ErrTooLarge, Key: []byte("final"), Size: 30, Limit: 29})
}

// TestStageAfterSplit: splitting doesn't end a batch, and the final group stays
// last.
func TestStageAfterSplit(t *testing.T) {
	var b batch.Batch
	b.Put([]byte("a"), nil)
	b.Final().Put([]byte("z"), nil)
	split(t, &b, batch.Limits{})
	b.Put([]byte("b"), nil)
	subs := split(t, &b, batch.Limits{})
	want := "put \"a\" \"\"\nput \"b\" \"\"\nput \"z\" \"\"\n"
	if len(subs) != 1 || text(subs[0].Ops) != want {
		t.Errorf("sub-batches %v, want one with\n%s", subs, want)
	}
}

// TestSplitRefused: of a batch that is refused nothing stays in the caller's array.
func TestSplitRefused(t *testing.T) {
	for _, final := range []bool{false, true} {
		var b batch.Batch
		for i := range 4 {
			b.Put([]byte{byte(i)}, nil)
		}
		g := &b.Group
		if final {
			g = b.Final()
		}
		g.Put(make([]byte, 100), nil)
		room := make([]batch.Sub, 0, 8)
		subs, err := b.Split(batch.Limits{Entries: 2, KeySize: 50}, room)
		if err == nil || len(subs) != 0 {
			t.Fatalf("got %d sub-batches, %v", len(subs), err)
		}
		for i, s := range room[:cap(room)] {
			if s.Ops != nil {
				t.Errorf("sub-batch %d is left behind", i)
			}
		}
	}
}
