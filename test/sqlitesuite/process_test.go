// Package sqlitesuite runs mptest and speedtest1, the stress programs of
// SQLite's own developers, over Greenroom's VFS.
//
// Both are compiled into go-sqlite3's build of SQLite. mptest plays scripts in
// which several processes work on one database, crash and recover; here every
// process is a goroutine with a SQLite of its own, which shares nothing with the
// others but the VFS. The scripts are read from go-sqlite3's module.
//
// The same programs run over go-sqlite3's file VFS first: when they fail there,
// the fault is in this package.
package sqlitesuite

import (
	"context"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/internal/sqlite3_wrap"
	"github.com/ncruces/go-sqlite3/internal/testenv"
)

//go:linkname createWrapper github.com/ncruces/go-sqlite3.createWrapper
func createWrapper(ctx context.Context) (*sqlite3_wrap.Wrapper, error)

// maxMemory bounds each process, in bytes.
const maxMemory = 32 << 20

// stragglers is how long processes may live on after the first one returned.
const stragglers = time.Minute

// A machine is what the processes of one program share: the terminal they
// print on, and the list of those that run. The package testenv is go-sqlite3's
// libc for these programs, and global: one machine runs at a time.
type machine struct {
	ctx  context.Context
	main func(w *sqlite3_wrap.Wrapper, argc, argv int32) int32

	processes sync.WaitGroup
	mu        sync.Mutex
	lines     []string // printed; guarded by mu
	broken    []string // what no process may do; guarded by mu
}

// exitStatus is the panic by which a process ends that calls exit.
type exitStatus int32

// run starts a program over files, and waits for it and every process that it
// started. It returns what they printed, line by line, and the status of the
// first.
func (m *machine) run(t *testing.T, files fs.FS, args ...string) (lines []string, status int32) {
	t.Helper()
	m.ctx = sqlite3.WithMaxMemory(t.Context(), maxMemory)
	testenv.TB, testenv.FS = m, files
	testenv.Exit = func(c int32) { panic(exitStatus(c)) }
	testenv.System = m.system

	status = m.start(args)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.processes.Wait()
	}()
	select {
	case <-done:
	case <-time.After(stragglers):
		t.Errorf("processes of %q are still running a minute after it returned", args)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.broken {
		t.Error(b)
	}
	return m.lines, status
}

// start runs one process to its end and returns its status.
func (m *machine) start(args []string) (status int32) {
	w, err := createWrapper(m.ctx)
	if err != nil {
		m.complain("start %q: %v", args, err)
		return -1
	}
	// A process that ends loses its file handles, as a real one does, whatever
	// it was in the middle of.
	defer func() {
		if err := w.Close(); err != nil {
			m.complain("end of %q: %v", args, err)
		}
	}()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitStatus:
			status = int32(r)
		default:
			m.complain("%q: panic: %v\n%s", args, r, debug.Stack())
			status = -1
		}
	}()
	const ptr = sqlite3_wrap.PtrLen
	argv := w.New(int64(ptr * len(args)))
	for i, arg := range args {
		w.Write32(argv+sqlite3_wrap.Ptr_t(i)*ptr, uint32(w.NewString(arg)))
	}
	return m.main(w, int32(len(args)), int32(argv))
}

// system is C's system(3): mptest starts its clients with it, in the background.
func (m *machine) system(command string) int32 {
	args := strings.Fields(command)
	for i, arg := range args {
		args[i] = strings.Trim(arg, `"`)
	}
	if len(args) < 2 || args[0] != "mptest" || args[len(args)-1] != "&" {
		m.complain("system(%q): not a client in the background", command)
		return -1
	}
	// mptest doesn't tell its clients how long to wait.
	args = append(args[:len(args)-1], "--timeout", patience)
	// A client's status doesn't matter: scripts crash them on purpose.
	m.processes.Go(func() { m.start(args) })
	return 0
}

func (m *machine) complain(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = append(m.broken, fmt.Sprintf(format, args...))
}

// Context and Logf are what testenv wants of a test. Logf doesn't go to the
// test's log, which must not be written to once the test is over.
func (m *machine) Context() context.Context { return m.ctx }

func (m *machine) Logf(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}
