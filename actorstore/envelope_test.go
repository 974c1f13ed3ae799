package actorstore

import (
	"bytes"
	"errors"
	"testing"
)

// TestEnvelopeGolden encodes and decodes every vector of the envelope.
func TestEnvelopeGolden(t *testing.T) {
	p := newPrefix(testID)
	checks := map[string]func(t *testing.T, v vector, want []byte){
		"id-text": func(*testing.T, vector, []byte) {}, // see TestIDText
		"envelope-subspace": func(t *testing.T, v vector, want []byte) {
			if !bytes.Equal(p[:], want) {
				t.Errorf("got %x", p)
			}
		},
		"envelope-prefix": func(t *testing.T, v vector, want []byte) {
			var in struct{ Prefix hexBytes }
			v.input(t, &in)
			if got := p.appendBound(nil, unhex(t, in.Prefix.Hex)); !bytes.Equal(got, want) {
				t.Errorf("got %x", got)
			}
		},
		"envelope-key": checkGoldenKey,
		"KvMetadata":   checkGoldenMetadata,
	}
	for _, v := range vectors(t, "envelope.json") {
		t.Run(v.Name, func(t *testing.T) {
			check := checks[v.Schema]
			if check == nil {
				t.Fatalf("nothing checks the schema %q", v.Schema)
			}
			check(t, v, unhex(t, v.Hex))
		})
	}
}

func checkGoldenKey(t *testing.T, v vector, want []byte) {
	var in struct {
		Key   hexBytes
		Row   string
		Index int
	}
	v.input(t, &in)
	p, key := newPrefix(testID), unhex(t, in.Key.Hex)
	wantColumn := column{metadata: in.Row == "METADATA", index: in.Index}
	got := p.appendBase(nil, key)
	if wantColumn.metadata {
		got = appendMetadata(got)
	} else {
		got = appendData(got, in.Index)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("encoded: got %x, want %x", got, want)
	}
	k, n, err := p.parseBase(nil, want)
	if err != nil || !bytes.Equal(k, key) {
		t.Fatalf("decoded: key %x, %v, want %x", k, err, key)
	}
	if c, err := parseColumn(want[n:]); err != nil || c != wantColumn {
		t.Errorf("decoded: column %+v, %v, want %+v", c, err, wantColumn)
	}
}

func checkGoldenMetadata(t *testing.T, v vector, want []byte) {
	var in struct {
		Version  string
		UpdateTs int64
	}
	v.input(t, &in)
	if got := appendMetadataValue(nil, in.Version, in.UpdateTs); !bytes.Equal(got, want) {
		t.Errorf("encoded: got %x", got)
	}
	version, updated, err := parseMetadataValue(want)
	if string(version) != in.Version || updated != in.UpdateTs || err != nil {
		t.Errorf("decoded: %q, %d, %v", version, updated, err)
	}
}

func TestMetadataSize(t *testing.T) {
	if got := len(appendMetadataValue(nil, metadataVersion, 1)); got != metadataSize {
		t.Errorf("a METADATA value has %d bytes, want %d", got, metadataSize)
	}
}

// TestPhysicalOrder: physical keys sort as the logical ones, a key's DATA rows
// before its METADATA, and bounds lie between.
func TestPhysicalOrder(t *testing.T) {
	p := newPrefix(testID)
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
		bound := p.appendBound(nil, []byte(k))
		if k != "" && bytes.Compare(last, bound) >= 0 {
			t.Errorf("the bound of %q is not above the key before", k)
		}
		if k == "" {
			last = bound
		}
		base := p.appendBase(nil, []byte(k))
		step(appendData(bytes.Clone(base), 0))
		step(appendData(bytes.Clone(base), 1))
		step(appendData(bytes.Clone(base), 255))
		step(appendData(bytes.Clone(base), 256))
		step(appendMetadata(bytes.Clone(base)))
	}
	step(p.appendEnd(nil))
}

func TestRowsOf(t *testing.T) {
	for n, want := range map[int64]int{-1: 0, 0: 0, 1: 1, 9_999: 1, 10_000: 1, 10_001: 2, 20_000: 2, 131_072: 14} {
		if got := rowsOf(n); got != want {
			t.Errorf("%d bytes: got %d rows, want %d", n, got, want)
		}
	}
}

func TestParseBaseErrors(t *testing.T) {
	p := newPrefix(testID)
	base := p.appendBase(nil, []byte("key"))
	other := newPrefix(NewID())
	tests := []struct {
		name string
		key  []byte
	}{
		{"empty", nil},
		{"the prefix alone", p[:]},
		{"another actor", other.appendBase(nil, []byte("key"))},
		{"no nested tuple", append(bytes.Clone(p[:]), 0x01, 'k', 0)},
		{"a text", append(bytes.Clone(p[:]), 0x05, 0x02, 'k', 0, 0)},
		{"no end of the string", base[:len(base)-2]},
		{"no end of the tuple", base[:len(base)-1]},
		{"two elements", append(bytes.Clone(base[:len(base)-1]), 0x14, 0)},
	}
	for _, tt := range tests {
		if k, _, err := p.parseBase(nil, tt.key); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %x, %v, want %v", tt.name, k, err, ErrCorrupt)
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
		if c, err := parseColumn(tail); err == nil {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

// FuzzEnvelope: what decodes encodes to the same bytes, and nothing panics.
func FuzzEnvelope(f *testing.F) {
	p := newPrefix(testID)
	for _, k := range []string{"", "\x04a\x00b", "\x09\x01\x00\x00\x00\x01\x00"} {
		base := p.appendBase(nil, []byte(k))
		f.Add(appendMetadata(bytes.Clone(base)), appendMetadataValue(nil, "1", 5))
		f.Add(appendData(base, 12), []byte{})
	}
	f.Fuzz(func(t *testing.T, physical, value []byte) {
		if key, n, err := p.parseBase(nil, physical); err == nil {
			again := p.appendBase(nil, key)
			if !bytes.Equal(again, physical[:n]) {
				t.Errorf("%x: key %x encodes to %x", physical, key, again)
			}
			if c, err := parseColumn(physical[n:]); err == nil {
				if again = appendMetadata(again); !c.metadata {
					again = appendData(again[:n], c.index)
				}
				if !bytes.Equal(again, physical) {
					t.Errorf("%x: column %+v encodes to %x", physical, c, again)
				}
			}
		}
		if v, ts, err := parseMetadataValue(value); err == nil {
			if again := appendMetadataValue(nil, string(v), ts); !bytes.Equal(again, value) {
				t.Errorf("%x: version %q, time %d encode to %x", value, v, ts, again)
			}
		}
	})
}
