package front

import (
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// resume takes the connection of p up again.
func (p *peer) resume() *peer {
	p.Helper()
	q := p.dial(p.as)
	q.send(&wire.Request{Type: wire.TypeResume, Conn: conn.ID(p.conn), Token: p.token})
	hello := q.want(wire.TypeConnected)
	q.conn, q.token = string(hello.Conn), hello.Token
	if q.conn != p.conn || q.token != p.token {
		p.Errorf("resumed %s %s as %s %s", p.conn, p.token, q.conn, q.token)
	}
	return q
}

// TestResume: a connection outlives its socket, the actor's sleep, and the host.
func TestResume(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{}, room(s))
	p := r.join(mediaJSON, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeSubscribe, ID: 1, Event: "said"})
	p.want(wire.TypeResult)
	hears := func(p *peer, what string) {
		t.Helper()
		r.post("say", what)
		if m := p.want(wire.TypeEvent); m.Event != "said" || text(m.Body) != what {
			t.Errorf("got %+v, want %s", m, what)
		}
	}
	hears(p, "1")
	// While the old socket is there.
	q := p.resume()
	p.wantClose(wire.CloseGone)
	hears(q, "2")
	// After it was lost.
	must(t, q.ws.CloseNow())
	q = q.resume()
	hears(q, "3")
	// When the page was left, which may be a reload.
	must(t, q.ws.Close(websocket.StatusGoingAway, ""))
	q = q.resume()
	hears(q, "4")
	// After a restart.
	closed := make(chan websocket.StatusCode, 1)
	go func() {
		_, err := q.receive()
		closed <- websocket.CloseStatus(err)
	}()
	r.reopen()
	if code := <-closed; code != websocket.StatusServiceRestart {
		t.Errorf("closed with %d", code)
	}
	q = q.resume()
	hears(q, "5")
	if got := q.call("conns", nil); got != "1" {
		t.Errorf("%s connections", got)
	}
	// The token of another connection won't do.
	other := r.join(mediaJSON, wire.Request{})
	thief := r.dial(mediaJSON)
	thief.send(&wire.Request{Type: wire.TypeResume, Conn: conn.ID(q.conn), Token: other.token})
	if m := thief.want(wire.TypeError); m.Code != "no_such_connection" {
		t.Errorf("got %+v", m)
	}
	must(t, q.ws.Close(websocket.StatusNormalClosure, ""))
	if why := <-s.gone; why != "the client has left" {
		t.Errorf("disconnected: %s", why)
	}
}

// TestHibernates: an actor sleeps while a socket is open, and its events come when it is
// awake again.
func TestHibernates(t *testing.T) {
	a := room(nil)
	slept := make(chan struct{}, 16)
	a.Sleep = func(*host.Context) error {
		select {
		case slept <- struct{}{}:
		default: // the test counts no more
		}
		return nil
	}
	r := newRig(t, Options{}, a)
	r.close()
	r.hopts.IdleTimeout = time.Millisecond
	r.open()
	p := r.join(mediaCBOR, wire.Request{})
	p.send(&wire.Request{Type: wire.TypeSubscribe, ID: 1, Event: "said"})
	p.want(wire.TypeResult)
	for i := range 3 {
		<-slept
		r.post("say", "1")
		if m := p.want(wire.TypeEvent); m.Event != "said" {
			t.Errorf("round %d: %+v", i, m)
		}
	}
}

// TestEphemeral: a connection that doesn't hibernate goes with its socket, however that
// ends, and has no token.
func TestEphemeral(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{}, room(s))
	for _, end := range []func(p *peer) error{
		func(p *peer) error { return p.ws.CloseNow() },
		func(p *peer) error { return p.ws.Close(websocket.StatusNormalClosure, "") },
		func(p *peer) error { return p.ws.Close(websocket.StatusGoingAway, "") },
	} {
		p := r.join(mediaJSON, wire.Request{Hibernate: &no})
		if p.token != "" {
			t.Errorf("it has the token %s", p.token)
		}
		must(t, end(p))
		if why := <-s.gone; why != "the client has left" {
			t.Errorf("disconnected: %s", why)
		}
	}
}

// TestAway: a client that doesn't come back in time is disconnected.
func TestAway(t *testing.T) {
	s := newSignal()
	r := newRig(t, Options{}, room(s))
	r.close()
	r.hopts.AwayTimeout = time.Millisecond
	r.open()
	p := r.join(mediaJSON, wire.Request{Hibernate: &yes})
	must(t, p.ws.CloseNow())
	if why := <-s.gone; why != "the client didn't come back" {
		t.Errorf("disconnected: %s", why)
	}
}
