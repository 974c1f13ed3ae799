package layout_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestEnvelopeGolden encodes and decodes every vector of the envelope.
func TestEnvelopeGolden(t *testing.T) {
	p := layout.NewPrefix(testID)
	checks := map[string]func(t *testing.T, v testkit.Vector, want []byte){
		"id-text": func(*testing.T, testkit.Vector, []byte) {}, // see TestIDText
		"envelope-subspace": func(t *testing.T, v testkit.Vector, want []byte) {
			if !bytes.Equal(p[:], want) {
				t.Errorf("got %x", p)
			}
		},
		"envelope-prefix": func(t *testing.T, v testkit.Vector, want []byte) {
			var in struct{ Prefix testkit.HexBytes }
			v.Decode(t, &in)
			if got := p.AppendBound(nil, in.Prefix); !bytes.Equal(got, want) {
				t.Errorf("got %x", got)
			}
		},
		"envelope-key": checkGoldenKey,
		"KvMetadata":   checkGoldenMetadata,
	}
	for _, v := range testkit.Vectors(t, "envelope.json") {
		t.Run(v.Name, func(t *testing.T) {
			check := checks[v.Schema]
			if check == nil {
				t.Fatalf("nothing checks the schema %q", v.Schema)
			}
			check(t, v, v.Bytes(t))
		})
	}
}

func checkGoldenKey(t *testing.T, v testkit.Vector, want []byte) {
	var in struct {
		Key   testkit.HexBytes
		Row   string
		Index int
	}
	v.Decode(t, &in)
	p, key := layout.NewPrefix(testID), in.Key
	wantColumn := layout.Column{Metadata: in.Row == "METADATA", Index: in.Index}
	got := p.AppendBase(nil, key)
	if wantColumn.Metadata {
		got = layout.AppendMetadata(got)
	} else {
		got = layout.AppendData(got, in.Index)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("encoded: got %x, want %x", got, want)
	}
	k, n, err := p.ParseBase(nil, want)
	if err != nil || !bytes.Equal(k, key) {
		t.Fatalf("decoded: key %x, %v, want %x", k, err, key)
	}
	if c, err := layout.ParseColumn(want[n:]); err != nil || c != wantColumn {
		t.Errorf("decoded: column %+v, %v, want %+v", c, err, wantColumn)
	}
}

func checkGoldenMetadata(t *testing.T, v testkit.Vector, want []byte) {
	var in struct {
		Version  string
		UpdateTs int64
	}
	v.Decode(t, &in)
	if got := layout.AppendMetadataValue(nil, in.Version, in.UpdateTs); !bytes.Equal(got, want) {
		t.Errorf("encoded: got %x", got)
	}
	version, updated, err := layout.ParseMetadataValue(want)
	if string(version) != in.Version || updated != in.UpdateTs || err != nil {
		t.Errorf("decoded: %q, %d, %v", version, updated, err)
	}
}

// TestPhysicalOrder: physical keys sort as the logical ones, a key's DATA rows
// before its METADATA, and bounds lie between.
func TestPhysicalOrder(t *testing.T) {
	p := layout.NewPrefix(testID)
	keys := []string{"", "\x00", "\x00\x00", "\x00\xff", "\x01", "a", "a\x00", "a\x00\x00b", "a\x01", "ab", "a\xff", "b", "\xff", "\xff\x00", "\xff\xff"}
	var last []byte
	step := func(next []byte) {
		t.Helper()
		if bytes.Compare(last, next) >= 0 {
			t.Errorf("%x is not below %x", last, next)
		}
		last = next
	}
	for _, k := range keys {
		bound := p.AppendBound(nil, []byte(k))
		if k != "" && bytes.Compare(last, bound) >= 0 {
			t.Errorf("the bound of %q is not above the key before", k)
		}
		if k == "" {
			last = bound
		}
		base := p.AppendBase(nil, []byte(k))
		step(layout.AppendData(bytes.Clone(base), 0))
		step(layout.AppendData(bytes.Clone(base), 1))
		step(layout.AppendData(bytes.Clone(base), 255))
		step(layout.AppendData(bytes.Clone(base), 256))
		step(layout.AppendMetadata(bytes.Clone(base)))
	}
	step(p.AppendEnd(nil))
}

