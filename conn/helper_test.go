package conn

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"

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

// A room is an actor whose Set can be opened again and again, on an engine that fails
// when it is told to.
type room struct {
	t     testing.TB
	eng   *faultkv.Engine
	store *actorstore.Store
	actor *actorstore.Actor
	set   *Set
	opts  Options
}

// open returns a room on an empty engine in memory.
func open(t testing.TB, opts Options) *room {
	t.Helper()
	return openLimited(t, opts, batch.Limits{})
}

func openLimited(t testing.TB, opts Options, l batch.Limits) *room {
	t.Helper()
	l, err := envlimits.Apply(l)
	must(t, err)
	r := &room{t: t, eng: faultkv.New(memkv.New()), opts: opts}
	if r.opts.Logger == nil {
		r.opts.Logger = slog.New(slog.DiscardHandler)
	}
	r.store, err = actorstore.Open(ctx, r.eng, &actorstore.Options{Limits: l})
	must(t, err)
	r.start()
	t.Cleanup(func() {
		r.eng.Heal()
		r.stop()
		must(t, r.store.Close())
		must(t, r.eng.Close())
	})
	return r
}

// start opens the actor and its Set.
func (r *room) start() {
	r.t.Helper()
	var err error
	r.actor, err = r.store.Actor(ctx, actorstore.IDFromName("room"), &actorstore.ActorOptions{Force: true})
	must(r.t, err)
	r.set, err = Open(ctx, r.actor, &r.opts)
	must(r.t, err)
}

// stop closes what can be closed.
func (r *room) stop() {
	r.t.Helper()
	if err := r.set.Close(ctx); err != nil && r.actor.Err() == nil {
		r.t.Errorf("Close: %v", err)
	}
	must(r.t, r.actor.Close())
}

// crash takes the actor over, with nothing of what was in memory: the Set that it had is
// left behind.
func (r *room) crash() {
	r.t.Helper()
	must(r.t, r.actor.Close())
	r.start()
}

// info is what test connections begin with; n tells them apart.
func info(n int) Info {
	return Info{
		Gateway: GatewayID{1, 2, 3, 4}, Request: RequestID{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)},
		Path: "/connect", Headers: []Header{{"host", "example"}},
	}
}

// do commits what fn does.
func (r *room) do(fn func(tx *Tx) error) error {
	r.t.Helper()
	var b batch.Batch
	if err := fn(r.set.In(&b)); err != nil {
		b.Abort(err)
		return err
	}
	return r.actor.Commit(ctx, &b)
}

// create makes a connection.
func (r *room) create(n int) (c *Conn) {
	r.t.Helper()
	must(r.t, r.do(func(tx *Tx) (err error) {
		c, err = tx.Create(info(n))
		return err
	}))
	return c
}

// setState gives a connection a state.
func (r *room) setState(c *Conn, v any) {
	r.t.Helper()
	value, err := Encode(v)
	must(r.t, err)
	must(r.t, r.do(func(tx *Tx) error { return tx.SetState(c, value) }))
}

// disconnect removes a connection.
func (r *room) disconnect(c *Conn) {
	r.t.Helper()
	must(r.t, r.do(func(tx *Tx) error { return tx.Disconnect(c) }))
}

// stored returns what is stored, by id.
func (r *room) stored() map[ID]Record {
	r.t.Helper()
	all := map[ID]Record{}
	for s, err := range List(ctx, r.actor) {
		must(r.t, err)
		must(r.t, s.Err)
		all[s.ID] = *s.Record
	}
	return all
}

// same fails the test unless what is stored is what the Set has in memory.
func (r *room) same() {
	r.t.Helper()
	stored := r.stored()
	for _, c := range r.set.Conns() {
		if c.Ephemeral() {
			continue
		}
		if got, ok := stored[c.ID()]; !ok || !reflect.DeepEqual(got, c.Record()) {
			r.t.Errorf("stored (%v): %+v, in memory: %+v", ok, got, c.Record())
		}
		delete(stored, c.ID())
	}
	for id := range stored {
		r.t.Errorf("%s is stored and not in memory", id)
	}
}

// storedAnyway is stored for an actor that is poisoned.
func (r *room) storedAnyway() map[ID]Record {
	r.t.Helper()
	v, err := r.store.View(ctx, actorstore.IDFromName("room"))
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return map[ID]Record{}
	}
	must(r.t, err)
	all := map[ID]Record{}
	for s, err := range List(ctx, v) {
		must(r.t, err)
		all[s.ID] = *s.Record
	}
	must(r.t, v.Close())
	return all
}

// refuse makes the next engine commit fail in a way that leaves the actor healthy.
func (r *room) refuse() *faultkv.Fault {
	return r.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
}

// healthy checks the whole store: what the actor's head counts is what is stored.
func (r *room) healthy() {
	r.t.Helper()
	for f, err := range r.store.Check(ctx) {
		must(r.t, err)
		r.t.Errorf("finding: %v", f)
	}
}
