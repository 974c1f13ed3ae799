package vfs

import (
	"bytes"
	"context"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// storeAll lands everything that f has, atomically.
func storeAll(ctx context.Context, a *actorstore.Actor, f *chunked) error {
	var b batch.Batch
	f.stage(&b, 0, maxChunks)
	f.stageSize(b.Final())
	if err := a.Apply(ctx, &b); err != nil {
		return err
	}
	f.settled()
	return nil
}

// TestChunkedModel compares a file with a byte slice: what is written is read,
// nothing beyond the size ever comes back, holes are zero, and what the file
// believes of stored lengths keeps the actor's size exact.
func TestChunkedModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, batch.Limits{})
		ctx := t.Context()
		f := &chunked{tag: actorstore.FileMain, reader: r.actor, layout: r.actor.Layout()}
		if err := f.load(ctx); err != nil {
			rt.Fatal(err)
		}
		var model, stored []byte
		offset := rapid.OneOf(rapid.Int64Range(0, 5*chunkSize),
			rapid.SampledFrom([]int64{0, chunkSize - 1, chunkSize, chunkSize + 1, 3 * chunkSize}))
		check := func() {
			if f.size != int64(len(model)) {
				rt.Fatalf("size is %d, want %d", f.size, len(model))
			}
			got := make([]byte, len(model)+10)
			n, err := f.readAt(ctx, got, 0)
			if err != io.EOF || n != len(model) || !bytes.Equal(got[:n], model) {
				rt.Fatalf("read %d bytes, %v; they differ from the model's %d", n, err, len(model))
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				off := offset.Draw(rt, "off")
				b := rapid.SliceOfN(rapid.Byte(), 1, 2*chunkSize+7).Draw(rt, "b")
				if _, err := f.writeAt(ctx, b, off); err != nil {
					rt.Fatal(err)
				}
				if end := int(off) + len(b); end > len(model) {
					model = append(model, make([]byte, end-len(model))...)
				}
				copy(model[off:], b)
			},
			"truncate": func(rt *rapid.T) {
				size := min(offset.Draw(rt, "size"), f.size)
				if err := f.truncate(ctx, size); err != nil {
					rt.Fatal(err)
				}
				model = model[:size]
			},
			"read": func(rt *rapid.T) {
				off := offset.Draw(rt, "off")
				b := make([]byte, rapid.IntRange(1, 2*chunkSize).Draw(rt, "n"))
				n, err := f.readAt(ctx, b, off)
				want := model[min(off, int64(len(model))):]
				want = want[:min(len(want), len(b))]
				if (err != nil && err != io.EOF) || !bytes.Equal(b[:n], want) {
					rt.Fatalf("readAt(%d, %d) = %d, %v", len(b), off, n, err)
				}
			},
			"store": func(rt *rapid.T) {
				if err := storeAll(ctx, r.actor, f); err != nil {
					rt.Fatal(err)
				}
				stored = bytes.Clone(model)
			},
			"revert": func(rt *rapid.T) {
				f.revert()
				model = bytes.Clone(stored)
			},
			"reload": func(rt *rapid.T) {
				if err := f.load(ctx); err != nil {
					rt.Fatal(err)
				}
				model = bytes.Clone(stored)
			},
			"": func(rt *rapid.T) {
				check()
				if used, want := r.actor.Used(), countedBytes(rt, r.actor); used != want {
					rt.Fatalf("the actor believes %d bytes are used, its keys hold %d", used, want)
				}
			},
		})
	})
}

// countedBytes adds up what the quota counts.
func countedBytes(t rapid.TB, a *actorstore.Actor) int64 {
	var total int64
	for e, err := range a.List(context.Background(), actorstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		total += int64(len(e.Key) + batch.WrapperBytes + len(e.Value))
	}
	return total
}
