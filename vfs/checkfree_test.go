package vfs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// missing returns the numbers of the chunks that the main file doesn't have.
func missing(t testing.TB, a *actorstore.Actor) (holes []uint32, count int64) {
	t.Helper()
	f := chunked.File{Tag: main, Reader: a, Layout: layout}
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	count = chunked.Count(f.Size())
	for i := range uint32(count) {
		if !isStored(t, a, layout.AppendFileChunk(nil, main, i)) {
			holes = append(holes, i)
		}
	}
	return holes, count
}

// TestCheckFreePages: a page that was never anything but free isn't stored, and its absence isn't
// damage. The absence of any other page is.
func TestCheckFreePages(t *testing.T) {
	for _, pragmas := range [][]string{
		{"page_size=512"}, {"page_size=4096"}, {"page_size=65536"}, {"page_size=2048", "auto_vacuum=incremental"},
	} {
		t.Run(strings.Join(pragmas, ","), func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			db := r.open(t, &vfs.Options{Pragmas: append(pragmas, "cache_size=-32000")})
			exec(t, db, table)
			exec(t, db, "begin; insert into t(b) select zeroblob(60000) from generate_series(1, 50); delete from t; commit")
			exec(t, db, "insert into t(b) values (randomblob(200000))")
			holes, count := missing(t, r.Actor)
			if len(holes) < 100 {
				t.Fatalf("only %d of %d chunks are missing: this tests nothing", len(holes), count)
			}
			intact(t, db)
			compareFindings(t, checkView(t, r.Store, r.Actor.ID(), nil), nil)

			// The trunk pages are in use, of course, and so is what holds the row.
			var lost []string
			for i := uint32(1); i < uint32(count); i++ {
				if slices.Contains(holes, i) {
					continue
				}
				key := layout.AppendFileChunk(nil, main, i)
				v, err := r.Actor.Get(t.Context(), key, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Actor.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				got := checkView(t, r.Store, r.Actor.ID(), &vfs.CheckOptions{FilesOnly: true})
				if len(got) > 1 || len(got) == 1 && !strings.Contains(got[0], missed) {
					t.Errorf("chunk %d: %q", i, got)
				}
				lost = append(lost, got...)
				if err := r.Actor.Put(t.Context(), key, v); err != nil {
					t.Fatal(err)
				}
				if len(lost) > 5 {
					break
				}
			}
			if len(lost) == 0 {
				t.Error("no chunk in use was missed")
			}
		})
	}
}
