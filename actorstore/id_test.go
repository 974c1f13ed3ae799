package actorstore

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseIDErrors(t *testing.T) {
	if id, err := ParseID(strings.ToUpper(testID.String())); !errors.Is(err, ErrID) || !id.IsZero() {
		t.Errorf("got %v, %v, want %v", id, err, ErrID)
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
