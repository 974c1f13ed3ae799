package history

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	actorrig "github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
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

// whole are limits under which much is one atomic commit, whatever the environment says.
var whole = batch.Limits{AtomicBatches: envlimits.Unlimited}

// A rig is an actor with a history, on an engine that counts and fails.
type rig struct {
	*actorrig.Rig
	t    testing.TB
	opts Options
	h    *History
}

func newRig(t testing.TB, opts Options, limits batch.Limits) *rig {
	return newRigOn(t, memkv.New(), opts, limits)
}

func newRigOn(t testing.TB, engine kv.Engine, opts Options, limits batch.Limits) *rig {
	t.Helper()
	r := &rig{actorrig.New(t, actorrig.Options{Below: engine, Limits: limits, Layout: layout}), t, opts, nil}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	r.h, err = Open(ctx, r.Actor, &r.opts)
	must(r.t, err)
	r.t.Cleanup(r.close)
}

// close closes the history, not the actor.
func (r *rig) close() {
	if r.h != nil {
		r.h.Close()
		r.h = nil
	}
}

// reopen is a restart.
func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.Reopen(r.t, r.Limits)
	r.open()
}

// at returns the location of names, of which "name~3" is iteration 3 of the loop name.
func (r *rig) at(path ...string) (l Location) {
	r.t.Helper()
	for _, p := range path {
		var n uint32
		name := p
		if i := slices.Index([]byte(p), '~'); i > 0 {
			name = p[:i]
			_, err := fmt.Sscan(p[i+1:], &n)
			must(r.t, err)
		}
		i, err := r.h.Name(name)
		must(r.t, err)
		if name == p {
			l = l.Name(i)
		} else {
			l = l.Iteration(i, n)
		}
	}
	return l
}

// commit lands what fn puts into a transaction.
func (r *rig) commit(fn func(tx *Tx)) {
	r.t.Helper()
	tx := r.h.Begin()
	fn(tx)
	must(r.t, tx.Commit(ctx))
}

// step puts a step with that output.
func (r *rig) step(tx *Tx, output string, path ...string) {
	r.t.Helper()
	l := r.at(path...)
	must(r.t, tx.Put(Entry{Location: l, Kind: Step{Output: []byte(output)}}))
	must(r.t, tx.PutMetadata(l, Metadata{Status: StatusCompleted, Attempts: 1}))
}

// paths returns the locations of all entries in words.
func (r *rig) paths() (paths []string) {
	for _, e := range r.h.In("") {
		paths = append(paths, r.h.Path(e.Location))
	}
	return paths
}

func (r *rig) wantPaths(what string, want ...string) {
	r.t.Helper()
	if got := r.paths(); !slices.Equal(got, want) {
		r.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// read returns what is stored.
func (r *rig) read() (*Snapshot, []Damage) {
	r.t.Helper()
	snap, err := r.Actor.Snapshot(ctx)
	must(r.t, err)
	defer func() { must(r.t, snap.Close()) }()
	s, damages, err := Read(ctx, snap)
	must(r.t, err)
	return s, damages
}

// verify compares what is in memory with what is stored, and holds the memory against its
// own rules. Nothing may be deferred.
func (r *rig) verify(where string) {
	r.t.Helper()
	want, damages := r.read()
	if len(damages) > 0 {
		r.t.Errorf("%s: %v", where, damages)
	}
	got := r.h.Snapshot()
	// Names of which no entry was written are not stored.
	got.Names = append([]string(nil), got.Names[:min(len(got.Names), len(want.Names))]...)
	wantEqual(r.t, where, got, want)
	r.h.mu.RLock()
	defer r.h.mu.RUnlock()
	m := &r.h.m
	used := int64(0)
	for e, err := range r.Actor.List(ctx, actorstore.ListOptions{Prefix: []byte(layout.Prefix(actorstore.NamespaceWorkflow))}) {
		must(r.t, err)
		used += int64(len(e.Key) + 2 + len(e.Value))
	}
	if m.bytes != used {
		r.t.Errorf("%s: %d bytes counted, %d stored", where, m.bytes, used)
	}
	if len(m.order) != len(m.records) || len(m.order) != len(m.ids) || !slices.IsSorted(m.order) || int(m.stored) != len(want.Names) {
		r.t.Errorf("%s: %d in order, %d records, %d ids, %d names", where, len(m.order), len(m.records), len(m.ids), m.stored)
	}
	for _, l := range m.order {
		rec := m.records[l]
		if m.ids[rec.ID] != l || rec.Location != l || rec.size == absent || (rec.metaSize == absent) != (rec.Metadata == nil) {
			r.t.Errorf("%s: record %+v", where, rec)
		}
	}
	for f, err := range r.Store.Check(ctx) {
		must(r.t, err)
		r.t.Errorf("%s: check: %s", where, f)
	}
}

func wantEqual(t testing.TB, what string, got, want *Snapshot) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, err := json.MarshalIndent(got, "", " ")
		must(t, err)
		w, err := json.MarshalIndent(want, "", " ")
		must(t, err)
		t.Errorf("%s: got %s\nwant %s", what, g, w)
	}
}

// counted returns what fn asks of the engine.
func (r *rig) counted(fn func()) faultkv.Counts {
	r.Engine.Reset()
	fn()
	return r.Engine.Counts()
}

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

// check returns the error that Tx.Put would return for an entry, with a new ID if it has
// none: a *SizeError when it, or metadata of it, can't be stored because of a size, and
// errInvalid when nothing like it can.
func (h *History) check(e Entry) error {
	if e.ID == "" {
		e.ID = noID
	}
	_, err := h.encode(&e, nil)
	return err
}

// noID is as long as any UUID.
const noID = "00000000-0000-0000-0000-000000000000"

// failure returns why nothing can be staged: ErrClosed, or what the actor's Err says.
func (h *History) failure() error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.usable()
}

// byID returns the entry that has the id.
func (h *History) byID(id string) (Entry, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if l, ok := h.m.ids[id]; ok {
		return h.m.records[l].Entry, true
	}
	return Entry{}, false
}
