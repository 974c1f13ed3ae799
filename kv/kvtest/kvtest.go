// Package kvtest is the conformance suite of kv.Engine: what it tests is what the
// packages above an engine rely on, and every engine of this module passes it.
//
// The oracle is a sorted map. The suite uses nothing but the contract, so it
// can't see what is specific to an engine (that data survive a crash, that a
// failing disk poisons): engines test that themselves.
package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// An Opener returns a new, empty engine. The suite closes it; what else must go
// (a directory, a server) open leaves to t.Cleanup.
type Opener func(t testing.TB) kv.Engine

// Run runs the whole suite, as subtests that each open an engine of their own.
func Run(t *testing.T, open func(t testing.TB) kv.Engine) { run(t, open, nil) }

// RunParts runs the subtests of Run with these names, as for an engine that has passed all
// of them and differs in one thing alone. The names of those about transactions begin with
// "Transactions/".
func RunParts(t *testing.T, open func(t testing.TB) kv.Engine, names ...string) {
	chosen := parts{}
	for _, name := range names {
		chosen[name] = false
	}
	run(t, open, chosen)
	chosen.check(t, false)
}

// parts are the names of the subtests to run, and whether each was found; nil means all.
type parts map[string]bool

// take reports whether the subtest is to be run.
func (p parts) take(name string) bool {
	_, chosen := p[name]
	if chosen {
		p[name] = true
	}
	return chosen || p == nil
}

// check fails the test if a name was not found, of those about transactions or of the others.
func (p parts) check(t *testing.T, transactions bool) {
	t.Helper()
	for name, found := range p {
		if !found && strings.HasPrefix(name, "Transactions/") == transactions {
			t.Errorf("kvtest: the suite has no part %q", name)
		}
	}
}

func run(t *testing.T, open Opener, chosen parts) {
	tests := []struct {
		name string
		test func(t *testing.T, open Opener)
	}{
		{"Get", testGet},
		{"EmptyKeysAndValues", testEmpty},
		{"BigValues", testBig},
		{"Ownership", testOwnership},
		{"Scan", testScan},
		{"ScanBounds", testScanBounds},
		{"ScanState", testScanState},
		{"ScanLoop", testScanLoop},
		{"ScanRanges", testScanRanges},
		{"ScanRangesEnds", testScanRangesEnds},
		{"OpOrder", testOpOrder},
		{"ClearMany", testClearMany},
		{"InvalidOps", testInvalidOps},
		{"Checks", testChecks},
		{"OnApply", testOnApply},
		{"Outcome", testOutcome},
		{"Incarnation", testIncarnation},
		{"Shared", testShared},
		{"Limits", testLimits},
		{"Snapshot", testSnapshot},
		{"Context", testContext},
		{"Closed", testClosed},
		{"CloseUnderLoad", testCloseUnderLoad},
		{"Counter", testCounter},
		{"Clears", testClears},
		{"CheckedClears", testCheckedClears},
		{"Atomicity", testAtomicity},
		{"Random", testRandom},
	}
	for _, tt := range tests {
		if chosen.take(tt.name) {
			t.Run(tt.name, func(t *testing.T) { tt.test(t, open) })
		}
	}
	t.Run("Transactions", func(t *testing.T) { // which -run may leave out
		runTransactions(t, open, chosen)
		chosen.check(t, true)
	})
}

var ctx = context.Background()

// start opens an engine that is closed when the test ends.
func start(t testing.TB, open Opener) kv.Engine {
	t.Helper()
	eng := open(t)
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return eng
}

func set(key, value string) kv.Op        { return kv.Set([]byte(key), []byte(value)) }
func del(key string) kv.Op               { return kv.Clear([]byte(key)) }
func delRange(start, end string) kv.Op   { return kv.ClearRange([]byte(start), []byte(end)) }
func is(key, value string) kv.Check      { return kv.Check{Key: []byte(key), Value: []byte(value)} }
func absent(key string) kv.Check         { return kv.Check{Key: []byte(key), Absent: true} }
func between(start, end string) kv.Range { return kv.Range{Start: []byte(start), End: []byte(end)} }

// commit applies ops, which must succeed. It doesn't wait for durability: the
// suite is about what readers see.
func commit(t testing.TB, eng kv.Engine, ops ...kv.Op) {
	t.Helper()
	if err := eng.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// fill sets every key to its own name in upper case.
func fill(t testing.TB, eng kv.Engine, keys ...string) {
	t.Helper()
	var ops []kv.Op
	for _, k := range keys {
		ops = append(ops, set(k, strings.ToUpper(k)))
	}
	commit(t, eng, ops...)
}

// wantGet checks the value of one key; "-" stands for a missing one.
func wantGet(t testing.TB, r kv.Reader, key, want string) {
	t.Helper()
	v, err := r.Get(ctx, []byte(key), nil)
	got := string(v)
	if errors.Is(err, kv.ErrNotFound) {
		got, err = "-", nil
	}
	if err != nil {
		t.Fatalf("Get(%q): %v", key, err)
	}
	if got != want {
		t.Fatalf("Get(%q): got %s, want %s", key, brief(got), brief(want))
	}
}

// wantScan checks the entries of a range, written "key=value key=value".
func wantScan(t testing.TB, r kv.Reader, rng kv.Range, want string) {
	t.Helper()
	var got []string
	for e, err := range r.Scan(ctx, rng) {
		if err != nil {
			t.Fatalf("Scan(%v): %v", rng, err)
		}
		got = append(got, fmt.Sprintf("%s=%s", e.Key, e.Value))
	}
	if got := strings.Join(got, " "); got != want {
		t.Fatalf("Scan(%s): got %q, want %q", describe(rng), got, want)
	}
}

// wantErr checks that err wraps want.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// wantRefused is wantErr of a commit of which nothing was applied, which its error says too.
func wantRefused(t testing.TB, what string, err, want error) {
	t.Helper()
	wantErr(t, what, err, want)
	wantErr(t, what, err, kv.ErrNotApplied)
}

// scanErr returns the error that a scan ends with, and how many entries it
// yielded before. An entry that comes with an error fails the test.
func scanErr(t testing.TB, r kv.Reader, c context.Context, rng kv.Range) (n int, last error) {
	t.Helper()
	for e, err := range r.Scan(c, rng) {
		switch {
		case last != nil:
			t.Errorf("Scan went on after the error %v", last)
		case err != nil && (e.Key != nil || e.Value != nil):
			t.Errorf("Scan yielded the entry %q with the error %v", e.Key, err)
		}
		if last = err; err == nil {
			n++
		}
	}
	return n, last
}

// describe prints a range so that nil and empty bounds differ.
func describe(r kv.Range) string {
	bound := func(b []byte) string {
		if b == nil {
			return "nil"
		}
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("[%s, %s) limit %d reverse %v", bound(r.Start), bound(r.End), r.Limit, r.Reverse)
}

// brief prints a value without filling the screen.
func brief(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q… (%d bytes)", s[:80], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// pattern returns n bytes that differ for every seed and are hard to compress.
func pattern(n int, seed uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}

// same compares two byte slices as contents: nil and empty are the same.
func same(a, b []byte) bool { return bytes.Equal(a, b) }
