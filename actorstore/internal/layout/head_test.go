package layout_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

var testHead = layout.Head{Epoch: 2, Seq: 258, Used: 1 << 20, Last: kv.CommitID{15: 9}, Created: 1_700_000_000_000}

// The bytes of our own rows, which must not change.
const (
	headHex   = "0100" + "0200000000000000" + "0201000000000000" + "0000100000000000" + "00000000000000000000000000000009" + "0068e5cf8b010000"
	namedHex  = "0100" + "00112233445566778899aabbccddeeff" + "0700" + "0068e5cf8b010000"
	formatHex = "0100" + "0068e5cf8b010000"
)

func TestRowsGolden(t *testing.T) {
	n := layout.Named{ID: testID, Created: testHead.Created}
	for hex, got := range map[string][]byte{
		headHex: testHead.Append(nil), namedHex: n.Append(nil), formatHex: layout.AppendFormat(nil, testHead.Created),
	} {
		if !bytes.Equal(got, testkit.Unhex(t, hex)) {
			t.Errorf("got %x, want %s", got, hex)
		}
	}
	if got, err := layout.ParseHead(testID, testkit.Unhex(t, headHex)); got != testHead || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := layout.ParseNamed("n", testkit.Unhex(t, namedHex)); got != n || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	must(t, layout.CheckFormat(testkit.Unhex(t, formatHex)))
	if n := len(testkit.Unhex(t, headHex)); n != layout.HeadSize {
		t.Errorf("a head has %d bytes, layout.HeadSize is %d", n, layout.HeadSize)
	}
}

// TestRowsDamaged: every row refuses to be cut short, to be longer, and versions
// that don't exist or are newer.
func TestRowsDamaged(t *testing.T) {
	rows := map[string]struct {
		hex   string
		parse func([]byte) error
	}{
		"head":   {headHex, func(b []byte) error { _, err := layout.ParseHead(testID, b); return err }},
		"name":   {namedHex, func(b []byte) error { _, err := layout.ParseNamed("n", b); return err }},
		"format": {formatHex, layout.CheckFormat},
	}
	for name, row := range rows {
		good := testkit.Unhex(t, row.hex)
		for n := range good {
			if err := row.parse(good[:n]); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("%s of %d bytes: got %v, want %v", name, n, err, kv.ErrCorrupt)
			}
		}
		if err := row.parse(append(bytes.Clone(good), 0)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s with a byte more: got %v, want %v", name, err, kv.ErrCorrupt)
		}
		bad := bytes.Clone(good)
		bad[0] = 0
		if err := row.parse(bad); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s of version 0: got %v, want %v", name, err, kv.ErrCorrupt)
		}
		bad[0], bad[1] = 3, 1
		var newer *kv.FormatError
		if err := row.parse(bad); !errors.As(err, &newer) || !errors.Is(err, kv.ErrNewerFormat) || newer.Found != 259 || newer.Known != 1 {
			t.Errorf("%s of version 259: got %v, want %v", name, err, kv.ErrNewerFormat)
		}
	}
	negative := testHead
	negative.Used = -1
	if _, err := layout.ParseHead(testID, negative.Append(nil)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("negative use: got %v, want %v", err, kv.ErrCorrupt)
	}
}

func FuzzHead(f *testing.F) {
	f.Add(testkit.Unhex(f, headHex))
	f.Add(testkit.Unhex(f, namedHex))
	f.Add(testkit.Unhex(f, formatHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := layout.ParseHead(testID, b); err == nil && !bytes.Equal(h.Append(nil), b) {
			t.Errorf("%x is the head %+v, which is %x", b, h, h.Append(nil))
		}
		if n, err := layout.ParseNamed("n", b); err == nil && !bytes.Equal(n.Append(nil), b) {
			t.Errorf("%x is the name %+v, which is %x", b, n, n.Append(nil))
		}
		if layout.CheckFormat(b) == nil && len(b) != 10 {
			t.Errorf("%x is a format row", b)
		}
	})
}
