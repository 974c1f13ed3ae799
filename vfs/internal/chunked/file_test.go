package chunked

import (
	"bytes"
	"context"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
)

// newRig opens an actor in memory.
func newRig(t testing.TB) *rig.Rig { return rig.New(t, rig.Options{}) }

// newFile returns the main file of r's actor, which isn't loaded.
func newFile(r *rig.Rig) *File {
	return &File{Tag: actorstore.FileMain, Reader: r.Actor, Layout: r.Actor.Layout()}
}

// storeAll lands everything that f has, atomically.
func storeAll(ctx context.Context, a *actorstore.Actor, f *File) error {
	var b batch.Batch
	f.Stage(&b, 0, MaxChunks)
	f.StageSize(b.Final())
	if err := a.Apply(ctx, &b); err != nil {
		return err
	}
	f.Settled()
	return nil
}

// TestModel compares a file with a byte slice: what is written is read,
// nothing beyond the size ever comes back, holes are zero, and what the file
// believes of stored lengths keeps the actor's size exact.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		ctx := t.Context()
		f := newFile(r)
		if err := f.Load(ctx); err != nil {
			rt.Fatal(err)
		}
		var model, stored []byte
		offset := rapid.OneOf(rapid.Int64Range(0, 5*Size),
			rapid.SampledFrom([]int64{0, Size - 1, Size, Size + 1, 3 * Size}))
		check := func() {
			if f.Size() != int64(len(model)) {
				rt.Fatalf("size is %d, want %d", f.Size(), len(model))
			}
			got := make([]byte, len(model)+10)
			n, err := f.ReadAt(ctx, got, 0)
			if err != io.EOF || n != len(model) || !bytes.Equal(got[:n], model) {
				rt.Fatalf("read %d bytes, %v; they differ from the model's %d", n, err, len(model))
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				off := offset.Draw(rt, "off")
				b := rapid.SliceOfN(rapid.Byte(), 1, 2*Size+7).Draw(rt, "b")
				if _, err := f.WriteAt(ctx, b, off); err != nil {
					rt.Fatal(err)
				}
				if end := int(off) + len(b); end > len(model) {
					model = append(model, make([]byte, end-len(model))...)
				}
				copy(model[off:], b)
			},
			"truncate": func(rt *rapid.T) {
				size := min(offset.Draw(rt, "size"), f.Size())
				if err := f.Resize(ctx, size); err != nil {
					rt.Fatal(err)
				}
				model = model[:size]
			},
			"read": func(rt *rapid.T) {
				off := offset.Draw(rt, "off")
				b := make([]byte, rapid.IntRange(1, 2*Size).Draw(rt, "n"))
				n, err := f.ReadAt(ctx, b, off)
				want := model[min(off, int64(len(model))):]
				want = want[:min(len(want), len(b))]
				if (err != nil && err != io.EOF) || !bytes.Equal(b[:n], want) {
					rt.Fatalf("readAt(%d, %d) = %d, %v", len(b), off, n, err)
				}
			},
			"store": func(rt *rapid.T) {
				if err := storeAll(ctx, r.Actor, f); err != nil {
					rt.Fatal(err)
				}
				stored = bytes.Clone(model)
			},
			"revert": func(rt *rapid.T) {
				f.Revert()
				model = bytes.Clone(stored)
			},
			"reload": func(rt *rapid.T) {
				if err := f.Load(ctx); err != nil {
					rt.Fatal(err)
				}
				model = bytes.Clone(stored)
			},
			"": func(rt *rapid.T) {
				check()
				if used, want := r.Actor.Used(), rig.Counted(t, r.Actor); used != want {
					rt.Fatalf("the actor believes %d bytes are used, its keys hold %d", used, want)
				}
			},
		})
	})
}

// TestDamagedSize: a size record that can't be true costs no memory.
func TestDamagedSize(t *testing.T) {
	r := newRig(t)
	key := r.Actor.Layout().AppendFileMeta(nil, actorstore.FileMain)
	if err := r.Actor.Put(t.Context(), key, AppendMeta(nil, 1<<43)); err != nil {
		t.Fatal(err)
	}
	f := newFile(r)
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for i := range *f.lens.blocks.Load() {
		if (*f.lens.blocks.Load())[i].Load() != nil {
			n += perBlock
		}
	}
	if n > 2*maxLearned {
		t.Errorf("a table of %d chunks", n)
	}
}

