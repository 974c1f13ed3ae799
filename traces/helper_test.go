package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var ctx = context.Background()

// must fails the test if err is not nil.
var must = testkit.Must

// t0 is when tests begin that have a clock of their own: at the beginning of a bucket.
var t0 = time.Unix(1_700_006_400, 0).UTC()

// A rig is an actor with traces, on an engine that counts and fails.
type rig struct {
	t      testing.TB
	engine *faultkv.Engine
	limits batch.Limits
	opts   Options
	store  *actorstore.Store
	actor  *actorstore.Actor
	*Traces
}

func newRig(t testing.TB, opts Options) *rig {
	t.Helper()
	return newRigOn(t, memkv.New(), opts, batch.Limits{})
}

func newRigOn(t testing.TB, engine kv.Engine, opts Options, limits batch.Limits) *rig {
	t.Helper()
	limits, err := envlimits.Apply(limits)
	must(t, err)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	r := &rig{t: t, engine: faultkv.New(engine), limits: limits, opts: opts}
	r.open()
	t.Cleanup(r.close)
	return r
}

// quiet are options under which nothing is written by itself: no chunk gets old, and no
// bucket ends, whatever the time of day is.
func quiet() Options {
	begin := time.Now()
	return Options{ChunkAge: time.Hour, Now: func() time.Time { return t0.Add(time.Since(begin)) }}
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
	r.Traces, err = Open(ctx, r.actor, &r.opts)
	return err
}

// close closes without a flush error being one of the test's.
func (r *rig) close() {
	if r.Traces != nil {
		// A test that breaks the engine has looked at the error before.
		if err := r.Traces.Close(ctx); err != nil {
			r.t.Logf("close: %v", err)
		}
	}
	r.crash()
}

// crash gives everything up without a flush.
func (r *rig) crash() {
	if r.Traces != nil {
		r.Traces.store.mu.Lock()
		r.Traces.store.closed = true
		r.Traces.store.mu.Unlock()
		r.Traces.writer.cancel()
		<-r.Traces.writer.done
		r.Traces.free()
		r.Traces = nil
	}
	if r.actor != nil {
		must(r.t, r.actor.Close())
		r.actor = nil
	}
	if r.store != nil {
		must(r.t, r.store.Close())
		r.store = nil
	}
}

// reopen is a restart, after a flush.
func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

func (r *rig) flush() {
	r.t.Helper()
	must(r.t, r.Flush(ctx))
}

func (r *rig) read(q Query) *Result {
	r.t.Helper()
	res, err := r.Read(ctx, q)
	must(r.t, err)
	return res
}

// one reads the only span there is.
func (r *rig) one(q Query) SpanData {
	r.t.Helper()
	res := r.read(q)
	if len(res.Spans) != 1 {
		r.t.Fatalf("%d spans, want 1: %+v", len(res.Spans), res)
	}
	return res.Spans[0]
}

// chunks returns what is stored, by key, and the size of the values.
func (r *rig) chunks() (keys []chunkKey, chunks []*chunk, sizes []int) {
	r.t.Helper()
	start, end := layout.Range(actorstore.NamespaceTraces)
	for e, err := range r.actor.List(ctx, actorstore.ListOptions{Start: start, End: end}) {
		must(r.t, err)
		k, ok := parseChunkKey(layout, e.Key)
		if !ok {
			r.t.Fatalf("the key %x", e.Key)
		}
		c, err := parseChunk(slices.Clone(e.Value))
		must(r.t, err)
		keys, chunks, sizes = append(keys, k), append(chunks, c), append(sizes, len(e.Value))
	}
	return keys, chunks, sizes
}

// verify holds the index against the chunks.
func (r *rig) verify(where string) {
	r.t.Helper()
	snap, err := r.actor.Snapshot(ctx)
	must(r.t, err)
	defer func() { must(r.t, snap.Close()) }()
	findings, err := Check(ctx, snap)
	must(r.t, err)
	for _, f := range findings {
		r.t.Errorf("%s: %s", where, f)
	}
	for f, err := range r.store.Check(ctx) {
		must(r.t, err)
		r.t.Errorf("%s: check: %s", where, f)
	}
}

// names returns the names of the spans in the order of the result.
func names(res *Result) string {
	var out []string
	for _, s := range res.Spans {
		out = append(out, s.Name)
	}
	return strings.Join(out, " ")
}

// sorted returns the names of the spans, sorted.
func sorted(res *Result) string {
	out := strings.Fields(names(res))
	sort.Strings(out)
	return strings.Join(out, " ")
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A watch is a clock that tests set.
type watch struct{ ns atomic.Int64 }

func newWatch(at time.Time) *watch {
	w := &watch{}
	w.set(at)
	return w
}

func (w *watch) now() time.Time { return time.Unix(0, w.ns.Load()).UTC() }

func (w *watch) set(at time.Time) { w.ns.Store(at.UnixNano()) }

func (w *watch) pass(d time.Duration) { w.ns.Add(int64(d)) }

// keep sets Options.MaxAge, so that the writer trims no earlier.
func (r *rig) keep(d time.Duration) {
	r.Traces.store.mu.Lock()
	defer r.Traces.store.mu.Unlock()
	r.Traces.store.opts.MaxAge = d
}

// attr returns an attribute as text.
func attr(s *SpanData, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return "none"
}

// events returns the names of the events.
func events(s *SpanData) string {
	var out []string
	for _, e := range s.Events {
		out = append(out, e.Name)
	}
	return fmt.Sprint(out)
}

// breakRow removes the first row of a value from the engine.
func breakRow(t testing.TB, engine kv.Engine, key []byte) {
	t.Helper()
	var escaped []byte // as the envelope has it
	for _, b := range key {
		if escaped = append(escaped, b); b == 0 {
			escaped = append(escaped, 0xff)
		}
	}
	want := append(append([]byte{5, 1}, escaped...), 0, 0)
	for e, err := range engine.Scan(ctx, kv.Range{}) {
		must(t, err)
		if bytes.Contains(e.Key, want) {
			must(t, engine.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(bytes.Clone(e.Key))}}))
			return
		}
	}
	t.Fatalf("there is no row of %x", key)
}

// hasChunk reports whether a physical key is that of a row of a chunk: the logical key is a
// nested byte string that begins with 08.
func hasChunk(key []byte) bool {
	return bytes.Contains(key, []byte{5, 1, actorstore.NamespaceTraces, 0x15, keyPrefix})
}

// isBusy reports whether a flush met what another batch has staged.
func isBusy(err error) bool { return errors.Is(err, ErrBusy) }

// data returns the span as it is now, without its events.
func (s *Span) data() SpanData {
	if s == nil {
		return SpanData{}
	}
	s.r.st.mu.Lock()
	defer s.r.st.unlock()
	d := SpanData{
		TraceID: s.trace, SpanID: s.id, Parent: s.parent, Name: s.name, Kind: s.kind,
		Start: timeOf(s.began), TraceState: s.traceState, Flags: s.flags, Status: s.status.value,
		Attributes: append([]Attr(nil), s.attrs...), Links: append([]Link(nil), s.links...),
		DroppedAttributes: s.dropped, DroppedLinks: s.droppedLinks, DroppedEvents: uint32(s.lostEvents),
		Resource: s.resource,
	}
	if s.scope != nil {
		d.Scope = *s.scope
	}
	return d
}
