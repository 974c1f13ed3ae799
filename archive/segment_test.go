package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// rawSet is an operation that sets a key of the nth actor, as a batch has it.
func rawSet(n int, key string, value []byte) []byte {
	id := actorstore.ID{UUID: [16]byte{byte(n >> 8), byte(n)}}
	row := append(bytes.Clone(actorstore.RowRanges(id)[0].Start), key...)
	raw := binary.AppendUvarint([]byte{1}, uint64(len(row)))
	raw = binary.AppendUvarint(append(raw, row...), uint64(len(value)))
	return append(raw, value...)
}

// rawClear is one that deletes the keys of all actors.
func rawClear() []byte {
	from := actorstore.RowRanges(actorstore.ID{})[0].Start
	to := actorstore.RowRanges(actorstore.ID{UUID: [16]byte{0xff}})[0].End
	raw := binary.AppendUvarint([]byte{15}, uint64(len(from)))
	raw = binary.AppendUvarint(append(raw, from...), uint64(len(to)))
	return append(raw, to...)
}

func recordOf(t testing.TB, number uint64, ops ...[]byte) pebblekv.Record {
	t.Helper()
	batch, err := pebblekv.JoinOps(bytes.Join(ops, nil))
	if err != nil {
		t.Fatal(err)
	}
	return pebblekv.Record{Number: number, Batch: batch}
}

func packer(t testing.TB) *zstd.Encoder {
	t.Helper()
	z, err := newFast()
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func addAll(t testing.TB, b *builder, records []pebblekv.Record) {
	t.Helper()
	for _, r := range records {
		if err := b.add(r, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// fragmentsOf returns what a segment has, as the text "group record" -> operations.
func fragmentsOf(t testing.TB, object []byte) (*index, map[string]string) {
	t.Helper()
	x, err := parseIndex(object)
	if err != nil {
		t.Fatal(err)
	}
	z, err := newDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	all := map[string]string{}
	for i := range x.blocks {
		b := &x.blocks[i]
		for f, err := range x.unpack(z, b, object[b.at:][:b.size]) {
			if err != nil {
				t.Fatal(err)
			}
			all[fmt.Sprintf("%q %d", f.group, f.number)] += string(f.ops)
		}
	}
	return x, all
}

func groupText(n int) group {
	return ofActor(actorstore.ID{UUID: [16]byte{byte(n >> 8), byte(n)}})
}

// TestBuilderGroups tests that each operation of a record is in the run of its group, in order, whatever lies between them.
func TestBuilderGroups(t *testing.T) {
	one, two, three, between := rawSet(1, "a", []byte("1")), rawSet(2, "b", []byte("22")), rawSet(1, "c", []byte("3")), []byte(pebblekv.NoOp)
	join := func(ops ...[]byte) string { return string(bytes.Join(ops, nil)) }
	b := newBuilder(sum{})
	addAll(t, b, []pebblekv.Record{
		recordOf(t, 7, one, three),
		recordOf(t, 8, one, two, three),
		recordOf(t, 9, one, between, three),
		recordOf(t, 10, one, between, rawClear(), two),
		recordOf(t, 11, two),
	})
	_, got := fragmentsOf(t, b.encode(packer(t)))
	for of, want := range map[string]string{
		fmt.Sprintf("%q 7", groupText(1)):  join(one, three),
		fmt.Sprintf("%q 8", groupText(1)):  join(one, three),
		fmt.Sprintf("%q 8", groupText(2)):  join(two),
		fmt.Sprintf("%q 9", groupText(1)):  join(one, three),
		fmt.Sprintf("%q 10", wide):         join(one, rawClear(), two),
		fmt.Sprintf("%q 11", groupText(2)): join(two),
	} {
		if got[of] != want {
			t.Errorf("%s has %q, want %q", of, got[of], want)
		}
		delete(got, of)
	}
	if len(got) > 0 {
		t.Errorf("besides there is %q", got)
	}
}

// TestBuilderAgain tests that a segment has the same bytes whether its builder has had others before or not, and that its blocks are as large
// as they may be at most.
func TestBuilderAgain(t *testing.T) {
	z, used, number := packer(t), newBuilder(sum{}), uint64(0)
	for i, of := range []struct{ records, actors, value int }{
		{3000, 20, 100}, {3000, 200, 90}, {2, 1, 10}, {0, 1, 0}, {40, 3, 50_000}, {3, 2, 100_000}, {500, 500, 300}, {2000, 1, 5},
	} {
		var records []pebblekv.Record
		for n := range of.records {
			number++
			value := bytes.Repeat([]byte{byte(i + 1), byte(n)}, of.value/2)
			records = append(records, recordOf(t, number, rawSet(n%of.actors, "key", value), rawSet(n%7, fmt.Sprint(n), value)))
		}
		used.reset(sum{byte(i)})
		addAll(t, used, records)
		if len(records) == 0 {
			continue
		}
		fresh := newBuilder(sum{byte(i)})
		addAll(t, fresh, records)
		got, want := used.encode(z), fresh.encode(z)
		if !bytes.Equal(got, want) {
			t.Fatalf("segment %d: %d bytes of a builder that was used before, %d of another one, or others", i, len(got), len(want))
		}
		x, all := fragmentsOf(t, got)
		if total := len(all); total < of.records {
			t.Errorf("segment %d has %d fragments of %d records", i, total, of.records)
		}
		for _, block := range x.blocks {
			if block.unpacked > blockBytes && 2*of.value < blockBytes {
				t.Errorf("segment %d has a block of %d bytes", i, block.unpacked)
			}
		}
	}
}

// TestBuilderMemory tests that a record takes no memory of its own when the segment before had as much, or the one before some without records; and
// that a builder keeps none after many of these.
func TestBuilderMemory(t *testing.T) {
	var records []pebblekv.Record
	for n := range 2000 {
		records = append(records, recordOf(t, uint64(n+1), rawSet(n%200, "key", make([]byte, 200)), rawSet(n%200, "other", make([]byte, 50))))
	}
	z, b := packer(t), newBuilder(sum{})
	addAll(t, b, records)
	b.encode(z)
	if n := testing.AllocsPerRun(5, func() {
		for range 5 {
			b.reset(sum{})
		}
		addAll(t, b, records)
	}); n > 10 {
		t.Errorf("%.0f allocations for %d records", n, len(records))
	}
	b.encode(z)
	for range maxIdle + 3 {
		b.reset(sum{})
	}
	if n := len(b.groups) + cap(b.tail) + cap(b.packed) + cap(b.blocks); n != 0 {
		t.Errorf("a builder without records keeps %d groups, and room for %d and %d bytes and %d blocks", len(b.groups), cap(b.tail), cap(b.packed), cap(b.blocks))
	}
}
