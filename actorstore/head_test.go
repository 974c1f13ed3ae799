package actorstore

import (
	"bytes"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var testHead = head{Epoch: 2, Seq: 258, Used: 1 << 20, Last: kv.CommitID{15: 9}, Created: 1_700_000_000_000}

// The bytes of our own rows, which must not change.
const (
	headHex   = "0100" + "0200000000000000" + "0201000000000000" + "0000100000000000" + "00000000000000000000000000000009" + "0068e5cf8b010000"
	namedHex  = "0100" + "00112233445566778899aabbccddeeff" + "0700" + "0068e5cf8b010000"
	formatHex = "0100" + "0068e5cf8b010000"
)

func TestRowsGolden(t *testing.T) {
	n := named{testID, testHead.Created}
	for hex, got := range map[string][]byte{
		headHex: testHead.append(nil), namedHex: n.append(nil), formatHex: appendFormat(nil, testHead.Created),
	} {
		if !bytes.Equal(got, unhex(t, hex)) {
			t.Errorf("got %x, want %s", got, hex)
		}
	}
	if got, err := parseHead(testID, unhex(t, headHex)); got != testHead || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := parseNamed("n", unhex(t, namedHex)); got != n || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	must(t, checkFormat(unhex(t, formatHex)))
	if n := len(unhex(t, headHex)); n != headSize {
		t.Errorf("a head has %d bytes, headSize is %d", n, headSize)
	}
}

// TestRowsDamaged: every row refuses to be cut short, to be longer, and versions
// that don't exist or are newer.
func TestRowsDamaged(t *testing.T) {
	rows := map[string]struct {
		hex   string
		parse func([]byte) error
	}{
		"head":   {headHex, func(b []byte) error { _, err := parseHead(testID, b); return err }},
		"name":   {namedHex, func(b []byte) error { _, err := parseNamed("n", b); return err }},
		"format": {formatHex, checkFormat},
	}
	for name, row := range rows {
		good := unhex(t, row.hex)
		for n := range good {
			if err := row.parse(good[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s of %d bytes: got %v, want %v", name, n, err, ErrCorrupt)
			}
		}
		if err := row.parse(append(bytes.Clone(good), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s with a byte more: got %v, want %v", name, err, ErrCorrupt)
		}
		bad := bytes.Clone(good)
		bad[0] = 0
		if err := row.parse(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s of version 0: got %v, want %v", name, err, ErrCorrupt)
		}
		bad[0], bad[1] = 3, 1
		var newer *FormatError
		if err := row.parse(bad); !errors.As(err, &newer) || !errors.Is(err, ErrNewerFormat) || newer.Found != 259 || newer.Known != 1 {
			t.Errorf("%s of version 259: got %v, want %v", name, err, ErrNewerFormat)
		}
	}
	negative := testHead
	negative.Used = -1
	if _, err := parseHead(testID, negative.append(nil)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("negative use: got %v, want %v", err, ErrCorrupt)
	}
}

func FuzzHead(f *testing.F) {
	f.Add(unhex(f, headHex))
	f.Add(unhex(f, namedHex))
	f.Add(unhex(f, formatHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := parseHead(testID, b); err == nil && !bytes.Equal(h.append(nil), b) {
			t.Errorf("%x is the head %+v, which is %x", b, h, h.append(nil))
		}
		if n, err := parseNamed("n", b); err == nil && !bytes.Equal(n.append(nil), b) {
			t.Errorf("%x is the name %+v, which is %x", b, n, n.append(nil))
		}
		if checkFormat(b) == nil && len(b) != 10 {
			t.Errorf("%x is a format row", b)
		}
	})
}

// TestDamagedRecords: rows where none belong are reported, not skipped.
func TestDamagedRecords(t *testing.T) {
	tests := []struct {
		name string
		key  []byte
		row  []byte
	}{
		{"a name without a head", headNameKey(testID), []byte("n")},
		{"a row of another kind", append(headKey(testID), 0x15, 0x07), nil},
		{"a bad head", headKey(testID), []byte{1, 0, 1}},
	}
	for _, tt := range tests {
		eng := memkv.New()
		s := openStore(t, eng, smallLimits)
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(tt.key, tt.row)}}))
		if _, err := s.Actor(ctx, testID, nil); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Actor returned %v, want %v", tt.name, err, ErrCorrupt)
		}
		if _, err := s.View(ctx, testID); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: View returned %v, want %v", tt.name, err, ErrCorrupt)
		}
		failed := false
		for _, err := range s.Actors(ctx, nil) {
			failed = failed || errors.Is(err, ErrCorrupt)
		}
		if !failed {
			t.Errorf("%s: Actors noticed nothing", tt.name)
		}
		// A failed opening leaves the place free.
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(tt.key)}}))
		openActor(t, s)
	}
}
