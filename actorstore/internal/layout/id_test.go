package layout_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestIDText holds the text of an id. The hex of the vector is the number that it shows.
func TestIDText(t *testing.T) {
	found := false
	for _, v := range testkit.Vectors(t, "envelope.json") {
		if v.Schema != "id-text" {
			continue
		}
		found = true
		var in struct{ Text string }
		v.Decode(t, &in)
		if got := testID.String(); got != in.Text {
			t.Errorf("String: got %s, want %s", got, in.Text)
		}
		if got, err := layout.ParseID(in.Text); got != testID || err != nil {
			t.Errorf("ParseID: got %v, %v", got, err)
		}
		n := v.Bytes(t)
		if id := (layout.ID{UUID: [16]byte(n[1:]), Label: binary.BigEndian.Uint16(n[17:])}); n[0] != 1 || id != testID {
			t.Errorf("the bytes %s are those of %v", v.Hex, id)
		}
	}
	if !found {
		t.Error("no vector for the text of an id")
	}
}

func TestParseIDErrors(t *testing.T) {
	good := testID.String()
	tests := []struct{ name, text string }{
		{"empty", ""},
		{"short", good[:29]},
		{"long", good + "0"},
		{"capitals", strings.ToUpper(good)},
		{"sign", "-" + good[1:]},
		{"too large", strings.Repeat("z", 30)},
		{"version 0", strings.Repeat("0", 30)},
		{"version 2", "2" + strings.Repeat("0", 29)},
		{"not ASCII", good[:28] + "é"},
	}
	for _, tt := range tests {
		if id, err := layout.ParseID(tt.text); err == nil || id != (layout.ID{}) {
			t.Errorf("%s: got %v, %v", tt.name, id, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add(testID.String())
	f.Add(layout.ID{}.String())
	f.Add(strings.Repeat("z", 30))
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := layout.ParseID(text); err == nil && id.String() != text {
			t.Errorf("%q is the id %x %d, whose text is %q", text, id.UUID, id.Label, id)
		}
	})
}
