package memkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestScanRanges compares what it yields with one Scan after another, of the engine and
// of a snapshot, also through a decorator.
func TestScanRanges(t *testing.T) {
	ctx := t.Context()
	db := New()
	var c kv.Commit
	for i := range 50 {
		c.Ops = append(c.Ops, kv.Set(fmt.Appendf(nil, "k%02d", i), fmt.Appendf(nil, "v%d", i)))
	}
	if err := db.Commit(ctx, &c); err != nil {
		t.Fatal(err)
	}
	faulty := faultkv.New(db)
	snap, err := faulty.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	key := func(s string) []byte { return []byte(s) }
	for _, ranges := range [][]kv.Range{
		nil,
		{{}},
		{{Start: key("k10"), End: key("k13")}, {Start: key("k30"), Limit: 2}, {Start: key("x")}},
		{{End: key("k05"), Reverse: true, Limit: 3}, {Start: key("k05"), End: key("k05")}, {Start: key("k49")}},
		{{Start: key("k03"), End: key("k05")}, {Start: key("k02"), End: key("k06")}}, // they may overlap
	} {
		for name, r := range map[string]kv.Reader{"engine": db, "decorated": faulty, "snapshot": snap} {
			var want, got strings.Builder
			for _, one := range ranges {
				for e, err := range r.Scan(ctx, one) {
					fmt.Fprintf(&want, "%s=%s,%v ", e.Key, e.Value, err)
				}
			}
			for e, err := range kv.ScanRanges(ctx, r, ranges) {
				fmt.Fprintf(&got, "%s=%s,%v ", e.Key, e.Value, err)
			}
			if got.String() != want.String() {
				t.Errorf("%s, %v: got %s, want %s", name, ranges, got.String(), want.String())
			}
		}
	}
}

// TestScanRangesEnds stops in the middle of a range, by the caller, by a fault, and by
// the context.
func TestScanRangesEnds(t *testing.T) {
	ctx := t.Context()
	e := faultkv.New(New())
	var c kv.Commit
	for i := range 200 {
		c.Ops = append(c.Ops, kv.Set(fmt.Appendf(nil, "k%03d", i), nil))
	}
	if err := e.Commit(ctx, &c); err != nil {
		t.Fatal(err)
	}
	all := []kv.Range{{Limit: 100}, {}}
	e.Reset()
	n := 0
	for range kv.ScanRanges(ctx, e, all) {
		if n++; n == 3 {
			break
		}
	}
	if got := e.Counts(); n != 3 || got.Scans != 1 || got.Gets != 0 {
		t.Errorf("%d entries, %+v", n, got)
	}
	count := func(ctx context.Context) (n int, err error) {
		for _, failed := range kv.ScanRanges(ctx, e, all) {
			if err != nil {
				t.Error("it went on after an error")
			}
			if err = failed; err == nil {
				n++
			}
		}
		return n, err
	}
	e.Fail(faultkv.Rule{Point: faultkv.BeforeEntry, Skip: 120})
	if n, err := count(ctx); n != 120 || !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("%d entries, %v", n, err)
	}
	e.Heal()
	e.Fail(faultkv.Rule{Point: faultkv.BeforeScan})
	if n, err := count(ctx); n != 0 || !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("%d entries, %v", n, err)
	}
	e.Heal()
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := count(over); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := kv.ScanRanges(ctx, faultkv.New(struct{ kv.Engine }{New()}), all); got != nil {
		t.Error("a decorator of what can't do it says that it can")
	}
}
