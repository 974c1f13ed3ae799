package queue

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
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

// A rig is an actor with a queue, on an engine that counts and fails.
type rig struct {
	t      testing.TB
	engine *faultkv.Engine
	limits batch.Limits
	opts   Options
	store  *actorstore.Store
	actor  *actorstore.Actor
	q      *Queue
}

func newRig(t testing.TB, opts Options) *rig {
	return newRigWith(t, opts, batch.Limits{})
}

// whole are limits under which many messages are one atomic commit, whatever the
// environment says.
var whole = batch.Limits{AtomicBatches: envlimits.Unlimited}

func newRigWith(t testing.TB, opts Options, limits batch.Limits) *rig {
	t.Helper()
	return newRigOn(t, memkv.New(), opts, limits)
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
	r.q, err = Open(ctx, r.actor, &r.opts)
	return err
}

func (r *rig) close() {
	if r.q != nil {
		must(r.t, r.q.Close())
		r.q = nil
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

// reopen is a restart.
func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

// put writes a key of the actor while the queue is closed.
func (r *rig) stored(key, value []byte) {
	r.t.Helper()
	must(r.t, r.actor.Put(ctx, key, value))
}

func (r *rig) enqueue(name string, body any) ID {
	r.t.Helper()
	id, err := r.q.Enqueue(ctx, Send{Name: name, Body: body})
	must(r.t, err)
	return id
}

// try receives what is visible.
func (r *rig) try(o ReceiveOptions) []*Message {
	r.t.Helper()
	msgs, err := r.q.TryReceive(ctx, &o)
	must(r.t, err)
	return msgs
}

// one receives a message, which must be there.
func (r *rig) one(o ReceiveOptions) *Message {
	r.t.Helper()
	msgs := r.try(o)
	if len(msgs) != 1 {
		r.t.Fatalf("got %d messages, want 1", len(msgs))
	}
	return msgs[0]
}

func ids(msgs []*Message) (ids []ID) {
	for _, m := range msgs {
		ids = append(ids, m.ID)
	}
	return ids
}

func wantIDs(t testing.TB, what string, got []ID, want ...ID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got messages %v, want %v", what, got, want)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// text returns the body of a message that is a text.
func text(t testing.TB, r Raw) string {
	t.Helper()
	var s string
	must(t, r.Decode(&s))
	return s
}

// record returns what is stored of a message.
func (r *rig) record(id ID) record {
	r.t.Helper()
	rec, err := parseRecord(r.raw(id))
	must(r.t, err)
	return rec
}

// raw returns the stored value of a message.
func (r *rig) raw(id ID) []byte {
	r.t.Helper()
	v, err := r.actor.Get(ctx, appendMessageKey(layout, nil, id), nil)
	must(r.t, err)
	return v
}

// counted returns what fn asks of the engine.
func (r *rig) counted(fn func()) faultkv.Counts {
	r.engine.Reset()
	fn()
	return r.engine.Counts()
}

// wantCost fails the test unless fn costs so many commits and reads.
func (r *rig) wantCost(what string, commits, reads int64, fn func()) {
	r.t.Helper()
	c := r.counted(fn)
	if c.Commits != commits || c.Gets+c.Scans != reads || c.Snapshots != 0 {
		r.t.Errorf("%s: %d commits, %d reads, %d snapshots; want %d commits and %d reads",
			what, c.Commits, c.Gets+c.Scans, c.Snapshots, commits, reads)
	}
}

// A memory is what a queue has in memory of what is stored.
type memory struct {
	Items map[ID]string
	Meta  string
	Keys  map[noteKey]string
	Used  int64
}

func newMemory() memory { return memory{Items: map[ID]string{}, Keys: map[noteKey]string{}} }

// verify compares the memory of the queue with the store, and holds the index against
// its own rules. No batch may be open.
func (r *rig) verify(where string) {
	r.t.Helper()
	q := r.q
	snap, err := r.actor.Snapshot(ctx)
	must(r.t, err)
	defer func() { must(r.t, snap.Close()) }()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due()
	got, want := r.heldMemory(where), r.storedMemory(where, snap)
	if !q.numbers.rebuilt && want.Meta != "" {
		got.Meta = fmt.Sprint(q.numbers.meta)
	}
	differ(r.t, where+": messages", got.Items, want.Items)
	differ(r.t, where+": keys", got.Keys, want.Keys)
	if got.Meta != want.Meta || got.Used != want.Used {
		r.t.Errorf("%s: metadata %q in memory, %q stored; %d, %d bytes", where, got.Meta, want.Meta, got.Used, want.Used)
	}
	r.verifyCounts(where)
	r.verifyOrders(where)
	for f, err := range r.store.Check(ctx) {
		must(r.t, err)
		r.t.Errorf("%s: check: %s", where, f)
	}
}

// differ fails the test for each key whose value in memory isn't what is stored.
func differ[K comparable](t testing.TB, where string, got, want map[K]string) {
	t.Helper()
	for k, v := range got {
		if v != want[k] {
			t.Errorf("%s: %v is %q in memory, %q stored", where, k, v, want[k])
		}
	}
	for k, v := range want {
		if _, ok := got[k]; !ok {
			t.Errorf("%s: %v is stored only: %q", where, k, v)
		}
	}
}

// heldMemory returns what the queue has in memory, but for the metadata.
//
// +checklocks:r.q.mu
func (r *rig) heldMemory(where string) memory {
	r.t.Helper()
	q, m := r.q, newMemory()
	for id, it := range q.index.byID {
		if it.claim != nil || it.where == nowhere || (it.where == timed) != (it.state != ready) {
			r.t.Errorf("%s: message %s in state %d is in place %d", where, id, it.state, it.where)
		}
		if it.rec != nil && len(it.rec) != it.size {
			r.t.Errorf("%s: message %s: %d bytes in memory, %d stored", where, id, len(it.rec), it.size)
		}
		l := it.lease
		l.grant = nil // is in memory alone
		if l.state == ready {
			l.at = 0
		}
		if q.opts.Plain {
			l = lease{}
		}
		m.Items[id] = fmt.Sprint(it.line.name, it.created, it.size, it.priority, it.debounce != nil, l)
	}
	for key, k := range q.keys.known {
		m.Keys[key] = fmt.Sprint(k.id, k.until)
	}
	return m
}

// storedMemory returns what the queue should have in memory of what snap holds. It returns the metadata unless the queue
// has rebuilt them.
//
// +checklocks:r.q.mu
func (r *rig) storedMemory(where string, snap *actorstore.Snapshot) memory {
	r.t.Helper()
	q, m := r.q, newMemory()
	now, size := q.millis(), int64(0)
	for e, err := range entries(ctx, snap, nil) {
		must(r.t, err)
		size++
		id, ok := parseMessageKey(layout, e.key)
		rec, err := parseRecord(e.value)
		if !ok || e.err != nil || err != nil {
			continue
		}
		l := rec.lease(q.visibility())
		if l.at <= now {
			l.state, l.at = ready, 0
		}
		if l.state == ready {
			l.at = 0
		}
		m.Items[id] = fmt.Sprint(rec.name, rec.created, len(e.value), rec.priority, rec.debounce != debounceKey{}, l)
	}
	for n, err := range snap.Notes(ctx, nil) {
		must(r.t, err)
		id, until, err := parseNote(n.Value)
		must(r.t, err)
		m.Keys[noteKey(n.Key)] = fmt.Sprint(id, until)
	}
	if v, err := snap.Get(ctx, metadataKey(layout), nil); err == nil && !q.numbers.rebuilt {
		meta, err := parseMetadata(v)
		must(r.t, err)
		m.Meta = fmt.Sprint(meta)
		if meta.size != size {
			r.t.Errorf("%s: the metadata say %d messages, there are %d", where, meta.size, size)
		}
	}
	return m
}

// verifyCounts holds what the queue counts against what there is.
//
// +checklocks:r.q.mu
func (r *rig) verifyCounts(where string) {
	r.t.Helper()
	q := r.q
	n := 0
	for _, l := range q.index.lines {
		n += l.total
	}
	if n != len(q.index.byID) || len(q.open) != 0 || q.reserved != 0 || q.keys.forgetting != 0 {
		r.t.Errorf("%s: %d messages in lines, %d open batches, %d places reserved, %d keys being forgotten",
			where, n, len(q.open), q.reserved, q.keys.forgetting)
	}
	waiting := 0
	for _, it := range q.index.byID {
		if it.debounce != nil {
			waiting++
		}
	}
	if waiting != len(q.index.debounced) {
		r.t.Errorf("%s: %d messages may be replaced, %d are found by their keys", where, waiting, len(q.index.debounced))
	}
	kept := 0
	for _, it := range q.index.byID {
		kept += len(it.rec)
	}
	if kept != q.index.memory || kept > max(q.index.room, 0) {
		r.t.Errorf("%s: %d bytes in memory, counted %d, room for %d", where, kept, q.index.memory, q.index.room)
	}
}

// verifyOrders holds the places of all items against what the items believe.
//
// +checklocks:r.q.mu
func (r *rig) verifyOrders(at string) {
	r.t.Helper()
	x := &r.q.index
	n := map[where]int{}
	for _, it := range x.byID {
		n[it.where]++
	}
	sorted := func(o *order, want where) (n int) {
		var last *item
		o.each(func(it *item) {
			n++
			if it.where != want || x.byID[it.id] != it || last != nil && !o.first(last, it) {
				r.t.Errorf("%s: message %s believes to be at %v, not %v, or stands in the wrong place", at, it.id, it.where, want)
			}
			last = it
		})
		return n
	}
	lines := 0
	for _, l := range x.lines {
		lines += sorted(&l.ready, visible)
	}
	all, later, dead := sorted(&x.all, visible), sorted(&x.timed, timed), sorted(&x.dying, dying)
	if all != n[visible] || lines != all || later != n[timed] || dead != n[dying] {
		r.t.Errorf("%s: %d in the order of all, %d in lines, %d timed, %d dying; want %v", at, all, lines, later, dead, n)
	}
}

// later lets time pass, in a bubble.
func later(d time.Duration) { <-time.After(d) }

// A vector is one golden encoding.
type vector struct {
	Name   string
	Schema string
	Input  json.RawMessage
	Hex    string
}

func vectors(t testing.TB, file string) (vs []vector) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	must(t, err)
	must(t, json.Unmarshal(b, &vs))
	if len(vs) == 0 {
		t.Fatalf("%s has no vectors", file)
	}
	return vs
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}
