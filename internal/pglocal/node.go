//go:build unix

package pglocal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Node is one server with its data.
type Node struct {
	// Name is the node's name for replication.
	Name string
	// Port is where it listens, on 127.0.0.1.
	Port int

	// Dir is the folder of its data, not there before Initialize.
	Dir string

	programs *Programs
	conf     []string // settings of its command line, "name=value"
	// temporary data go with the server's process.
	temporary bool

	// reserved keeps others off the port while the server doesn't listen. Since a Node may
	// be started again, it is closed when the Node is unreachable, by os.File's own
	// cleanup. Nil: nothing does.
	reserved *os.File

	keeper *exec.Cmd
	alive  io.WriteCloser // the keeper ends the server when this is closed
}

// startTimeout bounds how long a server may take to start or end, recovery
// included, on a machine that has much else to do.
const startTimeout = 5 * time.Minute

// settings are those of every node.
var settings = []string{
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"dynamic_shared_memory_type=mmap", // files among the data: those in /dev/shm outlive a killed server
	"max_connections=400",
	"shared_buffers=128MB",
	"wal_keep_size=512MB",
	"max_wal_senders=10",
	"log_min_messages=warning",
}

// reservePort returns a port that is free. On Linux a socket is bound to it that never
// listens: the system gives the port to no other program then, and a server that asks for
// this one, with SO_REUSEADDR as PostgreSQL does, gets it all the same.
func reservePort() (port int, reserved *os.File, err error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "reserved port")
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var at syscall.Sockaddr
	if err == nil {
		at, err = syscall.Getsockname(fd)
	}
	if err != nil {
		return 0, nil, errors.Join(os.NewSyscallError("bind", err), f.Close())
	}
	port = at.(*syscall.SockaddrInet4).Port
	if runtime.GOOS != "linux" { // others refuse the server what is bound
		return port, nil, f.Close()
	}
	return port, f, nil
}

// New returns a server below the folder dir, with settings "name=value" for its command
// line. It has no data yet, and isn't started.
func (p *Programs) New(dir, name string, conf []string) (*Node, error) {
	port, reserved, err := reservePort()
	return &Node{Name: name, Port: port, Dir: filepath.Join(dir, name), programs: p, conf: conf, reserved: reserved}, err
}

// Beside returns another server, with n's programs and settings, in a folder beside n's. It
// has no data yet, and isn't started.
func (n *Node) Beside(name string) (*Node, error) {
	return n.programs.New(filepath.Dir(n.Dir), name, n.conf)
}

// Shell is Programs.Shell, with n's programs.
func (n *Node) Shell(script string) (string, error) { return n.programs.Shell(script) }

