package pebblekv

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroomdb/greenroom/kv"
)

// TestScanVersions: a scan doesn't step over the older versions of a key, of which the
// memtable holds as many as there were commits.
func TestScanVersions(t *testing.T) {
	db, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 2000 {
		ops := []kv.Op{kv.Set([]byte("head"), fmt.Append(nil, i)), kv.Set(fmt.Append(nil, "name ", i%2), []byte("x"))}
		if err := db.Commit(t.Context(), &kv.Commit{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	r := kv.Range{Start: []byte("head"), End: []byte("o")}
	it, err := db.store.db.NewIter(bounds(r))
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var rows []string
	db.reads.walk(t.Context(), it, r, func(e kv.Entry, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("%s=%s", e.Key, e.Value))
		return true
	})
	if want := []string{"head=1999", "name 0=x", "name 1=x"}; !slices.Equal(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
	stats := it.Stats()
	if n := stats.ForwardStepCount[pebble.InternalIterCall]; n > 20 {
		t.Errorf("%d steps for 3 rows", n)
	}
}
