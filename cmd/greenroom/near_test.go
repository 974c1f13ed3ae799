package main

import (
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

func TestDidYouMean(t *testing.T) {
	names := []string{"lobby", "music", "musics", "room:1", "room:2", "data", "käse", "x"}
	for name, want := range map[string]string{
		"musik": "music", "musci": "music", "usic": "music", "musiccs": "musics", "musib": "music", "lobby2": "lobby", "kase": "käse",
		"room:3": "room:1 or room:2", "y": "", "nothing": "", "music2000": "", "": "", "daat": "data",
	} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if got := serving.DidYouMean(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestNearStore: a command on a store that isn't there names the store beside it.
func TestNearStore(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "stores/data", "lobby", "k", "v")
	for _, args := range [][]string{{"ls", "stores/daat"}, {"sql", "pebble:stores/date", "lobby", "select 1"}, {"rm", "./stores/dat", "lobby", "k"}} {
		r := program(t.Context(), strings.NewReader(""), args...)
		if want := "; did you mean stores/data?\n"; r.code != serving.ExitFailed || !strings.HasSuffix(r.stderr, want) {
			t.Errorf("%q: status %d, %q", args, r.code, r.stderr)
		}
	}
}
