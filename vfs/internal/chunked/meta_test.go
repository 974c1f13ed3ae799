package chunked

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
)

func TestMetaGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/filemeta.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name  string
		Input struct {
			Size struct {
				U64 string `json:"$u64"`
			}
		}
		Hex string
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		want, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.ParseUint(v.Input.Size.U64, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendMeta(nil, int64(size)); !bytes.Equal(got, want) {
			t.Errorf("%s: encoded as %x, want %x", v.Name, got, want)
		}
		got, err := ParseMeta(want)
		switch {
		case size > MaxFileSize:
			if !errors.Is(err, actorstore.ErrCorrupt) {
				t.Errorf("%s: a size beyond the last chunk number is accepted: %v", v.Name, err)
			}
		case err != nil || got != int64(size):
			t.Errorf("%s: parsed as %d, %v", v.Name, got, err)
		}
	}
}

func TestMetaCorrupt(t *testing.T) {
	good := AppendMeta(nil, 4096)
	for _, bad := range [][]byte{
		nil, good[:1], good[:2], good[:9], append(bytes.Clone(good), 0),
		append([]byte{0, 0}, good[2:]...), {1, 0, 0, 0, 0, 0, 0, 0, 0, 0x80},
	} {
		if _, err := ParseMeta(bad); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("ParseMeta(%x) = %v, want ErrCorrupt", bad, err)
		}
	}
}

func TestMetaNewer(t *testing.T) {
	_, err := ParseMeta([]byte{2, 0, 1, 2, 3})
	var format *actorstore.FormatError
	if !errors.As(err, &format) || format.Found != 2 || format.Known != 1 || errors.Is(err, actorstore.ErrCorrupt) {
		t.Errorf("a record of version 2: %v", err)
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(AppendMeta(nil, 0))
	f.Add(AppendMeta(nil, 1<<40))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, record []byte) {
		size, err := ParseMeta(record)
		if err == nil && !bytes.Equal(AppendMeta(nil, size), record) {
			t.Errorf("ParseMeta(%x) = %d, which is encoded as %x", record, size, AppendMeta(nil, size))
		}
	})
}
