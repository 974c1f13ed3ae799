package batch_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

// text writes ops one a line, so that tests compare them whole.
func text(ops []batch.Op) string {
	var s strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&s, "%v %q %q", o.Kind, o.Key, o.Value)
		if n, ok := o.Prior.Known(); ok {
			fmt.Fprintf(&s, " prior %d", n)
		}
		s.WriteByte('\n')
	}
	return s.String()
}

func TestOps(t *testing.T) {
	var b batch.Batch
	b.Put([]byte("a"), []byte("1"))
	b.PutPrior([]byte("b"), nil, batch.Stored(7))
	b.Delete([]byte("c"))
	b.DeletePrior([]byte("d"), batch.Absent)
	b.DeleteRange([]byte("e"), []byte("f"))
	b.DeleteRangePrior([]byte("g"), []byte("h"), batch.Freed(1<<40))
	b.DeleteRangePrior([]byte("i"), []byte("j"), batch.Absent)
	b.DeleteRange(nil, nil)
	b.Final().Put([]byte("z"), nil)

	want := `put "a" "1"
put "b" "" prior 7
delete "c" ""
delete "d" "" prior -1
delete-range "e" "f"
delete-range "g" "h" prior 1099511627776
delete-range "i" "j" prior 0
delete-range "" ""
`
	if got := text(b.Ops()); got != want {
		t.Errorf("ops:\n%swant:\n%s", got, want)
	}
	if got, want := text(b.Final().Ops()), "put \"z\" \"\"\n"; got != want {
		t.Errorf("final ops %q, want %q", got, want)
	}
	if sum := payloadOf(t, &b); b.Payload() != sum {
		t.Errorf("Payload = %d, want %d", b.Payload(), sum)
	}
	if b.Len() != 8 || b.Final().Len() != 1 || b.Empty() {
		t.Errorf("Len = %d, Final().Len = %d, Empty = %v, want 8, 1, false", b.Len(), b.Final().Len(), b.Empty())
	}
	if last := b.Ops()[7]; last.Value != nil {
		t.Errorf("unbounded range has end %q, want nil", last.Value)
	}
}

// TestEmptyRange: a range that holds no key never reaches a store.
func TestEmptyRange(t *testing.T) {
	var b batch.Batch
	b.DeleteRange([]byte("b"), []byte("b"))
	b.DeleteRange([]byte("b"), []byte("a"))
	b.DeleteRange(nil, []byte{})
	if !b.Empty() {
		t.Errorf("recorded:\n%s", text(b.Ops()))
	}
}

// TestKeysAreCopied: keys are the batch's own, also when the arena has to grow,
// and no append to one reaches another. Values are the caller's.
func TestKeysAreCopied(t *testing.T) {
	var b batch.Batch
	key, end, value := make([]byte, 4), make([]byte, 4), []byte("v")
	for i := range 1000 {
		copy(key, fmt.Sprintf("%04d", i))
		copy(end, fmt.Sprintf("%04d", i+1))
		b.Put(key, value)
		b.DeleteRange(key, end)
	}
	clear(key)
	clear(end)
	for i := range b.Ops() {
		op := &b.Ops()[i]
		_ = append(op.Key, "xxxx"...)
	}
	for i := range 1000 {
		put, del := b.Ops()[2*i], b.Ops()[2*i+1]
		if want := fmt.Sprintf("%04d", i); string(put.Key) != want || string(del.Key) != want {
			t.Fatalf("op %d has keys %q, %q, want %q", i, put.Key, del.Key, want)
		}
		if want := fmt.Sprintf("%04d", i+1); string(del.Value) != want {
			t.Fatalf("op %d has end %q, want %q", i, del.Value, want)
		}
		if &put.Value[0] != &value[0] {
			t.Fatalf("op %d copied its value", i)
		}
	}
}

