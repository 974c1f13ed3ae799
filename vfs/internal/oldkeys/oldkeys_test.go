package oldkeys_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
)

// layout is that of the keys in these tests.
var layout = actorstore.LayoutGreenroom

func TestGolden(t *testing.T) {
	tests := []struct {
		name, want string
		got        []byte
	}{
		{"metadata", "0900" + "6d61696e2e6462", layout.AppendNamedFileMeta(nil, "main.db")},
		{"metadata of a journal", "0900" + "612d6a6f75726e616c", layout.AppendNamedFileMeta(nil, "a-journal")},
		{"chunk 0", "0901" + "6d61696e2e6462" + "00" + "00000000", layout.AppendNamedFileChunk(nil, "main.db", 0)},
		{"the last chunk", "0901" + "c3a9" + "00" + "ffffffff", layout.AppendNamedFileChunk(nil, "é", 1<<32-1)},
		{"behind something", "ff" + "0901" + "61" + "00" + "00000102", layout.AppendNamedFileChunk([]byte{0xff}, "a", 258)},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestParseChunk(t *testing.T) {
	for _, key := range [][]byte{
		nil, {9}, {9, 1}, {9, 1, 0}, layout.AppendFileChunk(nil, actorstore.FileMain, 7),
		layout.AppendFileChunk(nil, actorstore.FileSHM, 1<<24), {9, 1, 3, 0, 0, 0, 0, 0},
		{9, 1, 'a', 0, 0, 0, 0}, {9, 1, 'a', 0, 0, 0, 0, 0, 0}, {9, 1, 'a', 1, 0, 0, 0, 0}, {9, 1, 0, 0, 0, 0, 0},
		layout.AppendNamedFileMeta(nil, "a"),
	} {
		if name, i, ok := layout.ParseNamedFileChunk(key); ok {
			t.Errorf("%x is chunk %d of %q", key, i, name)
		}
	}
}

func FuzzChunk(f *testing.F) {
	f.Add([]byte("\x09\x01main.db\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x09\x01\x00\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, key []byte) {
		name, i, ok := layout.ParseNamedFileChunk(key)
		if !ok {
			return
		}
		if got := layout.AppendNamedFileChunk(nil, name, i); !bytes.Equal(got, key) {
			t.Errorf("%x is chunk %d of %q, whose key is %x", key, i, name, got)
		}
		start, end := layout.NamedFileChunks(name)
		if bytes.Compare(key, start) < 0 || bytes.Compare(key, end) >= 0 {
			t.Errorf("%x is not in [%x, %x)", key, start, end)
		}
	})
}

// TestKey translates today's keys, and no others.
func TestKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.StringMatching(`[a-zé.-]{1,9}`).Draw(t, "base")
		tag := actorstore.FileTag(rapid.IntRange(0, 3).Draw(t, "tag"))
		i := rapid.Uint32().Draw(t, "i")
		got, ok := oldkeys.Key(layout, base, layout.AppendFileChunk(nil, tag, i))
		if name, n, parsed := layout.ParseNamedFileChunk(got); !ok || !parsed || n != i || name != base+oldkeys.Suffixes[tag] {
			t.Fatalf("chunk %d of %s: %x is chunk %d of %q", i, tag, got, n, name)
		}
		got, ok = oldkeys.Key(layout, base, layout.AppendFileMeta(nil, tag))
		if !ok || string(got) != "\x09\x00"+base+oldkeys.Suffixes[tag] {
			t.Fatalf("metadata of %s: %x", tag, got)
		}
	})
	for _, key := range [][]byte{nil, {9, 0}, {9, 0, 4}, {9, 1, 0}, {9, 1, 0, 0, 0, 0}, {9, 1, 0, 0, 0, 0, 0, 0}, {9, 0, 0, 0}, {8, 0, 0}, layout.AppendNamedFileMeta(nil, "a")} {
		if got, ok := oldkeys.Key(layout, "a", key); ok {
			t.Errorf("%x became %x", key, got)
		}
	}
}

// TestBounds: a chunk that is short reads as zeros up to its end, one without
// bytes too, and nothing beyond the size is seen, in the older form and when moved.
func TestBounds(t *testing.T) {
	const size = 3*chunked.Size + 100
	r := rig.New(t, rig.Options{})
	put := func(key, value []byte) {
		if err := r.Actor.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	ff := bytes.Repeat([]byte{0xff}, chunked.Size)
	put(layout.AppendNamedFileMeta(nil, "f"), chunked.AppendMeta(nil, size))
	put(layout.AppendNamedFileChunk(nil, "f", 0), ff[:10])
	put(layout.AppendNamedFileChunk(nil, "f", 1), nil)
	put(layout.AppendNamedFileChunk(nil, "f", 3), ff) // its end is beyond the file's
	want := make([]byte, size, size+2*chunked.Size)
	copy(want, ff[:10])
	copy(want[3*chunked.Size:], ff)
	old, err := oldkeys.Find(t.Context(), chunked.OfActor(r.Actor))
	if err != nil || old == nil {
		t.Fatal(old, err)
	}
	f := &chunked.File{Tag: actorstore.FileMain, Reader: old, Layout: layout}
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(layout.AppendNamedFileChunk(nil, "f", 4), ff)
	put(layout.AppendNamedFileChunk(nil, "f", 1<<32-1), ff)
	check := func(when string) {
		t.Helper()
		got := make([]byte, len(want)+chunked.Size)
		n, _ := f.ReadAt(t.Context(), got, 0)
		if !bytes.Equal(got[:n], want) {
			t.Errorf("%s: read %d bytes, which are not the %d expected", when, n, len(want))
		}
	}
	check("older form")
	m := oldkeys.Mover{Source: old, Limits: r.Actor.Limits(), Land: r.Actor.Apply}
	if err := m.Move(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	f.Reader = old.Stored()
	check("moved")
	for e, err := range r.Actor.List(t.Context(), actorstore.ListOptions{Prefix: []byte{actorstore.NamespaceSQLite}, KeysOnly: true}) {
		if words := actorstore.Describe(e.Key); err != nil || strings.HasPrefix(words, "sqlite/named/") {
			t.Errorf("left: %s, %v", words, err)
		}
	}
	rig.Exact(t, r.Actor)
	if _, err := f.WriteAt(t.Context(), []byte{1}, size+chunked.Size); err != nil {
		t.Fatal(err)
	}
	want = append(want[:size], make([]byte, chunked.Size+1)...)
	want[size+chunked.Size] = 1
	check("grown")
	var b batch.Batch
	f.Stage(&b, 0, chunked.MaxChunks)
	f.StageSize(b.Final())
	if err := r.Actor.Apply(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	f.Settled()
	check("grown and stored")
	rig.Exact(t, r.Actor)
}
