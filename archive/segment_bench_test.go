package archive

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// BenchmarkSegment is what the Writer does with a commit of a small row: of 200 actors in turn.
func BenchmarkSegment(b *testing.B) {
	db, err := pebblekv.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if err := db.Records().Hold(pebblekv.Held{From: 1, Most: 1 << 30}, false); err != nil {
		b.Fatal(err)
	}
	store, err := actorstore.Open(b.Context(), db, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	var actors []*actorstore.Actor
	for i := range 200 {
		a, err := store.Named(b.Context(), fmt.Sprint(i), nil)
		if err != nil {
			b.Fatal(err)
		}
		defer a.Close()
		actors = append(actors, a)
	}
	page := make([]byte, 4096)
	for n := range 10_000 {
		var c batch.Batch
		copy(page[n%3000:], fmt.Sprintf("row %d of some text that is a little longer than a number", n))
		c.Put(actorstore.UserKey([]byte("page")), page)
		if err := actors[n%200].Apply(b.Context(), &c); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Sync(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
	in, err := db.Records().Follow(1000)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	var records []pebblekv.Record
	size := 0
	for range 9000 {
		r, err := in.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		r.Batch = bytes.Clone(r.Batch)
		size += len(r.Batch)
		records = append(records, r)
	}
	z, err := newFast()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	seg := newBuilder(sum{})
	for b.Loop() {
		seg.reset(sum{})
		for _, r := range records {
			if err := seg.add(r, 1); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(seg.encode(z))), "stored")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}
