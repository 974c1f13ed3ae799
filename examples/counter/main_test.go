package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestRun runs the program several times on one store.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	for _, args := range []string{"hits 2", "hits 40", "misses", "hits"} {
		if err := run(t.Context(), &out, append([]string{dir}, strings.Fields(args)...)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "2\n42\n1\n43\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, args := range []string{"", "a", "a b c", "a b 1 2"} {
		if err := run(t.Context(), &out, strings.Fields(args)); host.Code(err) != "usage" {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestReset waits until a counter is reset.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := host.Open(t.Context(), memkv.New(), []*host.Actor{counter()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 1}, {40 * time.Second, 2}, {40 * time.Second, 3}, {2 * time.Minute, 1}} {
			time.Sleep(step.wait)
			got, err := host.Invoke[int](t.Context(), h, host.Address{Type: "counter", Key: "a"}, "add", 1)
			if err != nil {
				t.Fatal(err)
			}
			if got != step.want {
				t.Errorf("after %v: got %d, want %d", step.wait, got, step.want)
			}
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
