package workflow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

var ctx = context.Background()

// must fails the test if err is not nil.
var must = testkit.Must

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// A rig is an actor with a queue, on an engine that counts and fails, and what its
// workflows did.
type rig struct {
	t      testing.TB
	engine *faultkv.Engine
	limits batch.Limits
	opts   Options
	store  *actorstore.Store
	actor  *actorstore.Actor
	clock  *alarm.Clock
	q      *queue.Queue

	healed func() // called before a broken engine is mended; may be nil

	mu     sync.Mutex
	closer []func() error // of workflows
	did    []string       // effects, in order
}

func newRig(t testing.TB) *rig { return newRigWith(t, Options{}) }

func newRigWith(t testing.TB, opts Options) *rig {
	t.Helper()
	r := &rig{t: t, engine: faultkv.New(memkv.New()), opts: opts}
	if r.opts.Logger == nil {
		r.opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	var err error
	r.limits, err = envlimits.Apply(r.limits)
	must(t, err)
	r.open()
	t.Cleanup(r.close)
	return r
}

func (r *rig) open() {
	r.t.Helper()
	must(r.t, r.tryOpen())
}

func (r *rig) tryOpen() (err error) {
	if r.store, err = actorstore.Open(ctx, r.engine, &actorstore.Options{Limits: r.limits}); err != nil {
		return err
	}
	if r.actor, err = r.store.Named(ctx, "lobby", &actorstore.ActorOptions{Layout: layout}); err != nil {
		return err
	}
	r.clock = alarm.New(nil)
	r.q, err = queue.Open(ctx, r.actor, &queue.Options{Env: part.Env{Clock: r.clock, Logger: r.opts.Logger}, KeyWindow: 10_000 * time.Hour})
	return err
}

// close ends everything, and takes no notice of what a broken engine says to that.
func (r *rig) close() {
	for _, c := range r.closer {
		_ = c()
	}
	r.closer = nil
	if r.q != nil {
		_ = r.q.Close()
		r.q = nil
	}
	if r.clock != nil {
		r.clock.Close()
		r.clock = nil
	}
	if r.actor != nil {
		_ = r.actor.Close()
		r.actor = nil
	}
	if r.store != nil {
		_ = r.store.Close()
		r.store = nil
	}
}

// reopen is a restart, also of an engine that was broken.
func (r *rig) reopen() {
	r.t.Helper()
	if r.healed != nil {
		r.healed()
	}
	r.close()
	r.engine.Heal()
	r.open()
}

// begin opens the workflow of the rig, starts it, unless it is, and gives it to the test.
func begin[In, Out any](r *rig, fn Func[In, Out], in In) *Runner[In, Out] {
	r.t.Helper()
	w := attach(r, fn)
	must(r.t, w.Start(ctx, in))
	return w
}

func attach[In, Out any](r *rig, fn Func[In, Out]) *Runner[In, Out] {
	r.t.Helper()
	opts := r.opts
	opts.Queue, opts.Clock = r.q, r.clock
	w, err := Open(ctx, r.actor, fn, &opts)
	must(r.t, err)
	r.closer = append(r.closer, w.Close)
	return w
}

// again is attach after a restart.
func again[In, Out any](r *rig, fn Func[In, Out]) *Runner[In, Out] {
	r.t.Helper()
	r.reopen()
	return attach(r, fn)
}

// do notes an effect.
func (r *rig) do(what ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, fmt.Sprint(what...))
}

// wantDid holds what was done since the last time.
func (r *rig) wantDid(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprint(r.did) != fmt.Sprint(want) {
		r.t.Errorf("did %q, want %q", r.did, want)
	}
	r.did = nil
}

// counted returns what fn asks of the engine.
func (r *rig) counted(fn func()) faultkv.Counts {
	r.engine.Reset()
	fn()
	return r.engine.Counts()
}

// step returns the work of a step that notes itself and returns v.
func work[T any](r *rig, what string, v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		r.do(what)
		return v, nil
	}
}

