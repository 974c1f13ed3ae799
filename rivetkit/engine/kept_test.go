package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// TestKeptBesideSocket: a message that was kept over a restart is given to its actor, though another actor's socket has got
// the number that the message's socket had in the life before.
func TestKeptBesideSocket(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t, engine.Options{BrokenThreshold: time.Millisecond})
	p := r.connect("default", "k")
	y := r.actor("counter", "y")
	at, _ := p.started(y)
	ws := r.dial("/gateway/"+y+"/connect", "rivet")
	first := toActor[rp.SocketOpen](p)
	p.event(at, rp.Intent(rp.IntentSleep))
	p.toldToStop(y)
	must(t, p.ws.CloseNow())
	must(t, ws.Write(t.Context(), websocket.MessageText, []byte("precious")))
	eventually(t, "the message is stored", func() bool { return r.kept(y) == 1 })
	r.reopen()
	p = r.connect("default", "l")
	x := r.actor("counter", "x")
	p.started(x)
	r.dial("/gateway/"+x+"/connect", "rivet")
	if open := toActor[rp.SocketOpen](p); open.ID.Tunnel.Request != first.ID.Tunnel.Request {
		t.Fatalf("the sockets have the numbers %x and %x", first.ID.Tunnel.Request, open.ID.Tunnel.Request)
	}
	if m := toActor[rp.SocketMessage](p); m.ID.Tunnel != first.ID.Tunnel || string(m.Body.(rp.SocketMessage).Data) != "precious" {
		t.Errorf("%+v", m)
	}
}

// view calls fn with what is stored of an actor.
func (r *rig) view(id string, fn func(v *actorstore.View)) {
	r.Helper()
	s, err := actorstore.Open(r.Context(), r.kv, &actorstore.Options{ReadOnly: true})
	must(r, err)
	defer s.Close()
	aid, err := actorstore.ParseID(id)
	must(r, err)
	v, err := s.View(r.Context(), aid)
	must(r, err)
	defer v.Close()
	fn(v)
}

// kept returns how many messages are stored for an actor.
func (r *rig) kept(id string) (n int) {
	r.Helper()
	r.view(id, func(v *actorstore.View) { n = keptIn(r, v) })
	return n
}

func keptIn(r *rig, v *actorstore.View) (n int) {
	start, end := rivetstore.SocketRange()
	for e, err := range v.List(r.Context(), actorstore.ListOptions{Start: start, End: end}) {
		must(r, err)
		_, number, err := rivetstore.ParseMessageKey(e.Key)
		must(r, err)
		if number > 0 { // else it says that the socket is open
			n++
		}
	}
	return n
}

// TestKeptBound: what is kept for an actor that sleeps has a bound, beyond which clients aren't read from; the first message of a
// client is kept for longer. When the actor acknowledges, the others come.
func TestKeptBound(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const size, each = 1 << 10, 8
		r.opts.MaxKept = 4 * (size + 256)
		r.reopen()
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		at, _ := p.started(id)
		var sockets []*websocket.Conn
		for range 6 {
			sockets = append(sockets, r.dial("/gateway/"+id+"/connect", "rivet"))
			toActor[rp.SocketOpen](p)
		}
		p.event(at, rp.Intent(rp.IntentSleep))
		p.toldToStop(id)
		must(t, p.ws.CloseNow())
		pass(time.Minute) // its runner is given up
		for i, ws := range sockets {
			go func() {
				for n := range each {
					if ws.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, "%d.%d %*d", i, n, size-4, 0)) != nil {
						return
					}
				}
			}()
		}
		pass(time.Minute)
		if n := r.kept(id); n < 4 || n > 8 {
			t.Errorf("%d messages are kept", n)
		}
		p = r.connect("default", "l")
		got := map[string]bool{}
		for range each * len(sockets) {
			m := toActor[rp.SocketMessage](p)
			name, _, _ := strings.Cut(string(m.Body.(rp.SocketMessage).Data), " ")
			got[name] = true
			p.toClient(m.ID.Tunnel, rp.SocketAck{Index: m.ID.Index})
		}
		if len(got) != each*len(sockets) {
			t.Errorf("%d messages have come", len(got))
		}
	})
}

// TestKeptRefused: a client whose message the store refuses is told so. The messages of others come, and so do those of the same client
// that were stored before.
func TestKeptRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, memkv.New())
		s.begin()
		s.create("kept")
		id := s.actors["kept"].id
		bad, good := s.dial("/gateway/"+id+"/connect", "rivet"), s.dial("/gateway/"+id+"/connect", "rivet")
		ended := bad.CloseRead(t.Context())
		send := func(ws *websocket.Conn, text string) {
			must(t, ws.Write(t.Context(), websocket.MessageText, []byte(text)))
		}
		send(bad, "first")
		synctest.Wait()
		// A commit that is under way has both messages wait for one.
		under, first := make(chan struct{}), true
		s.faults.Hook(func(op faultkv.Op) error {
			switch {
			case op.Point != faultkv.BeforeCommit:
			case first:
				first = false
				<-under
			case slices.ContainsFunc(op.Commit.Ops, func(o kv.Op) bool { return bytes.Contains(o.Value, []byte("too much")) }):
				return kv.NotApplied(errkind.ErrQuota)
			}
			return nil
		})
		send(good, "held up")
		synctest.Wait()
		send(bad, "too much")
		send(good, "second")
		synctest.Wait()
		close(under)
		synctest.Wait()
		if ended.Err() == nil {
			t.Error("the client of the refused message isn't told")
		}
		n := len(s.heardSince(0))
		s.p.event(rp.Checkpoint{Actor: id, Generation: 1}, rp.Stopped{Code: 1}) // a crash: nothing was acknowledged
		s.starts("kept")
		synctest.Wait()
		var got []string
		for d := range s.deliveredSince(n) {
			got = append(got, d.text)
		}
		slices.Sort(got)
		if want := []string{"first", "held up", "second"}; !slices.Equal(got, want) {
			t.Errorf("%q have come, not %q", got, want)
		}
		s.faults.Hook(nil)
		s.end()
	})
}

// TestOpenRefused: that a socket is open is stored later, if the store refuses it at first.
func TestOpenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memkv.New()
		s := newScript(t, store)
		s.begin()
		s.create("kept")
		s.faults.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(errkind.ErrNoSpace)})
		ws := s.dial("/gateway/"+s.actors["kept"].id+"/websocket/x", "rivet")
		synctest.Wait()
		tunnel := toActor[rp.SocketOpen](s.p).ID.Tunnel
		s.dial("/gateway/"+s.actors["kept"].id+"/websocket/y", "rivet") // whose row is stored, and the other one with it
		toActor[rp.SocketOpen](s.p)
		synctest.Wait()
		s.kill()
		_ = ws.CloseNow()
		s.end()
		pass(time.Minute) // the lease of the process that has ended passes
		v := newScript(t, store)
		v.lives = s.p
		v.begin()
		heardOf(v.p, func(m rp.ToActor) bool {
			_, ok := m.Body.(rp.ClientClose)
			return ok && m.ID.Tunnel == tunnel
		})
		v.end()
	})
}