// Initialize makes an empty database cluster. Everybody on loopback may log in.
func (n *Node) Initialize() error {
	_, err := n.programs.Run("initdb", "-D", n.Dir, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N", "--data-checksums")
	return err
}

// keep is the shell that runs a server: when its input ends, because its parent closes it
// or is gone, it ends the server at once, and then removes what it was told to.
const keep = `gone=$1; shift; "$@" </dev/null & cat >/dev/null; kill -QUIT $! 2>/dev/null; wait; [ -z "$gone" ] || rm -rf "$gone"`

// Start starts a server that isn't running, and waits until it takes connections. An
// error has the end of the server's log with it.
func (n *Node) Start() error {
	gone := ""
	if n.temporary {
		gone = filepath.Dir(n.Dir)
	}
	args := []string{"-c", keep, "keep", gone, filepath.Join(n.programs.dir, "postgres"), "-D", n.Dir, "-p", strconv.Itoa(n.Port)}
	for _, c := range append(settings[:len(settings):len(settings)], n.conf...) {
		args = append(args, "-c", c)
	}
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the server has its own
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGTZ=UTC")
	// A group of its own: an interrupt at the terminal is not meant for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.programs.as, Setpgid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	// A pid of an earlier run would look like one of this.
	if err := os.Remove(n.pidPath()); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.keeper, n.alive = cmd, alive
	return n.await()
}

func (n *Node) logPath() string { return n.Dir + ".log" }

func (n *Node) pidPath() string { return filepath.Join(n.Dir, "postmaster.pid") }

// pidFile returns the server's process and what it says of itself, as in the lines
// of its file: https://www.postgresql.org/docs/15/storage-file-layout.html
func (n *Node) pidFile() (pid int, status string) {
	b, err := os.ReadFile(n.pidPath())
	if err != nil {
		return 0, ""
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 8 {
		return 0, ""
	}
	if pid, err = strconv.Atoi(lines[0]); err != nil {
		return 0, ""
	}
	return pid, strings.TrimSpace(lines[7])
}

// await waits until the server takes connections.
func (n *Node) await() error {
	return Poll(func() (bool, error) {
		_, status := n.pidFile()
		return status == "ready" || status == "standby", nil
	})
}

// Poll waits until done says so, or returns an error. There is nothing to be notified by: what is waited
// for happens in other processes.
func Poll(done func() (bool, error)) error {
	deadline := time.Now().Add(startTimeout)
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not so after %v", startTimeout)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Stop ends the server at once, without a checkpoint: its clients' connections
// break, and its next start recovers from its log. A stopped one stays so. The data of a
// Temporary one are gone.
func (n *Node) Stop() error {
	if n.keeper == nil {
		return nil
	}
	if err := n.alive.Close(); err != nil {
		return err
	}
	err := n.keeper.Wait()
	n.keeper = nil
	if _, ok := err.(*exec.ExitError); ok {
		err = nil // how a server ends that is told to
	}
	if n.temporary {
		// The keeper may not remove a folder from one that isn't its own.
		err = errors.Join(err, os.RemoveAll(filepath.Dir(n.Dir)))
	}
	return err
}

// Kill ends every process of the server with SIGKILL, all at one moment: none of
// them gets to finish anything.
func (n *Node) Kill() error {
	pid, _ := n.pidFile()
	if pid == 0 || n.keeper == nil {
		return fmt.Errorf("pglocal: kill %s: it doesn't run", n.Name)
	}
	if err := n.kill(pid); err != nil {
		return fmt.Errorf("pglocal: kill %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) kill(pid int) error {
	// Stopped, it can't start others nor see them end.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	err := Poll(func() (bool, error) { // it may be starting one
		state, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
		return state == "T" || state == "Z" || state == "", nil
	})
	if err != nil {
		return err
	}
	pids, err := children(pid)
	if err != nil {
		return err
	}
	for _, p := range append(pids, pid) {
		if err := syscall.Kill(p, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return err
		}
	}
	err = Poll(func() (bool, error) {
		for _, p := range pids {
			if syscall.Kill(p, 0) == nil && !zombie(p) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return n.Stop()
}

// KillBackend ends one process that serves a client with SIGKILL, as the kernel does for
// lack of memory, and returns when the server has ended all others, recovered, and takes
// connections again.
func (n *Node) KillBackend() error {
	// The query runs in such a process itself.
	out, err := n.SQL("SELECT pg_backend_pid(), pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
	if err != nil {
		return fmt.Errorf("pglocal: kill a backend of %s: %w", n.Name, err)
	}
	_, checkpointer, _ := strings.Cut(out, "|")
	victim := n.programs.command("psql", "-XAtq", "-d", n.URL(""), "-c", "SELECT pg_backend_pid()", "-c", "SELECT pg_sleep(600)")
	lines, err := victim.StdoutPipe()
	if err != nil {
		return err
	}
	if err := victim.Start(); err != nil {
		return fmt.Errorf("pglocal: kill a backend of %s: %w", n.Name, err)
	}
	pid := 0
	_, err = fmt.Fscan(lines, &pid)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = victim.Wait() // the server hangs up
	if err == nil {
		err = Poll(func() (bool, error) {
			now, err := n.SQL("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
			return err == nil && now != "" && now != checkpointer, nil
		})
	}
	if err != nil {
		return fmt.Errorf("pglocal: kill a backend of %s: %w", n.Name, err)
	}
	return nil
}

// Restart ends the server in good order, which breaks its clients' connections, and
// starts it again.
func (n *Node) Restart() error {
	if _, err := n.programs.Run("pg_ctl", "stop", "-D", n.Dir, "-m", "fast", "-w", "-t", "300"); err != nil {
		return err
	}
	if err := n.Stop(); err != nil {
		return err
	}
	return n.Start()
}

// Running reports whether the server was started and not ended from here.
func (n *Node) Running() bool { return n.keeper != nil }

// children returns the processes whose parent is pid.
func children(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, path := range stats {
		if state, parent := stat(path); parent == pid && state != "Z" {
			p, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				return nil, err
			}
			pids = append(pids, p)
		}
	}
	return pids, nil
}

// zombie says whether a process ended and its parent didn't wait for it yet.
func zombie(pid int) bool {
	state, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return state == "Z"
}

// stat returns the state and the parent in a process's line: "PID (NAME) STATE PARENT …".
func stat(path string) (state string, parent int) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", 0 // it has ended
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 2 {
		return "", 0
	}
	parent, err = strconv.Atoi(f[1])
	if err != nil {
		return "", 0
	}
	return f[0], parent
}

// SQL runs a query as the superuser and returns its rows as lines, columns
// separated by "|".
func (n *Node) SQL(query string) (string, error) {
	return n.programs.Run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", n.URL(""), "-c", query)
}

// URL returns the address of the node's database; query, if not empty, is appended
// behind a question mark or an "&".
func (n *Node) URL(query string) string { return URL(query, n) }

// URL returns the address of several nodes, of which the one is meant that takes
// writes.
func URL(query string, nodes ...*Node) string {
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", n.Port))
	}
	u := "postgres://postgres@" + strings.Join(hosts, ",") + "/postgres?sslmode=disable"
	if query != "" {
		u += "&" + query
	}
	return u
}
