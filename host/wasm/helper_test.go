package wasm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// must fails the test if err is not nil.
var must = testkit.Must

// quiet is a logger that discards everything.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// guestCode is the module of testdata/guest, which is built once for all tests.
var guestCode = sync.OnceValues(func() (code []byte, err error) {
	dir, err := os.MkdirTemp("", "wasm")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-w -s", "-o", file, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(err, errors.New(string(out)))
	}
	return os.ReadFile(file)
})

// goModule is that module, compiled once for all tests.
var goModule = sync.OnceValues(func() (*Module, error) {
	code, err := guestCode()
	if err != nil {
		return nil, err
	}
	return Compile(context.Background(), "thing", code, &Options{TurnTimeout: time.Hour}) // no test of it is about time
})

// lobby is the actor of most tests.
var lobby = host.Address{Type: "thing", Key: "lobby"}

// A rig is a host of one module on an engine in memory.
type rig struct {
	testing.TB
	*host.Host
	ctx    context.Context
	engine kv.Engine
	opts   host.Options
	kind   *host.Type
}

// Failed is testing.TB's.
func (r *rig) Failed() bool { return r.TB.Failed() }

func newRig(t testing.TB, m *Module, opts host.Options) *rig {
	t.Helper()
	return newRigOf(t, m.Type(), opts)
}

func newRigOf(t testing.TB, kind *host.Type, opts host.Options) *rig {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = quiet
	}
	opts.TurnTimeout, opts.IdleTimeout = -1, time.Hour // on a slow machine, too
	r := &rig{TB: t, ctx: t.Context(), engine: memkv.New(), opts: opts, kind: kind}
	r.open()
	return r
}

func (r *rig) open() {
	r.Helper()
	var err error
	r.Host, err = host.Open(r.ctx, r.engine, []*host.Type{r.kind}, &r.opts)
	must(r, err)
}

func (r *rig) close() {
	r.Helper()
	must(r, r.Host.Close(r.ctx))
}

// thing returns the Go module. What goes on in it the race detector doesn't see, and would
// take minutes to compile: the modules that are written by hand do for what is around it.
func thing(t *testing.T) *Module {
	t.Helper()
	if testkit.Race {
		t.Skip("a module in Go takes minutes to compile with the race detector")
	}
	m, err := goModule()
	must(t, err)
	return m
}

// withGo runs fn with a host of the Go module.
func withGo(t *testing.T, fn func(r *rig)) {
	t.Helper()
	r := newRig(t, thing(t), host.Options{})
	fn(r)
	r.close()
}

// invoke calls an action by its name.
func invoke[Out any](ctx context.Context, h *host.Host, a host.Address, action string, in any) (out Out, err error) {
	args, err := host.Encode(in)
	if err != nil {
		return out, err
	}
	r, err := h.Do(ctx, &host.Call{Actor: a, Action: action, Args: args})
	if err != nil {
		return out, err
	}
	return out, r.Decode(&out)
}

// call1 calls an action that must succeed.
func call1[Out any](r *rig, a host.Address, action string, in any) Out {
	r.Helper()
	out, err := invoke[Out](r.ctx, r.Host, a, action, in)
	if err != nil {
		r.Fatalf("%s.%s: %v", a, action, err)
	}
	return out
}

// code calls an action and returns the code of its error.
func (r *rig) code(a host.Address, action string, in any) string {
	r.Helper()
	_, err := invoke[any](r.ctx, r.Host, a, action, in)
	if err == nil {
		return ""
	}
	return host.Code(err)
}

// A logBook is what is logged.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
