package main

import (
	"cmp"
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
		{"cpu", fmt.Sprintf("%s, %d cores", procValue("/proc/cpuinfo", "model name"), runtime.GOMAXPROCS(0))},
		{"system", fmt.Sprintf("%s/%s, kernel %s", runtime.GOOS, runtime.GOARCH, cmp.Or(proc("/proc/sys/kernel/osrelease"), unknown))},
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

// proc returns what the system says in a file, and nothing where it has no such file.
func proc(path string) string {
	text, _ := os.ReadFile(path) // as said above
	return strings.TrimSpace(string(text))
}

// procValue returns the first value of key in a file of "key : value" lines.
func procValue(path, key string) string {
	for line := range strings.Lines(proc(path)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}

// versions returns the version of Pebble and the commit that the program was built from. go
// run doesn't stamp that, and then git is asked about the source.
func versions() (pebble, revision string) {
	pebble, revision = unknown, unknown
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		out, err := exec.Command("git", "-C", filepath.Dir(file), "describe", "--always", "--dirty", "--abbrev=40").Output()
		if err == nil {
			revision = strings.TrimSpace(string(out))
		}
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return pebble, revision
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/cockroachdb/pebble/v2" {
			pebble = m.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
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
