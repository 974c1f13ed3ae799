package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestSkips: a line whose peer can't be built is left out, with the reason, and the others
// are measured.
func TestSkips(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the compiler that fails is a shell script")
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\necho no compiler today\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	var out, info bytes.Buffer
	if err := tiny(t, "-json", "-run", "traces/span|sqlite/ops").measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "sqlite/ops") {
		t.Errorf("measured\n%s", got)
	}
	if got := info.String(); !strings.Contains(got, "skipped: traces/span "+otelNoop) || !strings.Contains(got, "no compiler today") {
		t.Errorf("said aside\n%s", got)
	}
}

// TestPeerMisbehaves: a program that ends or answers something else is an error.
func TestPeerMisbehaves(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	for name, script := range map[string]string{
		"ends": "exit 0", "other": "read n; echo 7", "counts": "read n; echo $n Gets", "good": `read n; echo "$n {\"Gets\":4}"; read n; echo $n`,
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		// It is there already, so that it isn't built.
		staged(t, site{bin: bin}, func(s *stand) {
			program(s, name)
			err := s.do(5)
			if good := name == "good"; good != (err == nil) {
				t.Errorf("%s: error %v", name, err)
			} else if good {
				first, second := tally{}, tally{counts: faultkv.Counts{Gets: 1}}
				s.say(5, &first)
				check(s.do(5))
				s.say(5, &second)
				if first.counts.Gets != 4 || second.counts.Gets != 0 {
					t.Errorf("its engine was asked for %+v, then %+v; want 4 gets, then nothing", first.counts, second.counts)
				}
			}
		})
	}
}

func TestMain(m *testing.M) { testkit.Main(m) }
