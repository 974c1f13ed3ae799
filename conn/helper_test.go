package conn

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var ctx = context.Background()

// must fails the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A room is an actor whose Set can be opened again and again, on an engine that fails
// when it is told to.
type room struct {
	t     testing.TB
	eng   *faultkv.Engine
	store *actorstore.Store
	actor *actorstore.Actor
	set   *Set
	opts  Options
	acks  *ackLog
}

// An ackLog keeps what OnAck is told.
type ackLog struct {
	mu  sync.Mutex
	all []Ack
}

func (l *ackLog) add(acks []Ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, acks...)
}

// take returns what has come since the last time.
func (l *ackLog) take() []Ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// open returns a room on an empty engine in memory. Nothing is saved unless it is asked
// for: see quiet.
func open(t testing.TB, opts Options) *room {
	t.Helper()
	return openLimited(t, opts, batch.Limits{})
}

func openLimited(t testing.TB, opts Options, l batch.Limits) *room {
	t.Helper()
	l, err := envlimits.Apply(l)
	must(t, err)
	r := &room{t: t, eng: faultkv.New(memkv.New()), opts: opts, acks: &ackLog{}}
	if r.opts.Logger == nil {
		r.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if r.opts.OnAck == nil {
		r.opts.OnAck = r.acks.add
	}
	r.store, err = actorstore.Open(ctx, r.eng, &actorstore.Options{Limits: l, Now: r.opts.Now})
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

// quiet are options with which nothing is saved by itself: the time to do so has not come
// yet, and doesn't.
func quiet() Options {
	return Options{Save: func(context.Context) error { return nil }}
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
	r.set.cancel()
	r.set.clock.Close()
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

// create makes a connection.
func (r *room) create(n int) *Conn {
	r.t.Helper()
	c, err := r.set.Create(info(n))
	must(r.t, err)
	return c
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

// save saves.
func (r *room) save() {
	r.t.Helper()
	must(r.t, r.set.Save(ctx))
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

// later is a channel receive that doesn't wait for ever.
func later[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(5 * time.Minute):
		t.Fatal("nothing came in 5 minutes")
	}
	return v
}