func TestPrior(t *testing.T) {
	for _, c := range []struct {
		p  batch.Prior
		n  int64
		ok bool
	}{
		{batch.PriorUnknown, 0, false},
		{batch.Prior(0), 0, false},
		{batch.Absent, -1, true},
		{batch.Stored(0), 0, true},
		{batch.Stored(4096), 4096, true},
		{batch.Freed(1 << 40), 1 << 40, true},
	} {
		if n, ok := c.p.Known(); n != c.n || ok != c.ok {
			t.Errorf("Prior(%d).Known() = %d, %v, want %d, %v", c.p, n, ok, c.n, c.ok)
		}
	}
	defer func() {
		if r := recover(); r != "batch: negative size in a Prior" {
			t.Errorf("Stored(-1): panic %v", r)
		}
	}()
	batch.Stored(-1)
}

func TestStrings(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{batch.Put.String(), "put"},
		{batch.Delete.String(), "delete"},
		{batch.DeleteRange.String(), "delete-range"},
		{batch.Kind(9).String(), "unknown"},
		{batch.Atomic.String(), "atomic"},
		{batch.Ordered.String(), "ordered"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestReset(t *testing.T) {
	var b batch.Batch
	b.Mode, b.OverQuota = batch.Ordered, true
	value := []byte("v")
	b.Put([]byte("a"), value)
	b.Final().Put([]byte("z"), value)
	split(t, &b, batch.Limits{})
	// What Split laid out behind the ordinary ops, in the same array.
	array := b.Ops()[:2:2]
	b.Settle(nil)
	b.Reset()
	for i, op := range array {
		if op.Key != nil || op.Value != nil {
			t.Errorf("op %d keeps %q = %q alive after Reset", i, op.Key, op.Value)
		}
	}
	if b.Mode != batch.Atomic || b.OverQuota || !b.Empty() || b.Settled() || b.Final().Len() != 0 {
		t.Errorf("after Reset: mode %v, empty %v, settled %v", b.Mode, b.Empty(), b.Settled())
	}
	fired := false
	b.OnCommit(func() { fired = true })
	b.Put([]byte("b"), []byte("2"))
	subs := split(t, &b, batch.Limits{})
	if len(subs) != 1 || text(subs[0].Ops) != "put \"b\" \"2\"\n" {
		t.Errorf("sub-batches after Reset: %v", subs)
	}
	if b.Settle(nil); !fired {
		t.Error("hook of a reused batch did not run")
	}
}

func split(t *testing.T, b *batch.Batch, l batch.Limits) []batch.Sub {
	t.Helper()
	subs, err := b.Split(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	return subs
}

// TestNoAllocations: a batch in steady use allocates nothing, from staging to
// settling; the first rounds size its memory.
func TestNoAllocations(t *testing.T) {
	var b batch.Batch
	var subs []batch.Sub
	key, value := bytes.Repeat([]byte("k"), 40), make([]byte, 4096)
	var committed int
	onCommit := func() { committed++ }
	late := func(b *batch.Batch) error {
		b.Final().Put([]byte("meta"), nil)
		return nil
	}
	round := func() {
		b.Reset()
		for i := range 500 {
			key[0] = byte(i)
			b.PutPrior(key, value, batch.Stored(4096))
			b.Delete(key)
		}
		b.OnCommit(onCommit)
		b.Late(late)
		if err := b.Seal(); err != nil {
			t.Fatal(err)
		}
		var err error
		if subs, err = b.Split(batch.DefaultLimits(), subs[:0]); err != nil {
			t.Fatal(err)
		}
		b.Settle(nil)
	}
	for range 10 {
		round()
	}
	committed = 0
	if allocs := testing.AllocsPerRun(20, round); allocs != 0 {
		t.Errorf("%v allocations per batch, want 0", allocs)
	}
	if len(subs) != 8 || committed != 21 {
		t.Errorf("%d sub-batches, %d commits, want 8, 21", len(subs), committed)
	}
}

func BenchmarkSplit(b *testing.B) {
	var bt batch.Batch
	var subs []batch.Sub
	value := make([]byte, 4096)
	for i := range 1000 {
		bt.Put([]byte{byte(i >> 8), byte(i)}, value)
	}
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if subs, err = bt.Split(batch.DefaultLimits(), subs[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// payloadOf returns the sum over the sub-batches.
func payloadOf(t *testing.T, b *batch.Batch) (n int) {
	t.Helper()
	subs, err := b.Split(batch.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subs {
		n += s.Payload
	}
	return n
}
