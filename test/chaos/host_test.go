//go:build unix

package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

// Variables by which a process is told that it is a host: where its store is, what the
// process is called, and what the machine is.
const (
	envURL     = "GREENROOM_CHAOS_URL"
	envProcess = "GREENROOM_CHAOS_PROCESS"
	envMachine = "GREENROOM_CHAOS_MACHINE"
)

const (
	// leaseTTL is how long the actors of a host that was killed are out of reach.
	leaseTTL = 2 * time.Second
	// idle is how long an actor without calls stays with its host.
	idle = 300 * time.Millisecond
	// callTimeout is how long a host tries to answer a call, and a little longer is how long
	// a client waits.
	callTimeout = 3 * time.Second
)

// TestHost is a host in a process of its own. It says where it serves when it does, and
// ends when its input does.
func TestHost(t *testing.T) {
	url := os.Getenv(envURL)
	if url == "" {
		t.Skip("only as a process of TestChaos")
	}
	db, err := pgkv.Open(t.Context(), url, nil)
	if err != nil {
		t.Skip(err) // the server is missing: another process tries
	}
	if err := serve(t.Context(), db); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// serve serves a store until the process's input ends.
func serve(ctx context.Context, db *pgkv.DB) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	process := os.Getenv(envProcess)
	h, err := host.Open(ctx, db, []*host.Type{counter(process), ledger()}, &host.Options{
		Store:       &greenroom.Options{Host: actorstore.HostOptions{TTL: leaseTTL, Name: os.Getenv(envMachine)}},
		IdleTimeout: idle,
		Rescan:      leaseTTL,
		Logger:      log,
	})
	if err != nil {
		log.Error("chaos: open", slog.Any("error", err)) // the server is gone
		return nil
	}
	f, err := front.New(h, &front.Options{WithoutToken: true, Secret: make([]byte, 16), CallTimeout: callTimeout, Logger: log})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := f.Server()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	if _, err := fmt.Printf("serving %s\n", l.Addr()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	end, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = errors.Join(f.Shutdown(end), server.Shutdown(end), h.Close(end))
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// A machine has one process of a host after the other.
type machine struct {
	t     testing.TB
	name  string
	host  string // the name that its processes have for one another, may be ""
	proxy *pgtest.Proxy
	url   string
	log   *os.File

	mu        sync.Mutex
	cmd       *exec.Cmd      // that runs, nil for none  +checklocks:mu
	stdin     io.Closer      // of cmd  +checklocks:mu
	address   string         // where cmd serves, "" until it does  +checklocks:mu
	killed    bool           // cmd was  +checklocks:mu
	closing   bool           // no more processes are started  +checklocks:mu
	processes int            // that were started  +checklocks:mu
	work      sync.WaitGroup // run
}

// start starts a process, unless the machine is closing; nil then.
func (m *machine) start() (*exec.Cmd, io.Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return nil, nil, nil
	}
	m.processes++
	cmd := exec.Command(os.Args[0], "-test.run=^TestHost$", "-test.timeout=1h")
	cmd.Env = append(os.Environ(), envURL+"="+m.url, envMachine+"="+m.host, fmt.Sprintf("%s=%s.%d", envProcess, m.name, m.processes))
	cmd.Stderr = m.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	m.cmd, m.stdin, m.address, m.killed = cmd, stdin, "", false
	return cmd, stdout, nil
}

// run has one process follow the other until the machine is closed. One that ends by itself
// when it has begun to serve is an error.
func (m *machine) run() {
	for {
		cmd, out, err := m.start()
		if err != nil {
			m.t.Errorf("host %s: %v", m.name, err)
			return
		}
		if cmd == nil {
			return
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var address string
			if _, err := fmt.Sscanf(lines.Text(), "serving %s", &address); err == nil {
				m.mu.Lock()
				m.address = address
				m.mu.Unlock()
			}
			fmt.Fprintln(m.log, lines.Text())
		}
		err = cmd.Wait()
		m.mu.Lock()
		if m.address != "" && !m.killed && (!m.closing || err != nil) {
			m.t.Errorf("host %s.%d ended by itself: %v", m.name, m.processes, err)
		}
		m.cmd, m.address = nil, ""
		m.mu.Unlock()
	}
}

// at returns where the machine serves, "" while it doesn't.
func (m *machine) at() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.address
}

// signal sends the process a signal, if there is one.
func (m *machine) signal(s syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.signalLocked(s)
}

// signalLocked is signal with the lock held.
func (m *machine) signalLocked(s syscall.Signal) {
	if m.cmd == nil {
		return
	}
	if s == syscall.SIGKILL {
		m.killed = true
	}
	if err := m.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Errorf("host %s: %v: %v", m.name, s, err)
	}
}

// close ends the process in good order, and waits for it.
func (m *machine) close() {
	m.mu.Lock()
	m.closing = true
	m.signalLocked(syscall.SIGCONT)
	if m.cmd != nil {
		m.stdin.Close() // the process may be gone
	}
	m.mu.Unlock()
	m.work.Wait()
}
