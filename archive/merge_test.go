package archive

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
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
