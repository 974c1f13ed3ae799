package actorstore_test

import (
	"context"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/tuple"
)

// TestOutside: no row of a store of actors is outside of it, and those of other models are.
func TestOutside(t *testing.T) {
	ctx := context.Background()
	eng := memkv.New()
	s, err := actorstore.Open(ctx, eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Actor(ctx, actorstore.IDFromName("room"), &actorstore.ActorOptions{Name: "room"})
	if err != nil {
		t.Fatal(err)
	}
	var b batch.Batch
	b.Put(actorstore.UserKey([]byte("k")), []byte("v"))
	if err := a.Commit(ctx, &b); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range eng.Scan(ctx, kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; actorstore.Outside(e.Key, nil) {
			t.Errorf("the row %x is outside", e.Key)
		}
	}
	if n < 5 {
		t.Errorf("the store has %d rows", n)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	pack := func(el ...any) []byte { return tuple.Tuple(el).Pack() }
	for _, test := range []struct {
		start, end []byte
		want       bool
	}{
		{pack("items", int64(1)), nil, true},
		{pack("docs"), pack("docs", int64(9)), true},
		{pack("greenroom"), nil, false},
		{pack("greenroom.front", int64(1), int64(1)), nil, false},
		{pack("docs"), pack("items"), false},                         // what lies between
		{nil, []byte{0xff}, false},                                   // everything
		{[]byte{0xfe}, []byte{0xff}, true},                           // the end
		{pack("greenroon"), nil, true},                               // behind
		{pack(int64(0), int64(3), int64(73)), nil, true},             // behind the actors
		{pack(int64(0), int64(3), int64(72)), nil, false},            // their root
		{pack("docs"), pack("greenroom")[:10], true},                 // up to them
		{pack(int64(0)), pack(int64(0), int64(3), int64(73)), false}, // around them
	} {
		if got := actorstore.Outside(test.start, test.end); got != test.want {
			t.Errorf("[%x, %x): %v", test.start, test.end, got)
		}
	}
}
