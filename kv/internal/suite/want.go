package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// WantGet checks the value of one key; "-" stands for a missing one.
func WantGet(t testing.TB, r kv.Reader, key, want string) {
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

// WantScan checks the entries of a range, written "key=value key=value".
func WantScan(t testing.TB, r kv.Reader, rng kv.Range, want string) {
	t.Helper()
	var got []string
	for e, err := range r.Scan(ctx, rng) {
		if err != nil {
			t.Fatalf("Scan(%v): %v", rng, err)
		}
		got = append(got, fmt.Sprintf("%s=%s", e.Key, e.Value))
	}
	if got := strings.Join(got, " "); got != want {
		t.Fatalf("Scan(%s): got %q, want %q", Describe(rng), got, want)
	}
}

// WantErr checks that err wraps want.
func WantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// ScanErr returns the error that a scan ends with, and how many entries it
// yielded before. An entry that comes with an error fails the test.
func ScanErr(t testing.TB, r kv.Reader, c context.Context, rng kv.Range) (n int, last error) {
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

// Describe prints a range so that nil and empty bounds differ.
func Describe(r kv.Range) string {
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
