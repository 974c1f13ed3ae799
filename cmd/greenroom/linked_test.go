package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSendsNothing holds that no code which could report errors to others is in the program.
// Pebble's errors come from cockroachdb/errors, which imports a client for that, sentry-go.
// As long as nothing calls it, the linker leaves out all of the client but what initializes
// its variables, and comparisons of its types.
func TestSendsNothing(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "nm", builtProgram(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	code, reporter := 0, 0 // functions of the program, and of what could report
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.EqualFold(fields[1], "T") {
			continue
		}
		code++
		name := fields[2]
		if !strings.HasPrefix(name, "github.com/getsentry/sentry-go") && !strings.HasPrefix(name, "github.com/cockroachdb/errors/report.") &&
			!strings.HasPrefix(name, "github.com/cockroachdb/errors.ReportError") {
			continue
		}
		if reporter++; !strings.HasSuffix(name, ".init") { // of a package's variables
			t.Errorf("the program has %s", name)
		}
	}
	if code < 1000 || reporter == 0 {
		t.Errorf("%d functions, %d of the reporter: is it linked at all, and are they named as this test believes?", code, reporter)
	}
}
