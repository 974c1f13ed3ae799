//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// hostArgs gives a child process the arguments of the program, as JSON.
const hostArgs = "GREENROOM_TEST_HOST_ARGS"

// hostSchema gives it the version of the types of --demo: how many migrations they have.
const hostSchema = "GREENROOM_TEST_HOST_SCHEMA"

// upgrades returns so many migrations, each of which notes that it has run.
func upgrades(n int) (all greenroom.Migrations) {
	for i := range n {
		all = append(all, greenroom.Migration{Version: uint64(i + 1), SQL: fmt.Sprintf("create table if not exists upgrade(version integer); insert into upgrade values (%d)", i+1)})
	}
	return all
}

// TestHostChild is the program in a process of its own: the test's own file, so that it
// doesn't have to be built, and is looked at by the race detector when the test is.
func TestHostChild(t *testing.T) {
	text := os.Getenv(hostArgs)
	if text == "" {
		t.Skip("it is for the tests of host to run")
	}
	var args []string
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatal(err)
	}
	fillDisk()
	if n, err := strconv.Atoi(os.Getenv(hostSchema)); err == nil {
		types := demoTypes()
		for _, k := range types {
			k.Migrations, k.Version = upgrades(n), fmt.Sprint("v", n)
		}
		demoTypes = func() []*host.Type { return types }
	}
	ctx, sig, stop := serving.WatchSignals(context.Background())
	code := run(ctx, &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, signals: sig}, args)
	stop()
	os.Exit(code)
}

// fillDisk has every write to a file fail from the first SIGUSR1 on, as one to a disk
// does that is full.
func fillDisk() {
	signal.Ignore(syscall.SIGXFSZ) // else it ends the process
	full := make(chan os.Signal, 1)
	signal.Notify(full, syscall.SIGUSR1)
	go func() {
		<-full
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
			panic(err)
		}
	}()
}

// A hostProcess is greenroom host in a process of its own.
type hostProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	said   []string // what it has printed at its start
	stderr logBuffer
	ended  chan struct{} // closed when it has ended
	err    error         // why
}

// A logBuffer is the log of a process.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

// String implements fmt.Stringer.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// hostURL is in the first line that a host prints.
var hostURL = regexp.MustCompile(`^serving (?:.* )?at (http://\S+)$`)

// startHost starts greenroom host on any free port, and waits until it has said where.
//
// program is its path; "" is this test's own file.
func startHost(t *testing.T, program string, args ...string) *hostProcess {
	t.Helper()
	return startServer(t, nil, program, "host", args...)
}

// startServer is startHost of any command that serves, with env as well in its environment.
func startServer(t *testing.T, env []string, program, command string, args ...string) *hostProcess {
	t.Helper()
	p := &hostProcess{t: t, ended: make(chan struct{})}
	args = append([]string{command, "--listen", "127.0.0.1:0"}, args...)
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(program, args...)
	if program == "" {
		p.cmd = exec.Command(os.Args[0], "-test.run=^TestHostChild$")
		env = append(env, hostArgs+"="+string(text))
	}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.said = append(p.said, lines.Text())
		if m := hostURL.FindStringSubmatch(lines.Text()); m != nil {
			p.url = m[1]
		}
		if strings.HasPrefix(lines.Text(), "end it") {
			break
		}
	}
	go func() {
		for lines.Scan() {
		}
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	if p.url == "" {
		<-p.ended
		t.Fatalf("it has said %q, and ended with %v: %s", p.said, p.err, &p.stderr)
	}
	return p
}

// kill ends the process at once, unless it has ended.
func (p *hostProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// post calls an action, and says whether the answer was one of success.
func (p *hostProcess) post(ctx context.Context, path string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", p.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(result)
}

// A hostSocket is a client of such a process.
type hostSocket struct {
	ws          *websocket.Conn
	conn, token string
}

// A hostMessage is a message on a socket, in either direction.
type hostMessage struct {
	Type    string          `json:"type"`
	ID      int             `json:"id,omitempty"`
	Action  string          `json:"action,omitempty"`
	Args    any             `json:"args,omitempty"`
	Params  any             `json:"params,omitempty"`
	Event   string          `json:"event,omitempty"`
	Conn    string          `json:"conn,omitempty"`
	Token   string          `json:"token,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
	Code    string          `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`

	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

// dial opens a socket with a first message, and returns what is said to it.
func (p *hostProcess) dial(ctx context.Context, actor string, first hostMessage) (*hostSocket, hostMessage, error) {
	ws, _, err := websocket.Dial(ctx, p.url+"/actors/"+actor+"/connect", nil)
	if err != nil {
		return nil, hostMessage{}, err
	}
	ws.SetReadLimit(1 << 20)
	s := &hostSocket{ws: ws}
	m, err := s.roundTrip(ctx, first, "connected")
	if err != nil {
		return nil, m, err
	}
	s.conn, s.token = m.Conn, m.Token
	return s, m, nil
}

// roundTrip sends a message and waits for an answer of that type, past all events. An error
// message is an error.
func (s *hostSocket) roundTrip(ctx context.Context, m hostMessage, want string) (hostMessage, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	if err := s.ws.Write(ctx, websocket.MessageText, b); err != nil {
		return m, err
	}
	for {
		_, b, err := s.ws.Read(ctx)
		if err != nil {
			return m, err
		}
		var got hostMessage
		if err := json.Unmarshal(b, &got); err != nil {
			return m, err
		}
		switch got.Type {
		case want:
			return got, nil
		case "error":
			return got, fmt.Errorf("%s: %s", got.Code, got.Message)
		}
	}
}

// soonContext is one for what takes no time unless something is wrong.
func soonContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(time.Second))
	t.Cleanup(cancel)
	return ctx
}
