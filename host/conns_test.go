package host

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// room is an actor that clients talk through.
func room(d *diary) *Type {
	kind := thing(
		NewAction("say", func(c *Context, text string) (int, error) {
			return len(c.Connections()), c.Broadcast("said", text)
		}),
		NewCommand("whisper", func(c *Context, text string) error {
			return c.Conn().Send("whispered", text)
		}),
		NewAction("later", func(c *Context, text string) (string, error) {
			return c.After(time.Hour, "say", text)
		}),
		NewCommand("kick", func(c *Context, id conn.ID) error {
			return c.FindConn(id).Disconnect("kicked")
		}),
		NewCommand("kick and fail", func(c *Context, id conn.ID) error {
			return errors.Join(c.FindConn(id).Disconnect("kicked"), errRefused)
		}),
		NewAction("count", func(c *Context, _ struct{}) (int, error) { return len(c.Connections()), nil }),
	)
	kind.Connect = func(c *Context, n *Conn) error {
		var name string
		if err := n.Parameters(&name); err != nil {
			return err
		}
		if name == "nobody" {
			return &Error{Code: "forbidden", Message: "Nobody may not come in."}
		}
		d.write("connect " + name)
		return errors.Join(n.SetState(name), n.Subscribe("said"), c.Broadcast("said", name+" is here"))
	}
	kind.Disconnect = func(c *Context, n *Conn, reason string) error {
		var name string
		if err := n.State(&name); err != nil {
			return err
		}
		d.write("disconnect " + name + ": " + reason)
		return nil
	}
	return kind
}

func (r *rig) enterRoom(name string, hibernate bool) (*sink, Joined) {
	r.Helper()
	s := &sink{}
	p, err := Encode(name)
	must(r, err)
	j, err := r.Join(r.ctx, &Join{Actor: lobby, Transport: s, Parameters: p, Hibernate: hibernate})
	must(r, err)
	return s, j
}

func TestConnections(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		ann, _ := r.enterRoom("ann", true)
		bob, bobs := r.enterRoom("bob", false)
		p, err := Encode("nobody")
		must(t, err)
		_, err = r.Join(r.ctx, &Join{Actor: lobby, Transport: &sink{}, Parameters: p})
		if Code(err) != "forbidden" || Message(err) != "Nobody may not come in." {
			t.Errorf("got %v", err)
		}
		if n := r.call(lobby, "say", "hello"); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
		args, err := Encode("psst")
		must(t, err)
		_, err = r.Do(r.ctx, &Call{Actor: lobby, Action: "whisper", Args: args, Conn: bobs.ID})
		must(t, err)
		if got := ann.names(); len(got) != 3 {
			t.Errorf("ann got %q", got)
		}
		if got := bob.names(); !slices.Equal(got, []string{"said", "said", "whispered"}) {
			t.Errorf("bob got %q", got)
		}
		pass(10 * time.Minute)
		if s := r.Stats(); s.Awake != 1 {
			t.Errorf("%+v with a connection that doesn't hibernate", s)
		}
		_, err = invoke[any](r.ctx, r.Host, lobby, "kick and fail", bobs.ID)
		wantErr(t, err, errRefused)
		if bob.end() != "" || r.call(lobby, "count", nil) != 2 {
			t.Error("a turn that failed has disconnected bob")
		}
		_, err = invoke[any](r.ctx, r.Host, lobby, "kick", bobs.ID)
		must(t, err)
		if bob.end() != "kicked" || r.call(lobby, "count", nil) != 1 {
			t.Error("bob was not disconnected")
		}
		_, err = r.Do(r.ctx, &Call{Actor: lobby, Action: "whisper", Args: args, Conn: bobs.ID})
		wantErr(t, err, ErrNoConn)
		wantErr(t, r.Leave(r.ctx, lobby, bobs.ID, "again"), ErrNoConn)
		pass(time.Minute)
		if s := r.Stats(); s.Awake != 0 {
			t.Errorf("%+v with nothing but a connection that hibernates", s)
		}
		d.want(t, "connect ann", "connect bob", "disconnect bob: kicked", "disconnect bob: kicked")
	}, room(&d))
}

