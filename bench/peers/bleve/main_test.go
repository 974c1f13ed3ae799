package main

import (
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	for _, workload := range []string{"put", "build", "search", "search-short", "load"} {
		var out strings.Builder
		if err := serve([]string{t.TempDir(), workload, "20000"}, strings.NewReader("2\n1\n"), &out); err != nil || out.String() != "2\n1\n" {
			t.Errorf("%s: %q, %v", workload, out.String(), err)
		}
	}
	if err := serve([]string{t.TempDir(), "fly", "1"}, strings.NewReader(""), nil); err == nil {
		t.Error("fly was accepted")
	}
}
