package persist

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var ctx = context.Background()

// must fails the test if err is not nil.
var must = testkit.Must

// wantErr fails the test unless err is want.
func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

// A world is an engine with one actor, which can be opened again and again.
type world struct {
	t      testing.TB
	eng    *faultkv.Engine
	limits batch.Limits
	store  *actorstore.Store
	actor  *actorstore.Actor
	rec    *Record
	log    logs
}

func newWorld(t testing.TB) *world { return newWorldOn(t, memkv.New()) }

func newWorldOn(t testing.TB, e kv.Engine) *world {
	w := &world{t: t, eng: faultkv.New(e)}
	t.Cleanup(w.leave)
	return w
}

// healthy checks the whole store: what the actor's head counts is what is stored.
func (w *world) healthy() {
	w.t.Helper()
	for f, err := range w.store.Check(ctx) {
		must(w.t, err)
		w.t.Errorf("finding: %v", f)
	}
}

// enter opens store and actor, as a new process would.
func (w *world) enter() *actorstore.Actor {
	w.t.Helper()
	w.leave()
	l, err := envlimits.Apply(w.limits)
	must(w.t, err)
	w.store, err = actorstore.Open(ctx, w.eng, &actorstore.Options{Limits: l})
	must(w.t, err)
	w.actor, err = w.store.Named(ctx, "lobby", nil)
	must(w.t, err)
	return w.actor
}

// leave ends the process.
func (w *world) leave() {
	if w.rec != nil {
		w.rec.drop()
	}
	if w.actor != nil {
		must(w.t, w.actor.Close())
		must(w.t, w.store.Close())
	}
	w.rec, w.actor, w.store = nil, nil, nil
}

// drop ends the Record, whatever its actor says.
func (r *Record) drop() {
	if err := r.Close(ctx); err != nil {
		panic(err)
	}
}

// open opens the record in a process of its own, creating it where it is missing.
func (w *world) open(opts *Options) *Record {
	w.t.Helper()
	r, err := w.tryOpen(opts)
	must(w.t, err)
	return r
}

func (w *world) tryOpen(opts *Options) (*Record, error) {
	w.t.Helper()
	w.enter()
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Create = true
	if o.Logger == nil {
		o.Logger = w.log.logger()
	}
	r, err := Open(ctx, w.actor, &o)
	w.rec = r
	return r, err
}

// stored returns what is stored in the actor's record.
func (w *world) stored() *Contents {
	w.t.Helper()
	snap, err := w.actor.Snapshot(ctx)
	must(w.t, err)
	defer snap.Close()
	c, err := Look(ctx, snap)
	must(w.t, err)
	return c
}

// count is a state.
type count struct {
	Count int    `json:"count"`
	Pad   string `json:"pad,omitempty"`
}

// encoded returns v in CBOR.
func encoded(v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// decode returns the count in CBOR.
func decode(raw []byte, err error) (v count, _ error) {
	if err != nil {
		return v, err
	}
	return v, cbor.Unmarshal(raw, &v)
}

// mutate has tx replace the state by what fn makes of the one that tx shows now.
func mutate(tx *Tx, fn func(*count) error) error {
	v, err := decode(tx.RawState())
	if err == nil {
		err = fn(&v)
	}
	if err != nil {
		return err
	}
	return tx.SetRawState(encoded(v))
}

// later is mutate when b is committed, of the state as it is then.
func later(r *Record, b *batch.Batch, fn func(*count) error) {
	b.Late(func(b *batch.Batch) error { return mutate(r.In(b), fn) })
}

// A counter changes a record's state by commits of its own.
type counter struct{ r *Record }

func (c counter) get() (count, error) { return decode(c.r.RawState()) }

func (c counter) set(ctx context.Context, v count) error {
	var b batch.Batch
	if err := c.r.In(&b).SetRawState(encoded(v)); err != nil {
		return err
	}
	return c.r.commit(ctx, &b)
}

func (c counter) mutate(ctx context.Context, fn func(*count) error) error {
	var b batch.Batch
	later(c.r, &b, fn)
	return c.r.commit(ctx, &b)
}

func add(n int) func(*count) error {
	return func(c *count) error { c.Count += n; return nil }
}

// got returns the count in memory.
func got(t testing.TB, r *Record) int {
	t.Helper()
	v, err := counter{r}.get()
	must(t, err)
	return v.Count
}

// countIn returns the count that is stored.
func (w *world) countIn() int {
	w.t.Helper()
	v, err := decode(w.stored().State, nil)
	must(w.t, err)
	return v.Count
}

// refuse makes the engine refuse commits and stay healthy.
func (w *world) refuse(times int) *faultkv.Fault {
	return w.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: times, Err: kv.ErrTooLarge})
}

// logs is a log that is kept.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logs) lines(with string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, with) {
			n++
		}
	}
	return n
}

const sec = time.Second

// pass lets d pass in a synctest bubble, and what comes of it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// clockAt is an alarm clock whose time of day a test may set.
type clockAt struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clockAt) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.ahead)
}

func (c *clockAt) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *clockAt) clock() *alarm.Clock { return alarm.New(&alarm.Options{Now: c.now}) }
