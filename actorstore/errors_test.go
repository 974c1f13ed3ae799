package actorstore_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// What a person reads must name what they can act on.
func TestErrorTexts(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{&actorstore.QuotaError{Used: 1, Wanted: 3, Limit: 2}, "actorstore: quota exceeded: 1 bytes used, 3 wanted, limit 2"},
		{&actorstore.FormatError{What: "store", Found: 3, Known: 1}, "kv: newer format: store has version 3, known are versions up to 1"},
		{&batch.OrderedError{Landed: 1, Total: 3, Err: errTest}, "batch: 1 of 3 sub-batches landed: thrown by the test"},
		{rows.NewPool(actorstore.Describe).Corrupt(user("k"), "row %d", 1), "actorstore: user/k: row 1: kv: corrupt"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestLimits(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{Entries: 5, AtomicBatches: 7})
	want := batch.DefaultLimits()
	want.Entries, want.AtomicBatches = 5, 7
	if got := openActor(t, s).Limits(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
