package vfs

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/actorstore"
)

func TestNamedKeysGolden(t *testing.T) {
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

func TestParseNamedChunk(t *testing.T) {
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

func FuzzNamedChunk(f *testing.F) {
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

// TestNamedKey translates today's keys, and no others.
func TestNamedKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.StringMatching(`[a-zé.-]{1,9}`).Draw(t, "base")
		tag := actorstore.FileTag(rapid.IntRange(0, 3).Draw(t, "tag"))
		i := rapid.Uint32().Draw(t, "i")
		got, ok := namedKey(layout, base, layout.AppendFileChunk(nil, tag, i))
		if name, n, parsed := layout.ParseNamedFileChunk(got); !ok || !parsed || n != i || name != base+namedSuffixes[tag] {
			t.Fatalf("chunk %d of %s: %x is chunk %d of %q", i, tag, got, n, name)
		}
		got, ok = namedKey(layout, base, layout.AppendFileMeta(nil, tag))
		if !ok || string(got) != "\x09\x00"+base+namedSuffixes[tag] {
			t.Fatalf("metadata of %s: %x", tag, got)
		}
	})
	for _, key := range [][]byte{nil, {9, 0}, {9, 0, 4}, {9, 1, 0}, {9, 1, 0, 0, 0, 0}, {9, 1, 0, 0, 0, 0, 0, 0}, {9, 0, 0, 0}, {8, 0, 0}, layout.AppendNamedFileMeta(nil, "a")} {
		if got, ok := namedKey(layout, "a", key); ok {
			t.Errorf("%x became %x", key, got)
		}
	}
}
