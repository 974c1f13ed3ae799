package actorstore

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestIDText(t *testing.T) {
	found := false
	for _, v := range vectors(t, "envelope.json") {
		if v.Schema != "id-text" {
			continue
		}
		found = true
		var in struct{ Text string }
		v.input(t, &in)
		if got := testID.String(); got != in.Text {
			t.Errorf("String: got %s, want %s", got, in.Text)
		}
		if got, err := ParseID(in.Text); got != testID || err != nil {
			t.Errorf("ParseID: got %v, %v", got, err)
		}
		if n := testID.number(); string(n[:]) != string(unhex(t, v.Hex)) {
			t.Errorf("the bytes are %x, want %s", n, v.Hex)
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
		if id, err := ParseID(tt.text); !errors.Is(err, ErrID) || !id.IsZero() {
			t.Errorf("%s: got %v, %v, want %v", tt.name, id, err, ErrID)
		}
	}
}

func TestNewID(t *testing.T) {
	seen := map[ID]bool{}
	for range 100 {
		id := NewID()
		if seen[id] || id.IsZero() || id.Label != 0 {
			t.Fatalf("got %v", id)
		}
		if v, variant := id.UUID[6]>>4, id.UUID[8]>>6; v != 4 || variant != 2 {
			t.Fatalf("%x: version %d, variant %b", id.UUID, v, variant)
		}
		seen[id] = true
	}
}

// These ids must never change: names lead to them.
func TestIDFromName(t *testing.T) {
	tests := []struct{ name, want string }{
		{"lobby", "hodf9r0nebitxihti137r3va5c0000"},
		{"", "pyehz3634vni9j36rto1irzecl2000"},
		{"日本", "tlr55xq5t16ubo53z34gyje81x2000"},
	}
	for _, tt := range tests {
		if got := IDFromName(tt.name); got.String() != tt.want || got.UUID[6]>>4 != 5 {
			t.Errorf("%q: got %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestIDInJSON(t *testing.T) {
	b, err := json.Marshal(map[ID]ID{testID: testID})
	must(t, err)
	var got map[ID]ID
	must(t, json.Unmarshal(b, &got))
	if got[testID] != testID {
		t.Errorf("%s became %v", b, got)
	}
	var id ID
	if err := json.Unmarshal([]byte(`"x"`), &id); !errors.Is(err, ErrID) {
		t.Errorf("got %v, want %v", err, ErrID)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add(testID.String())
	f.Add(ID{}.String())
	f.Add(strings.Repeat("z", 30))
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseID(text); err == nil && id.String() != text {
			t.Errorf("%q is the id %v, whose text is %q", text, id.number(), id)
		}
	})
}
