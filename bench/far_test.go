package main

import (
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestFarEngine: several ranges are one state and one call, of an engine and of a snapshot,
// and nothing below is shared.
func TestFarEngine(t *testing.T) {
	e := faultkv.New(farEngine{memkv.New()})
	if kv.Shared(e) != nil || txn.TransactorOf(e) != nil && txn.TransactorOf(e).TxCaps() != 0 || !e.Limits().Far {
		t.Errorf("an engine that is far shares %v, with limits %+v", kv.Shared(e), e.Limits())
	}
	var c kv.Commit
	for _, k := range []string{"a", "b", "c", "d"} {
		c.Ops = append(c.Ops, kv.Set([]byte(k), nil))
	}
	if err := e.Commit(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	s, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ranges := []kv.Range{{Start: []byte("c")}, {End: []byte("b")}, {Reverse: true, Limit: 1}}
	for _, from := range []kv.Reader{e, s} {
		var got []string
		for entry, err := range kv.ScanRanges(t.Context(), from, ranges) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(entry.Key))
		}
		if want := []string{"c", "d", "a", "d"}; !slices.Equal(got, want) {
			t.Errorf("the ranges have %q, want %q", got, want)
		}
		for range kv.ScanRanges(t.Context(), from, ranges) {
			break // leaves nothing open
		}
	}
	for _, close := range []func() error{s.Close, e.Close} {
		if err := close(); err != nil {
			t.Error(err)
		}
	}
}