// TestHibernation: an actor sleeps while a client is connected, wakes by an alarm, and sends the
// client something; and the client comes back after a restart of the host.
func TestHibernation(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		ann, anns := r.enterRoom("ann", true)
		_, err := invoke[string](r.ctx, r.Host, lobby, "later", "good morning")
		must(t, err)
		pass(10 * time.Minute)
		if s := r.Stats(); s.Awake != 0 {
			t.Errorf("%+v", s)
		}
		pass(time.Hour)
		if got := ann.names(); len(got) != 2 {
			t.Errorf("ann got %q", got)
		}
		r.reopen()
		again := &sink{}
		id, err := r.Rejoin(r.ctx, lobby, anns, again)
		must(t, err)
		if id != anns.ID {
			t.Errorf("the connection is %s, was %s", id, anns.ID)
		}
		r.call(lobby, "say", "welcome back")
		if got := again.names(); len(got) != 1 {
			t.Errorf("ann got %q", got)
		}
		third := &sink{}
		_, err = r.Rejoin(r.ctx, lobby, anns, third)
		must(t, err)
		if again.end() == "" {
			t.Error("the transport that was replaced is open")
		}
		r.Away(lobby, anns.ID, again) // it knows late, and is not the one any more
		r.call(lobby, "say", "still there")
		if got := third.names(); len(got) != 1 {
			t.Errorf("ann got %q", got)
		}
		must(t, r.Leave(r.ctx, lobby, anns.ID, "closed by the client"))
		_, err = r.Rejoin(r.ctx, lobby, anns, again)
		wantErr(t, err, ErrNoConn)
		_, err = r.Rejoin(r.ctx, Address{"thing", "nobody"}, anns, again)
		wantErr(t, err, ErrNoConn)
		d.want(t, "connect ann", "disconnect ann: closed by the client")
	}, room(&d))
}

// TestAwayTooLong: clients don't come back: one that was lost while the actor was awake, one while
// it slept, and one with the host.
func TestAwayTooLong(t *testing.T) {
	var d diary
	bubble(t, Options{AwayTimeout: 5 * time.Minute}, func(r *rig) {
		ann, anns := r.enterRoom("ann", true)
		bob, bobs := r.enterRoom("bob", true)
		carl, _ := r.enterRoom("carl", true)
		r.Away(lobby, anns.ID, ann)
		pass(time.Minute)
		r.Away(lobby, bobs.ID, bob)
		pass(3 * time.Minute)
		d.want(t, "connect ann", "connect bob", "connect carl")
		pass(70 * time.Second)
		d.want(t, "connect ann", "connect bob", "connect carl", "disconnect ann: the client didn't come back")
		pass(time.Minute)
		if n := r.call(lobby, "count", nil); n != 1 {
			t.Errorf("%d connections, want that of carl", n)
		}
		r.reopen()
		_ = carl
		if n := r.call(lobby, "count", nil); n != 1 {
			t.Errorf("%d connections after a restart, want that of carl", n)
		}
		pass(6 * time.Minute)
		if n := r.call(lobby, "count", nil); n != 0 {
			t.Errorf("%d connections, want none", n)
		}
	}, room(&d))
}

// TestAwayMeanwhile loses a client while its actor wakes, and while it goes to sleep: it is
// missed as any other.
func TestAwayMeanwhile(t *testing.T) {
	for _, when := range []string{"waking", "falling asleep"} {
		var d diary
		kind := room(&d)
		var lose func() // once
		at := func(now string) {
			if now == when && lose != nil {
				lose()
				lose = nil
			}
		}
		kind.Vars = func(context.Context, Address) (any, error) { at("waking"); return nil, nil }
		kind.Sleep = func(*Context) error { at("falling asleep"); return nil }
		bubble(t, Options{AwayTimeout: 5 * time.Minute}, func(r *rig) {
			ann, anns := r.enterRoom("ann", true)
			pass(time.Hour)
			lose = func() { r.Away(lobby, anns.ID, ann) }
			r.call(lobby, "say", "hello")
			pass(4 * time.Minute)
			d.want(t, "connect ann")
			pass(2 * time.Minute)
			d.want(t, "connect ann", "disconnect ann: the client didn't come back")
		}, kind)
	}
}

// TestAwayHears: a client whose connection is lost receives nothing more, and is disconnected in
// time although the actor never sleeps: whether it was awake since the client came, woke later, or
// was waking.
func TestAwayHears(t *testing.T) {
	for _, when := range []string{"awake", "woken", "waking"} {
		var d diary
		kind := room(&d)
		var lose func() // once
		kind.Vars = func(context.Context, Address) (any, error) {
			if lose != nil {
				lose()
			}
			return nil, nil
		}
		bubble(t, Options{AwayTimeout: 5 * time.Minute}, func(r *rig) {
			ann, anns := r.enterRoom("ann", true)
			if when != "awake" {
				pass(time.Hour)
			}
			if when == "woken" {
				r.call(lobby, "count", nil)
			}
			before := len(ann.names())
			if lose = func() { r.Away(lobby, anns.ID, ann) }; when != "waking" {
				lose()
			}
			r.enterRoom("bob", false) // keeps it awake
			r.call(lobby, "say", "hello")
			if got := ann.names(); len(got) != before {
				t.Errorf("%s: ann got %q after she was lost", when, got[before:])
			}
			pass(6 * time.Minute)
			d.want(t, "connect ann", "connect bob", "disconnect ann: the client didn't come back")
		}, kind)
	}
}

