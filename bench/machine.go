package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A machine is what a measurement depends on and doesn't say by itself.
type machine struct {
	cpu, kernel, memory, disk        string
	sqlite, engine, server, revision string
	cores                            int
	// sync is the median time that a write of 4 KiB and an fsync take in the
	// folder that is measured in.
	sync time.Duration
}

// inspect looks at the machine, and at the disk below dir.
func inspect(dir string) (machine, error) {
	m := machine{
		cpu: procValue("/proc/cpuinfo", "model name"), kernel: firstLine("/proc/sys/kernel/osrelease"),
		memory: memorySize(), disk: fileSystem(dir),
		engine: moduleVersion("github.com/cockroachdb/pebble/v2"), revision: revision(), cores: runtime.GOMAXPROCS(0),
	}
	var err error
	if m.sqlite, err = sqliteVersion(); err != nil {
		return m, err
	}
	m.sync, err = syncTime(dir)
	return m, err
}

// facts are what there is to say about the machine, each with its name.
func (m machine) facts() [][2]string {
	facts := [][2]string{
		{"cpu", fmt.Sprintf("%s, %d cores", m.cpu, m.cores)},
		{"memory", m.memory},
		{"system", fmt.Sprintf("%s/%s, kernel %s", runtime.GOOS, runtime.GOARCH, m.kernel)},
		{"disk", m.disk},
		{"fsync", fmt.Sprintf("%v for 4 KiB in the measured folder (median)", m.sync.Round(time.Microsecond))},
		{"versions", fmt.Sprintf("%s, SQLite %s, Pebble %s, revision %s", runtime.Version(), m.sqlite, m.engine, m.revision)},
	}
	if m.server != "" {
		facts = append(facts, [2]string{"server", m.server})
	}
	return facts
}

// environment is the facts in one line, and whether the run is a quick one.
func (m machine) environment(quick bool) string {
	var parts []string
	for _, f := range m.facts() {
		parts = append(parts, f[0]+" "+f[1])
	}
	if quick {
		parts = append(parts, "quick")
	}
	return strings.Join(parts, "; ")
}

func (m machine) write(w io.Writer) error {
	for _, f := range m.facts() {
		if _, err := fmt.Fprintf(w, "%-9s %s\n", f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// unknown stands for what the system doesn't tell.
const unknown = "unknown"

// firstLine returns the first line of a file, where the system has that file.
func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}

// procValue returns the first value of key in a file of "key : value" lines.
func procValue(path, key string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}

// fileSystem returns the device and the type of the file system that a folder is on.
func fileSystem(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return unknown
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return unknown
	}
	found, at := unknown, ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		below := f[1] == "/" || abs == f[1] || strings.HasPrefix(abs, f[1]+"/")
		if below && len(f[1]) >= len(at) { // a later mount covers the one before
			found, at = f[0]+", "+f[2], f[1]
		}
	}
	return found
}

// memorySize returns how much memory the machine has.
func memorySize() string {
	kib, ok := strings.CutSuffix(procValue("/proc/meminfo", "MemTotal"), " kB")
	n, err := strconv.ParseInt(kib, 10, 64)
	if !ok || err != nil {
		return unknown
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<20))
}

// moduleVersion is the version of a module that the program was built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return unknown
}

// revision is the commit that the program was built from. go run doesn't stamp it, and then
// git is asked about the source.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		out, err := exec.Command("git", "-C", filepath.Dir(file), "describe", "--always", "--dirty", "--abbrev=40").Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return unknown
}

func sqliteVersion() (version string, err error) {
	c, err := sqlite3.Open(":memory:")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stmt, err := prepare(c, `SELECT sqlite_version()`)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	if !stmt.Step() {
		return "", stmt.Err()
	}
	return stmt.ColumnText(0), nil
}

// syncSamples is how many fsyncs syncTime takes the median of.
const syncSamples = 51

// syncTime measures appends of 4 KiB with an fsync each.
func syncTime(dir string) (_ time.Duration, err error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 4096)
	var took []float64
	for range syncSamples {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start)))
	}
	return time.Duration(median(took)), nil
}
