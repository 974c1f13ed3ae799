package host

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/limits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/tuple"
)

// must fails the test if err is not nil.
var must = testkit.Must

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// quiet is a logger that discards everything.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// A rig is a host on an engine that counts and fails.
type rig struct {
	testing.TB
	*Host
	ctx    context.Context
	engine *faultkv.Engine
	types  []*Type
	opts   Options
}

// Failed is testing.TB's.
func (r *rig) Failed() bool { return r.TB.Failed() }

func newRig(t testing.TB, opts Options, types ...*Type) *rig {
	t.Helper()
	return newRigOn(t, memkv.New(), opts, types...)
}

// newRigOn is newRig with an engine of its own.
func newRigOn(t testing.TB, below kv.Engine, opts Options, types ...*Type) *rig {
	t.Helper()
	r := &rig{TB: t, ctx: t.Context(), engine: faultkv.New(below), types: types, opts: opts}
	if r.opts.Logger == nil {
		r.opts.Logger = quiet
	}
	limits, err := envlimits.Apply(batch.Limits{})
	must(t, err)
	if r.opts.Store == nil {
		r.opts.Store = &greenroom.Options{Limits: limits}
	}
	r.open()
	return r
}

func (r *rig) open() {
	r.Helper()
	var err error
	r.Host, err = Open(r.ctx, r.engine, r.types, &r.opts)
	must(r, err)
}

func (r *rig) close() {
	r.Helper()
	must(r, r.Host.Close(r.ctx))
}

// reopen is a restart in good order.
func (r *rig) reopen() {
	r.Helper()
	r.close()
	r.open()
}

// bubble runs fn with a rig in a bubble with a clock of its own.
func bubble(t *testing.T, opts Options, fn func(r *rig), types ...*Type) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, opts, types...)
		fn(r)
		r.close()
	})
}

// pass lets a time pass in a bubble, where it is made up, and everybody do what there is
// to be done by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// invoke calls an action by its name.
func invoke[Out any](ctx context.Context, h *Host, a Address, action string, in any) (out Out, err error) {
	args, err := Encode(in)
	if err != nil {
		return out, err
	}
	r, err := h.Do(ctx, &Call{Actor: a, Action: action, Args: args})
	if err != nil {
		return out, err
	}
	return out, r.Decode(&out)
}

func (r *rig) call(a Address, action string, in any) int {
	r.Helper()
	n, err := invoke[int](r.ctx, r.Host, a, action, in)
	if err != nil {
		r.Fatalf("%s.%s: %v", a, action, err)
	}
	return n
}

// A sink counts what one transport was sent.
type sink struct {
	mu     sync.Mutex
	events []Event
	closed string
}

func (s *sink) Send(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *sink) Close(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = reason
}

func (s *sink) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		names = append(names, e.Name)
	}
	return names
}

func (s *sink) end() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// lobby is the actor of most tests.
var lobby = Address{"thing", "lobby"}

func thing(actions ...AnyAction) *Type { return &Type{Name: "thing", Actions: actions} }

// add is an action that counts in the state, and newAdd one for a second type.
var add = newAdd()

func newAdd() *Action[int, int] {
	return NewAction("add", func(c *Context, n int) (total int, err error) {
		err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
		return total, err
	})
}

// limitRows yields the rows of a limit, but for records that say nothing.
func limitRows(ctx context.Context, engine kv.Engine, name string) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := limits.Tidy(ctx, engine, name, time.Now().Add(100*time.Hour)); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		start, end := tuple.NewSubspace(tuple.Tuple{"greenroom.host", int64(2), name}).Range()
		for e, err := range engine.Scan(ctx, kv.Range{Start: start, End: end}) {
			if !yield(e, err) {
				return
			}
		}
	}
}