// fails returns the work of a step that fails n times.
func fails[T any](r *rig, what string, n int, v T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		info, _ := StepInfoOf(ctx)
		r.do(what, info.Attempt)
		if int(info.Attempt) <= n {
			var zero T
			return zero, errors.New("no luck")
		}
		return v, nil
	}
}

// status runs a workflow as far as it comes, and holds the state.
func status[In, Out any](r *rig, w *Runner[In, Out], want State) Status {
	r.t.Helper()
	s, err := w.Run(ctx)
	must(r.t, err)
	if s.State != want {
		r.t.Errorf("the workflow is %v (%+v), want %v", s.State, s, want)
	}
	return s
}

// output runs a workflow to its end and holds what it returns.
func output[In any, Out comparable](r *rig, w *Runner[In, Out], want Out) {
	r.t.Helper()
	got, err := w.Live(ctx)
	must(r.t, err)
	if got != want {
		r.t.Errorf("the workflow returned %v, want %v", got, want)
	}
}

// entry returns what is recorded at a path.
func (r *rig) entry(w *Workflow, path string) (Entry, bool) {
	r.t.Helper()
	s := w.Snapshot()
	for _, e := range s.Entries {
		if s.Path(e.Location) == path {
			return e, true
		}
	}
	return Entry{}, false
}

// paths returns the paths of all entries.
func (r *rig) paths(w *Workflow) (paths []string) {
	s := w.Snapshot()
	for _, e := range s.Entries {
		paths = append(paths, s.Path(e.Location))
	}
	return paths
}

// same holds that what is in memory is what is stored, and that nothing is wrong with it.
func (r *rig) same(w *Workflow) {
	r.t.Helper()
	snap, err := r.actor.Snapshot(ctx)
	must(r.t, err)
	defer snap.Close()
	stored, damage, err := Read(ctx, snap)
	must(r.t, err)
	for _, d := range damage {
		r.t.Errorf("damage: %v", d)
	}
	a, err := stored.MarshalJSON()
	must(r.t, err)
	memory := w.Snapshot()
	memory.Names = memory.Names[:len(stored.Names)] // new ones are stored with the first entry that needs them
	b, err := memory.MarshalJSON()
	must(r.t, err)
	if string(a) != string(b) {
		r.t.Errorf("stored\n%s\nin memory\n%s", a, b)
	}
	for f, err := range r.store.Check(ctx) {
		must(r.t, err)
		r.t.Errorf("check: %s", f)
	}
}

// key checks a user key of the actor; "" means that it is absent.
func (r *rig) key(key, want string) {
	r.t.Helper()
	v, err := r.actor.User().Get(ctx, []byte(key), nil)
	if errors.Is(err, kv.ErrNotFound) {
		err = nil
	}
	must(r.t, err)
	if string(v) != want {
		r.t.Errorf("key %s is %q, want %q", key, v, want)
	}
}

// userList lists the user keys with a prefix.
func userList(prefix string) actorstore.ListOptions {
	return actorstore.ListOptions{Prefix: []byte(prefix)}
}

// later lets time pass, in a bubble.
func later(d time.Duration) { <-time.After(d) }

// newClock returns a clock that stands still.
func newClock(at time.Time) *alarm.Clock {
	return alarm.New(&alarm.Options{Now: func() time.Time { return at }})
}

// placeOf returns the path that an error which ends a run is about, "" if it is about none.
func placeOf(err error) string {
	for _, is := range []error{ErrDiverged, ErrMisuse, errRollback} {
		if errors.Is(err, is) {
			_, rest, _ := strings.Cut(err.Error(), is.Error()+": ")
			path, _, _ := strings.Cut(rest, ": ")
			return path
		}
	}
	return ""
}

// undoIn returns an Undo whose effect is what fn stages.
func undoIn[T any](r *rig, fn func(ctx context.Context, b *batch.Batch, out T) error) Undo {
	return UndoWithin(func(ctx context.Context, out T, land func(*batch.Batch) error) error {
		var b batch.Batch
		defer b.Abort(nil)
		err := fn(ctx, &b, out)
		if err == nil {
			err = land(&b)
		}
		if err != nil {
			return err
		}
		return r.actor.Commit(context.WithoutCancel(ctx), &b)
	})
}
