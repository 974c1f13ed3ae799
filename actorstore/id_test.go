package actorstore_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
)

func TestParseIDErrors(t *testing.T) {
	if id, err := actorstore.ParseID(strings.ToUpper(testID.String())); !errors.Is(err, actorstore.ErrID) || !id.IsZero() {
		t.Errorf("got %v, %v, want %v", id, err, actorstore.ErrID)
	}
}

func TestNewID(t *testing.T) {
	seen := map[actorstore.ID]bool{}
	for range 100 {
		id := actorstore.NewID()
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
		if got := actorstore.IDFromName(tt.name); got.String() != tt.want || got.UUID[6]>>4 != 5 {
			t.Errorf("%q: got %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestIDInJSON(t *testing.T) {
	b, err := json.Marshal(map[actorstore.ID]actorstore.ID{testID: testID})
	must(t, err)
	var got map[actorstore.ID]actorstore.ID
	must(t, json.Unmarshal(b, &got))
	if got[testID] != testID {
		t.Errorf("%s became %v", b, got)
	}
	var id actorstore.ID
	if err := json.Unmarshal([]byte(`"x"`), &id); !errors.Is(err, actorstore.ErrID) {
		t.Errorf("got %v, want %v", err, actorstore.ErrID)
	}
}
