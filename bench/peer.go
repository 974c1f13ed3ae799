package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Other SQLite drivers for Go, on a file in WAL mode with synchronous=FULL. Those are
// programs of bench/peers, and work through database/sql as their users do.
const (
	modernc = "modernc-wal-full" // SQLite translated from C to Go
	mattn   = "mattn-wal-full"   // SQLite in C, through cgo
)

// driver opens the workload in a driver's program, which calls it by the last word of its
// name without a number.
func driver(w workload, peer string) func(*stand) {
	return func(s *stand) {
		what := strings.TrimSuffix(strings.TrimPrefix(w.name, "sqlite/"), "-1")
		rows := map[string]int{"bulk": s.sizes.bulk, "point": s.sizes.point, "range": s.sizes.point, "scan": s.sizes.scan}[what]
		program(s, strings.TrimSuffix(peer, "-wal-full"), filepath.Join(must(filepath.Abs(s.dir)), "bench.db"), what, fmt.Sprint(rows))
	}
}

// speedtest opens sqlite/speedtest1: SQLite's own measure of a bit of everything, in a new
// database each time. It is compiled into go-sqlite3's build of SQLite, but reached only
// from below that module's path: both sides are a program of another module.
// See https://sqlite.org/cpu.html.
func speedtest(place string) func(*stand) {
	return func(s *stand) {
		program(s, "speedtest", cmp.Or(place, greenroomOn(s.on)), strconv.Itoa(s.sizes.speedtest), must(filepath.Abs(s.dir)), s.url)
	}
}

// rivetkit is the system whose formats Greenroom keeps: RivetKit's @rivetkit/sqlite-vfs
// 2.1.3, a SQLite VFS over a key-value store in JavaScript. bench/peers/rivetkit runs it.
const rivetkit = "rivetkit"

// rivetkitOps is how many calls of its key-value store that makes for a transaction of one
// row, with the settings that RivetKit gives its databases: counted, not timed. It is not a
// measurement of a run, since few machines have Node.
const rivetkitOps = 23

// openCalls opens sqlite/ops: how many reads and commits of the engine a durable transaction
// of one row takes, which is what a network would have to carry. The clock goes on by a
// second with every call, so that the ratio is the same on every machine.
func openCalls(s *stand) {
	workload{start: startInsert}.in(anActor)(s)
	s.say = func(_ int, t *tally) {
		t.took = time.Duration(t.reads()+t.counts.Commits+t.counts.Syncs) * time.Second
	}
}

// build builds the program in a folder of the source, unless this run has.
func build(s *stand, folder string) (program string) {
	program = must(filepath.Abs(filepath.Join(s.bin, filepath.Base(folder))))
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return program
	}
	cmd := exec.CommandContext(s.ctx, "go", "build", "-ldflags=-w -s", "-o", program, ".")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		check(fmt.Errorf("%w: %s: %w\n%s", errBuild, folder, err, out))
	}
	return program
}

// program opens a side whose work a program of bench/peers does, with args: see ask.
func program(s *stand, name string, args ...string) {
	dir, _ := peersDir()
	s.processes.ask(s, exec.Command(build(s, filepath.Join(dir, name)), args...))
}
