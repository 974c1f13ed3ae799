package lint

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// permissive are the licences that ask for no more than to be named.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0"}

// TestLinked compares what the program links, with cgo and without, with linkedModules.
func TestLinked(t *testing.T) {
	linked := map[string]bool{}
	for _, cgo := range []string{"0", "1"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/greenroom")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED="+cgo)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, errs.String())
		}
		for _, module := range strings.Fields(string(out)) {
			linked[module] = true
		}
	}
	previous := ""
	for _, m := range linkedModules {
		switch {
		case !linked[m.Module]:
			t.Errorf("%s is in LinkedModules, and the program doesn't link it", m.Module)
		case !slices.Contains(permissive, m.License):
			t.Errorf("%s has the licence %s", m.Module, m.License)
		case m.Why == "" || m.Module <= previous:
			t.Errorf("%s has no reason, or is not in its place", m.Module)
		}
		previous = m.Module
		delete(linked, m.Module)
	}
	for _, module := range slices.Sorted(maps.Keys(linked)) {
		t.Errorf("the program links %s: say in LinkedModules under which licence, and why", module)
	}
}
