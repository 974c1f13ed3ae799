package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// facts are what a measurement depends on and doesn't say by itself, each with its name.
type facts [][2]string

// inspect looks at the machine, at the disk below dir and at the server, if there is one.
func inspect(s *stand) facts {
	pebble, revision := versions()
	sqlite := statement(s, connect(s, ":memory:"), `SELECT sqlite_version()`)
	sqlite.Step()
	check(sqlite.Err())
	f := facts{
		{"cpu", fmt.Sprintf("%s, %d cores", processor(), runtime.GOMAXPROCS(0))},
		{"system", fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH)},
		{"fsync", fmt.Sprintf("%v for 4 KiB in the measured folder (median)", syncTime(s).Round(time.Microsecond))},
		{"versions", fmt.Sprintf("%s, SQLite %s, Pebble %s, revision %s", runtime.Version(), sqlite.ColumnText(0), pebble, revision)},
	}
	if s.server != nil {
		f = append(f, [2]string{"server", s.server.describe()})
	}
	return f
}

// environment is the facts in one line, and whether the run is a quick one.
func (f facts) environment(quick bool) string {
	var parts []string
	for _, of := range f {
		parts = append(parts, of[0]+" "+of[1])
	}
	if quick {
		parts = append(parts, "quick")
	}
	return strings.Join(parts, "; ")
}

// unknown stands for what the system doesn't tell.
const unknown = "unknown"

// processor returns what the system calls it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // which not every system has
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, " \t\n:")
		}
	}
	return unknown
}

// versions returns the version of Pebble, and of this source where that is.
func versions() (pebble, revision string) {
	pebble, revision = unknown, unknown
	if dir, ok := peersDir(); ok {
		out, err := exec.Command("git", "-C", dir, "describe", "--always", "--dirty", "--abbrev=40").Output()
		if err == nil {
			revision = strings.TrimSpace(string(out))
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/cockroachdb/pebble/v2" {
				pebble = m.Version
			}
		}
	}
	return pebble, revision
}

// syncSamples is how many fsyncs syncTime takes the median of.
const syncSamples = 51

// syncTime measures appends of 4 KiB with an fsync each.
func syncTime(s *stand) time.Duration {
	f := owned(s, must(os.Create(filepath.Join(s.dir, "fsync"))))
	block := make([]byte, 4096)
	var took []float64
	for range syncSamples {
		start := time.Now()
		must(f.Write(block))
		check(f.Sync())
		took = append(took, float64(time.Since(start)))
	}
	return time.Duration(median(took))
}
