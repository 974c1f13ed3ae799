package actorstore_test

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestDamagedRecords: rows where none belong are reported, not skipped.
func TestDamagedRecords(t *testing.T) {
	tests := []struct {
		name string
		key  []byte
		row  []byte
	}{
		{"a name without a head", layout.RecordKey(layout.ID(testID), layout.PartName), []byte("n")},
		{"a row of another kind", append(layout.RecordKey(layout.ID(testID), layout.PartHead), 0x15, 0x0f), nil},
		{"a bad head", layout.RecordKey(layout.ID(testID), layout.PartHead), []byte{1, 0, 1}},
	}
	for _, tt := range tests {
		eng := memkv.New()
		s := openStore(t, eng, smallLimits)
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(tt.key, tt.row)}}))
		if _, err := s.Actor(ctx, testID, nil); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("%s: Actor returned %v, want %v", tt.name, err, actorstore.ErrCorrupt)
		}
		if _, err := s.View(ctx, testID); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("%s: View returned %v, want %v", tt.name, err, actorstore.ErrCorrupt)
		}
		failed := false
		for _, err := range s.Actors(ctx, nil) {
			failed = failed || errors.Is(err, actorstore.ErrCorrupt)
		}
		if !failed {
			t.Errorf("%s: Actors noticed nothing", tt.name)
		}
		// A failed opening leaves the place free.
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(tt.key)}}))
		openActor(t, s)
	}
}
