package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A machine is what a measurement depends on and doesn't say by itself.
type machine struct {
	cpu, kernel, sqlite, revision string
	cores                         int
	// sync is the median time that a write of 4 KiB and an fsync take in the
	// folder that is measured in.
	sync time.Duration
}

// inspect looks at the machine, and at the disk below dir.
func inspect(dir string) (machine, error) {
	m := machine{
		cpu: procValue("/proc/cpuinfo", "model name"), kernel: firstLine("/proc/sys/kernel/osrelease"),
		revision: revision(), cores: runtime.GOMAXPROCS(0),
	}
	var err error
	if m.sqlite, err = sqliteVersion(); err != nil {
		return m, err
	}
	m.sync, err = syncTime(dir)
	return m, err
}

func (m machine) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "cpu       %s, %d cores\nsystem    %s/%s, kernel %s\nversions  %s, SQLite %s, revision %s\nfsync     %v for 4 KiB in the measured folder (median)\n",
		m.cpu, m.cores, runtime.GOOS, runtime.GOARCH, m.kernel,
		runtime.Version(), m.sqlite, m.revision, m.sync.Round(time.Microsecond))
	return err
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

// revision is the commit that the program was built from; go run doesn't stamp
// it, go build does.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
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
