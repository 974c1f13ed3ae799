package engine

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// newCore returns what parts of an engine share.
func newCore() *core {
	e := &core{pools: pools{}}
	e.alarms = &alarms{e: e, late: map[poolKey]map[string]struct{}{}}
	return e
}

// newAccount returns an account of a client with room for all.
func newAccount() *account {
	return newBudget(&Options{Memory: 1 << 30, MaxBody: 1 << 20}).open(netip.Addr{}, actorstore.ID{}, func() {})
}

// TestArrival: a runner that comes tells the actors that wait for one of its pool, and no others, and their alarms are
// tried at once.
func TestArrival(t *testing.T) {
	e := newCore()
	here, there := poolKey{"default", "a"}, poolKey{"default", "b"}
	var actors []*actor
	for n := range 1000 {
		a := &actor{e: e, id: actorstore.NewID(), changed: make(chan struct{})}
		a.public = actorInfo{Namespace: "default", Name: "counter", Key: fmt.Sprint(n)}
		a.rec.Runner = []string{"a", "b"}[min(n/3, 1)] // three are here
		if a.wake() || !e.pools.lack(a) {
			t.Fatal("there is a runner")
		}
		e.alarms.waits(a)
		actors = append(actors, a)
	}
	if n := len(e.alarms.late[here]); n != 3 {
		t.Fatalf("%d alarms wait, not 3", n)
	}
	changed := make([]chan struct{}, len(actors))
	for i, a := range actors {
		changed[i] = a.changed
	}
	r := &runner{e: e, at: runnerKey{"default", "a", "k"}, actors: map[*actor]struct{}{}}
	e.pools.join(r)
	if names := e.alarms.arrived(r.pool()); len(names) != 3 {
		t.Errorf("alarms of %v are tried", names)
	}
	for i, a := range actors {
		if told := a.changed != changed[i]; told != (i < 3) {
			t.Errorf("actor %d is told: %v", i, told)
		}
		e.pools.forget(a)
	}
	if len(e.alarms.late[here]) != 0 || len(e.alarms.late[there]) != 997 {
		t.Errorf("%d and %d alarms wait", len(e.alarms.late[here]), len(e.alarms.late[there]))
	}
	if e.pools.quit(r); len(e.pools) != 0 {
		t.Errorf("%d pools are left", len(e.pools))
	}
	for _, a := range actors {
		e.alarms.started(a)
	}
	if n := len(e.alarms.late); n != 0 {
		t.Errorf("%d alarms are left", n)
	}
}

// TestFreshMessages: what is to be stored is a list of its own, and one job's, however much waits for the actor.
func TestFreshMessages(t *testing.T) {
	e := newCore()
	e.tunnels, e.endings = map[rp.TunnelID]*tunnel{}, map[actorstore.ID]ending{}
	a := newActor(e, actorstore.NewID())
	a.working = true // its jobs wait
	tn, other := newTunnel(a, rp.TunnelID{}), newTunnel(a, rp.TunnelID{Request: [4]byte{1}})
	tn.track()
	other.track()
	of := newAccount()
	for range 10 {
		tn.keep(rivetstore.Message{Data: []byte("x")}, of)
		other.keep(rivetstore.Message{Data: []byte("x")}, of)
	}
	if len(a.mail.fresh) != 20 || len(a.jobs) != 1 {
		t.Errorf("%d messages and %d jobs", len(a.mail.fresh), len(a.jobs))
	}
	other.remove()
	for i, p := range a.mail.fresh {
		if p.gone != (i%2 == 1) {
			t.Errorf("message %d has ended: %v", i, p.gone)
		}
	}
}

// TestMessageAsItSleeps: a message that comes just after an actor has stopped, and is stored by a job that was asked for
// before that, has the actor woken after a crash.
func TestMessageAsItSleeps(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := actorstore.Open(t.Context(), memkv.New(), nil)
	check(err)
	e := newCore()
	e.opts.Clock, e.ctx, e.log, e.store = time.Now, t.Context(), slog.New(slog.DiscardHandler), store
	e.tunnels, e.endings = map[rp.TunnelID]*tunnel{}, map[actorstore.ID]ending{}
	e.alarms = newAlarms(e)
	defer e.alarms.Close()
	h, err := store.Actor(t.Context(), actorstore.NewID(), &actorstore.ActorOptions{Name: rivetstore.ActorName("default", "counter", "a"), Layout: actorstore.LayoutRivetKit})
	check(err)
	a := newActor(e, h.ID())
	a.handle, a.phase, a.working = h, running, true
	a.used.Begin(h, time.Now, nil)
	var b batch.Batch
	b.Put(rivetstore.RecordKey(), a.rec.Append(nil))
	b.WakeBy(time.Time{})
	check(h.Commit(t.Context(), &b))
	gone, stays := newTunnel(a, rp.TunnelID{}), newTunnel(a, rp.TunnelID{Request: [4]byte{1}})
	gone.hibernates, stays.hibernates = true, true
	gone.track()
	stays.track()
	stays.client = &socket{}

	gone.keep(rivetstore.Message{Data: []byte("x")}, newAccount()) // a job is to store it, behind others
	gone.remove()                                                  // its socket ends
	a.stopped(true)
	if a.phase != asleep {
		t.Fatal("it doesn't sleep")
	}
	stays.keep(rivetstore.Message{Data: []byte("y")}, newAccount()) // as socket.pass does
	for _, job := range a.jobs {
		job()
	}
	if !stays.pending[0].stored {
		t.Fatal("the message isn't stored")
	}
	if h.Wake().At.IsZero() {
		t.Error("a message is stored, and the store says that the actor is never to be woken")
	}
}