// TestForeignTail: what another writer left in the last chunk beyond the size is
// not seen when the file grows.
func TestForeignTail(t *testing.T) {
	r := newRig(t)
	var b batch.Batch
	b.Put(r.Actor.Layout().AppendFileChunk(nil, actorstore.FileMain, 0), bytes.Repeat([]byte("x"), Size))
	b.Put(r.Actor.Layout().AppendFileMeta(nil, actorstore.FileMain), AppendMeta(nil, 100))
	if err := r.Actor.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	f := newFile(r)
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(t.Context(), []byte("y"), 5000); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := make([]byte, 5001)
		if _, err := f.ReadAt(t.Context(), got, 0); err != nil {
			t.Fatal(err)
		}
		want := append(append(bytes.Repeat([]byte("x"), 100), make([]byte, 4900)...), 'y')
		if !bytes.Equal(got, want) {
			t.Error("bytes beyond the old size are seen")
		}
		if err := storeAll(t.Context(), r.Actor, f); err != nil {
			t.Fatal(err)
		}
		if err := f.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShortChunks: what a chunk lacks reads as zeros, nothing beyond the size is
// seen, and overwriting, growing and truncating such a file keeps the quota exact,
// whatever was read before.
func TestShortChunks(t *testing.T) {
	const size = 4*Size + 50
	ff := bytes.Repeat([]byte{0xff}, Size)
	want := make([]byte, size)
	copy(want, ff[:10])
	copy(want[2*Size:], ff[:Size-1])
	copy(want[4*Size:], ff[:50])
	for _, read := range []bool{false, true} {
		for name, change := range map[string]func(f *File) error{
			"overwrite": func(f *File) error {
				_, err := f.WriteAt(t.Context(), bytes.Repeat([]byte{7}, size), 0)
				return err
			},
			"one byte": func(f *File) error { _, err := f.WriteAt(t.Context(), []byte{7}, Size+9); return err },
			"grow":     func(f *File) error { _, err := f.WriteAt(t.Context(), []byte{7}, 6*Size+1); return err },
			"cut":      func(f *File) error { return f.Resize(t.Context(), 5) },
			"cut all":  func(f *File) error { return f.Resize(t.Context(), 0) },
		} {
			r := newRig(t)
			var b batch.Batch
			b.Put(r.Actor.Layout().AppendFileMeta(nil, actorstore.FileMain), AppendMeta(nil, size))
			for i, chunk := range [][]byte{ff[:10], {}, ff[:Size-1], nil, ff} {
				if chunk != nil {
					b.Put(r.Actor.Layout().AppendFileChunk(nil, actorstore.FileMain, uint32(i)), chunk)
				}
			}
			if err := r.Actor.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			f := newFile(r)
			if err := f.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, size+Size)
			if read {
				if n, _ := f.ReadAt(t.Context(), got, 0); !bytes.Equal(got[:n], want) {
					t.Errorf("%s: what is stored reads wrong", name)
				}
			}
			if err := change(f); err != nil {
				t.Fatal(err)
			}
			before := make([]byte, 8*Size)
			n, _ := f.ReadAt(t.Context(), before, 0)
			if name == "grow" && (!bytes.Equal(before[:size], want) || bytes.Count(before[size:], []byte{0}) != len(before)-size-1) {
				t.Errorf("%s: something else than zeros and the byte came to light", name)
			}
			if err := storeAll(t.Context(), r.Actor, f); err != nil {
				t.Fatal(err)
			}
			if err := f.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := make([]byte, 8*Size)
			if m, _ := f.ReadAt(t.Context(), after, 0); !bytes.Equal(before[:n], after[:m]) {
				t.Errorf("%s: the store reads differently from memory", name)
			}
			rig.Exact(t, r.Actor)
		}
	}
}

// TestKeepsLittle: of the buffers of a large transaction a few stay.
func TestKeepsLittle(t *testing.T) {
	r := newRig(t)
	f := newFile(r)
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.WriteAt(t.Context(), make([]byte, 3*MaxKept*Size), 0); err != nil {
			t.Fatal(err)
		}
		f.Revert()
		if n := len(f.dirty.free); f.Pending() > 0 || n > MaxKept || n == 0 {
			t.Errorf("%d pages are in memory, and %d free ones", f.Pending(), n)
		}
	}
}
