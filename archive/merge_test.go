package archive

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestMergesAreBounded tests that segments aren't put together whose records have more bytes than is to be in memory, however small they are
// when they are compressed; also by a Writer that finds them there.
func TestMergesAreBounded(t *testing.T) {
	t.Parallel()
	m := newModel(t, 71, folder(t))
	m.opts.mergeRuns = 1000
	for round := range 2 {
		m.start()
		for range 12 {
			c := &kv.Commit{Ops: []kv.Op{{Kind: kv.OpSet, Key: []byte("zeros"), Value: bytes.Repeat([]byte{0}, maxRecords/8)}}}
			c.ID[0], c.ID[1] = byte(round+1), byte(m.db.Records().Last())
			if err := m.db.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			m.sync()
		}
		if err := m.w.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.stop()
		m.open()
		m.opts.mergeRuns = 2
	}
	log, err := readLog(t.Context(), m.bucket, 1)
	if err != nil || len(log) < 4 {
		t.Fatalf("%d segments, %v", len(log), err)
	}
	for _, s := range log {
		if x, err := readIndex(t.Context(), m.bucket, s.name); err != nil || x.size > maxRecords {
			t.Errorf("%s has records of %d bytes, %v", s.name, x.size, err)
		}
	}
}

// TestJoinedMemory tests that segments that are put together take as much memory as they have bytes.
func TestJoinedMemory(t *testing.T) {
	bk, z := folder(t), packer(t)
	b, number, all := newBuilder(unknown), uint64(0), []numbered(nil)
	for range 4 {
		b.reset(b.lastSum)
		for range 500 {
			number++
			addAll(t, b, []pebblekv.Record{recordOf(t, number, rawSet(1, "key", make([]byte, number)), rawSet(int(number), "key", nil))})
		}
		name := firstName(1, b.first)
		testkit.Must(t, bucket.PutBytes(t.Context(), bk, name, b.encode(z), bucket.Once))
		all = append(all, numbered{name: name})
	}
	joined, err := joined(t.Context(), bk, all)
	testkit.Must(t, err)
	for g, run := range joined.groups {
		if len(run.fragments) == 0 || cap(run.fragments) > len(run.fragments)+len(run.fragments)/4+64 { // memory comes in certain sizes
			t.Errorf("the run of %q has %d bytes, and room for %d", g, len(run.fragments), cap(run.fragments))
		}
	}
	if n := len(joined.groups); n != 2000 {
		t.Errorf("there are %d groups", n)
	}
}