func TestRowsOf(t *testing.T) {
	for n, want := range map[int64]int{-1: 0, 0: 0, 1: 1, 9_999: 1, 10_000: 1, 10_001: 2, 20_000: 2, 131_072: 14} {
		if got := layout.RowsOf(n); got != want {
			t.Errorf("%d bytes: got %d rows, want %d", n, got, want)
		}
	}
}

func TestParseBaseErrors(t *testing.T) {
	p := layout.NewPrefix(testID)
	base := p.AppendBase(nil, []byte("key"))
	other := layout.NewPrefix(layout.ID{Label: 7})
	tests := []struct {
		name string
		key  []byte
	}{
		{"empty", nil},
		{"the prefix alone", p[:]},
		{"another actor", other.AppendBase(nil, []byte("key"))},
		{"no nested tuple", append(bytes.Clone(p[:]), 0x01, 'k', 0)},
		{"a text", append(bytes.Clone(p[:]), 0x05, 0x02, 'k', 0, 0)},
		{"no end of the string", base[:len(base)-2]},
		{"no end of the tuple", base[:len(base)-1]},
		{"two elements", append(bytes.Clone(base[:len(base)-1]), 0x14, 0)},
	}
	for _, tt := range tests {
		if k, _, err := p.ParseBase(nil, tt.key); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got %x, %v, want %v", tt.name, k, err, kv.ErrCorrupt)
		}
	}
}

func TestParseColumnErrors(t *testing.T) {
	for name, tail := range map[string][]byte{
		"empty":                {},
		"unknown column":       {0x15, 0x05},
		"negative column":      {0x13, 0xfe},
		"text":                 {0x02, 'a', 0},
		"METADATA and more":    {0x15, 0x2c, 0x14},
		"DATA without a row":   {0x15, 0x04},
		"DATA row −1":          {0x15, 0x04, 0x13, 0xfe},
		"DATA row 2^32":        {0x15, 0x04, 0x19, 1, 0, 0, 0, 0},
		"DATA and more":        {0x15, 0x04, 0x14, 0x14},
		"a longer form of one": {0x15, 0x04, 0x16, 0x00, 0x01},
	} {
		if c, err := layout.ParseColumn(tail); err == nil {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

// FuzzEnvelope: what decodes encodes to the same bytes, and nothing panics.
func FuzzEnvelope(f *testing.F) {
	p := layout.NewPrefix(testID)
	for _, k := range []string{"", "\x04a\x00b", "\x09\x01\x00\x00\x00\x01\x00"} {
		base := p.AppendBase(nil, []byte(k))
		f.Add(layout.AppendMetadata(bytes.Clone(base)), layout.AppendMetadataValue(nil, "1", 5))
		f.Add(layout.AppendData(base, 12), []byte{})
	}
	f.Fuzz(func(t *testing.T, physical, value []byte) {
		if key, n, err := p.ParseBase(nil, physical); err == nil {
			again := p.AppendBase(nil, key)
			if !bytes.Equal(again, physical[:n]) {
				t.Errorf("%x: key %x encodes to %x", physical, key, again)
			}
			if c, err := layout.ParseColumn(physical[n:]); err == nil {
				if again = layout.AppendMetadata(again); !c.Metadata {
					again = layout.AppendData(again[:n], c.Index)
				}
				if !bytes.Equal(again, physical) {
					t.Errorf("%x: column %+v encodes to %x", physical, c, again)
				}
			}
		}
		if v, ts, err := layout.ParseMetadataValue(value); err == nil {
			if again := layout.AppendMetadataValue(nil, string(v), ts); !bytes.Equal(again, value) {
				t.Errorf("%x: version %q, time %d encode to %x", value, v, ts, again)
			}
		}
	})
}
