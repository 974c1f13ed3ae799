// Package filestest holds the test that every driver of package files passes.
package filestest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/bench/peers/internal/files"
)

// Run does each workload a few times, and what it must refuse.
func Run(t *testing.T, driver string) {
	for _, name := range []string{"insert", "bulk", "point", "range", "scan"} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			args := []string{filepath.Join(t.TempDir(), "a.db"), name, "150"}
			if err := files.Serve(t.Context(), driver, args, strings.NewReader("2\n0\n1\n"), &out); err != nil || out.String() != "2\n0\n1\n" {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
	for _, args := range [][]string{nil, {"a.db", "tape", "1"}, {"a.db", "scan", "all"}} {
		if err := files.Serve(t.Context(), driver, args, strings.NewReader("1\n"), t.Output()); !errors.Is(err, files.ErrUsage) {
			t.Errorf("error %v for %q", err, args)
		}
	}
	missing := []string{filepath.Join(t.TempDir(), "missing", "a.db"), "insert", "1"}
	if err := files.Serve(t.Context(), driver, missing, strings.NewReader("1\n"), t.Output()); err == nil {
		t.Error("no error for a file that can't be made")
	}
	if err := files.Serve(t.Context(), driver, []string{filepath.Join(t.TempDir(), "a.db"), "insert", "1"}, strings.NewReader("one\n"), t.Output()); err == nil {
		t.Error("no error for what is no number")
	}
}