// TestAwayAndBack: clients come back while the host is still noticing that their connections are
// lost. A client that is back stays connected.
func TestAwayAndBack(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		ann, anns := r.enterRoom("ann", true)
		for i := range 500 {
			again := &sink{}
			var wg sync.WaitGroup
			wg.Go(func() { r.Away(lobby, anns.ID, ann) })
			for range i % 8 {
				runtime.Gosched() // vary which call is first
			}
			_, err := r.Rejoin(r.ctx, lobby, anns, again)
			must(t, err)
			wg.Wait()
			r.call(lobby, "say", "hello")
			if got := again.names(); len(got) != 1 {
				t.Fatalf("round %d: ann got %q", i, got)
			}
			ann = again
		}
	}, room(&d))
}

func TestCloseDisconnects(t *testing.T) {
	var d diary
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, room(&d))
		ann, _ := r.enterRoom("ann", true)
		bob, _ := r.enterRoom("bob", false)
		r.close()
		if ann.end() != "" || bob.end() == "" {
			t.Errorf("ann's transport was closed: %q, bob's: %q", ann.end(), bob.end())
		}
		d.want(t, "connect ann", "connect bob", "disconnect bob: the host is shutting down")
	})
}

// TestDestroyDisconnects destroys an actor that has clients.
func TestDestroyDisconnects(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		ann, _ := r.enterRoom("ann", true)
		bob, _ := r.enterRoom("bob", false)
		must(t, r.Destroy(r.ctx, lobby))
		if ann.end() == "" || bob.end() == "" {
			t.Errorf("ann's transport was closed: %q, bob's: %q", ann.end(), bob.end())
		}
		r.wantRows(0)
		for info, err := range r.Store().Actors(r.ctx, nil) {
			t.Errorf("%+v is left, %v", info, err)
		}
	}, room(&d))
}

// TestConnectFails fails each engine operation of a connect: either the client is told
// that it is connected, or nothing is left of it.
func TestConnectFails(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.BeforeSync} {
		for skip, hit := 0, true; hit; skip++ {
			var d diary
			bubble(t, Options{}, func(r *rig) {
				r.call(lobby, "count", nil)
				fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
				s := &sink{}
				_, err := r.Join(r.ctx, &Join{Actor: lobby, Transport: s, Hibernate: true})
				fault.Remove()
				hit = fault.Hits() > 0
				want := 1
				if err != nil && !errors.Is(err, ErrUnknownOutcome) {
					want = 0
				}
				if n := r.call(lobby, "count", nil); n != want && !errors.Is(err, ErrUnknownOutcome) {
					t.Errorf("fault %d at %v: error %v, and %d connections", skip, point, err, n)
				}
				if err != nil && len(s.names()) > 0 {
					t.Errorf("fault %d at %v: error %v, and %q were sent", skip, point, err, s.names())
				}
			}, room(&d))
		}
	}
}

// TestJoinAbandoned: a client leaves while it is being connected.
func TestJoinAbandoned(t *testing.T) {
	for _, hibernate := range []bool{false, true} {
		var d diary
		kind := room(&d)
		begun, release := make(chan bool), make(chan bool)
		connect := kind.Connect
		kind.Connect = func(c *Context, n *Conn) error {
			begun <- true
			<-release
			return connect(c, n)
		}
		synctest.Test(t, func(t *testing.T) {
			begun, release = make(chan bool), make(chan bool)
			r := newRig(t, Options{}, kind)
			ctx, cancel := context.WithCancel(r.ctx)
			s, joined := &sink{}, make(chan error)
			go func() {
				_, err := r.Join(ctx, &Join{Actor: lobby, Transport: s, Hibernate: hibernate})
				joined <- err
			}()
			<-begun
			cancel()
			wantErr(t, <-joined, ErrUnknownOutcome)
			close(release)
			synctest.Wait()
			if n := r.call(lobby, "count", nil); n != 0 || s.end() == "" {
				t.Errorf("%d connections, closed with %q", n, s.end())
			}
			pass(time.Minute)
			if s := r.Stats(); s.Awake != 0 {
				t.Errorf("%+v", s)
			}
			r.close()
		})
	}
}
