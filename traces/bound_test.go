package traces

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestPendingBytes: beyond the bytes that may wait the oldest chunks are dropped, and not
// before.
func TestPendingBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := quiet()
		o.MaxPendingBytes = 5000
		r := newRigFull(t, o)
		r.full(true)
		for i := range 10 {
			r.Begin(fmt.Sprint("s", i), &StartOptions{Attributes: []Attr{String("k", strings.Repeat("x", 1500))}}).End()
			wantErr(t, "flush", r.Flush(ctx), actorstore.ErrQuota)
			s := r.Stats()
			want(t, "chunks that wait", s.Pending, min(i+1, 3))
			want(t, "dropped", int(s.DroppedChunks), max(i-2, 0))
			if s.PendingBytes > 5000 {
				t.Errorf("%d bytes wait", s.PendingBytes)
			}
		}
		r.full(false)
		r.flush()
		want(t, "spans", names(r.read(Query{})), "s7 s8 s9")
	})
}

// TestSnapshotBytes: a span is recorded whole when so many bytes were recorded of it, and
// not before.
func TestSnapshotBytes(t *testing.T) {
	o := quiet()
	o.SnapshotBytes = 10_000
	r := newRig(t, o)
	s := r.Begin("s", nil)
	for range 35 {
		s.Event("e", String("k", strings.Repeat("x", 1000)))
	}
	r.flush()
	_, chunks, _ := r.chunks()
	n := 0
	for _, c := range chunks {
		for i := range c.records {
			if c.records[i].kind == kindSnapshot {
				n++
			}
		}
	}
	want(t, "snapshots", n, 3)
}

// TestSecondOpenChunk: a chunk that is filled beside the newest one stays in bounds, too,
// when spans begin that it has to list.
func TestSecondOpenChunk(t *testing.T) {
	w := newWatch(t0)
	o := quiet()
	o.Now, o.MaxAge = w.now, -1
	r := newRigOn(t, memkv.New(), o, batch.Limits{ValueSize: minChunk})
	w.set(at(3500))
	s := r.Begin("s", nil)
	w.set(at(3700))
	r.Begin("new", nil).End()
	for size := 0; size < minChunk-60; {
		s.AddEvent(Event{Name: "e", Time: at(3590)})
		r.Traces.store.mu.Lock()
		size = r.Traces.store.open[0].size(r.Traces.store.running.n, r.Traces.store.running.bytes)
		r.Traces.store.unlock()
	}
	for i := range 9 {
		r.Begin(fmt.Sprint("s", i), nil)
	}
	r.flush()
	_, _, sizes := r.chunks()
	for _, n := range sizes {
		if n > minChunk {
			t.Errorf("a chunk of %d bytes", n)
		}
	}
	want(t, "dropped", r.Stats().DroppedRecords, 0)
}

// TestPages: chunks are read ten at a time at most.
func TestPages(t *testing.T) {
	r := newRig(t, quiet())
	for range 25 {
		r.Begin("s", nil).End()
		r.flush()
	}
	snap, err := r.actor.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	s, err := newScanner(ctx, snap, nil)
	must(t, err)
	start, end := chunksRange(layout)
	var pages []int
	for start != nil {
		n := 0
		start, err = s.page(ctx, keyRange{start, end}, func(keyed) error { n++; return nil })
		must(t, err)
		pages = append(pages, n)
	}
	want(t, "pages", fmt.Sprint(pages), "[10 10 5]")
}
