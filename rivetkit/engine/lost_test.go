package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// TestGivenUpBesideOthers: a runner that is lost is given up in its time, though others come and go more often than that.
func TestGivenUpBesideOthers(t *testing.T) {
	for name, restart := range map[string]bool{"lost": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				p := r.connect("default", "k")
				id := r.actor("counter", "a")
				p.started(id)
				must(t, p.ws.CloseNow())
				<-p.ended
				if restart {
					r.reopen()
				}
				r.connect("default", "l")
				for n := range 10 {
					q := r.connect("default", fmt.Sprint("m", n))
					pass(2 * time.Second)
					must(t, q.ws.CloseNow())
				}
				pass(time.Millisecond) // the engine hears that the last one went, and doesn't give it the actor
				begun := time.Now()
				r.want(200, "GET /x", "GET", "/gateway/"+id+"/x", "")
				if d := time.Since(begun); d > time.Second {
					t.Errorf("the request has waited for %v more", d)
				}
			})
		})
	}
}

// TestLateInit: a connection whose runner has connected anew since doesn't take the place of the newer one, however long it takes to open
// the runner's actors.
func TestLateInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultkv.New(newMem(t))
		r := &rig{TB: t, kv: f, opts: quiet(), piped: true}
		r.start()
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		p.started(id)
		r.reopen()
		<-p.ended
		pause := f.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 100})
		first := r.program("k", rp.V7)
		first.say(rp.RunnerInit{Name: "default", Version: 1, TotalSlots: 100})
		synctest.Wait()
		must(t, first.ws.CloseNow())
		second := r.reconnect("default", "k", p)
		pause.Release()
		pass(time.Second)
		select {
		case <-second.ended:
			t.Error("the newer connection has ended")
		default:
		}
		r.close()
		synctest.Wait()
	})
}

// TestBusyProgram: a program that is at work for some seconds when it has come back has its actors, though they don't say so at once.
func TestBusyProgram(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		p.started(id)
		pass(2 * time.Minute)
		must(t, p.ws.CloseNow())
		p = r.reconnect("default", "k", p)
		p.mu.Lock()
		p.pause = 8 * time.Second // for the next message, after the one that it waits for
		p.mu.Unlock()
		pass(7 * time.Second)
		p.mu.Lock()
		p.pause = 0
		p.mu.Unlock()
		pass(time.Minute)
		p.notStarted(id)
	})
}

// TestKeptUnsent: a message that wasn't sent to the actor before it stopped by itself is there for its next start.
func TestKeptUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultkv.New(newMem(t))
		r := &rig{TB: t, kv: f, opts: quiet(), piped: true}
		r.start()
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		at, _ := p.started(id)
		ws := r.dial("/gateway/"+id+"/connect", "rivet")
		toActor[rp.SocketOpen](p)
		must(t, ws.Write(t.Context(), websocket.MessageText, []byte("one")))
		toActor[rp.SocketMessage](p)
		pause := f.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
		must(t, ws.Write(t.Context(), websocket.MessageText, []byte("two")))
		<-pause.Reached()
		must(t, ws.Close(websocket.StatusNormalClosure, ""))
		synctest.Wait()
		p.event(at, rp.Intent(rp.IntentSleep))
		p.toldToStop(id)
		synctest.Wait()
		pause.Release()
		for _, text := range []string{"one", "two"} {
			if m := toActor[rp.SocketMessage](p); string(m.Body.(rp.SocketMessage).Data) != text {
				t.Errorf("%+v, not %s", m, text)
			}
		}
		r.close()
		synctest.Wait()
	})
}

// TestSocketUnanswered: a socket that the actor never takes ends.
func TestSocketUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		p.started(id)
		p.mu.Lock()
		p.hold = true
		p.mu.Unlock()
		go func() { // it is there, and answers pings alone
			for {
				select {
				case <-p.ended:
					return
				case <-time.After(2 * time.Second):
					p.say(rp.Pong{})
				}
			}
		}()
		ws := r.dial("/gateway/"+id+"/connect", "rivet")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _ = ws.Read(t.Context())
		}()
		pass(6 * time.Minute)
		select {
		case <-ended:
		default:
			t.Error("it is open")
		}
	})
}

// TestShutdownWithoutRunner: an engine that is shut down doesn't wait for actors whose program has gone.
func TestShutdownWithoutRunner(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		p.started(id)
		p.mu.Lock()
		p.hold = true
		p.mu.Unlock()
		begun := time.Now()
		go func() {
			<-time.After(time.Second)
			_ = p.ws.CloseNow()
		}()
		must(t, r.engine.Shutdown(t.Context()))
		if d := time.Since(begun); d > 2*time.Second {
			t.Errorf("it has taken %v", d)
		}
		r.stop()
		r.start()
	})
}

// TestPoisonedWhileAway: an actor whose handle fails while its runner is away is stopped when the runner is back, and started anew then.
func TestPoisonedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultkv.New(newMem(t))
		r := &rig{TB: t, kv: f, opts: quiet(), piped: true}
		r.start()
		p := r.connect("default", "k")
		id := r.actor("counter", "a")
		p.started(id)
		reached, release := make(chan struct{}), make(chan struct{})
		f.Hook(func(op faultkv.Op) error {
			if op.Point != faultkv.BeforeCommit {
				return nil
			}
			f.Hook(nil)
			close(reached)
			<-release
			return faultkv.ErrInjected
		})
		p.say(rp.KVRequest{Actor: id, ID: 1, Body: rp.KVPut{Pairs: []rp.KVPair{{Key: []byte("a"), Value: []byte("1")}}}})
		<-reached
		must(t, p.ws.CloseNow())
		synctest.Wait()
		close(release)
		synctest.Wait()
		p = r.reconnect("default", "k", p)
		synctest.Wait()
		for range 4 { // the first ones are refused meanwhile
			r.call("GET", "/gateway/"+id+"/x", "")
		}
		p.toldToStop(id)
		if at, _ := p.started(id); at.Generation != 2 {
			t.Errorf("%+v", at)
		}
		r.close()
		synctest.Wait()
	})
}

// TestGivenUpOnce: a runner whose time is over while it is being given up, as one of its actors can't be opened, is given up once.
func TestGivenUpOnce(t *testing.T) {
	for skip := range 8 {
		t.Run(fmt.Sprint(skip), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := faultkv.New(newMem(t))
				r := &rig{TB: t, kv: f, opts: quiet(), piped: true}
				r.start()
				p := r.connect("default", "k")
				p.started(r.actor("counter", "a"))
				p.started(r.actor("counter", "b"))
				r.reopen()
				<-p.ended
				f.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Skip: skip})
				pause := f.Pause(faultkv.Rule{Point: faultkv.BeforeCommit})
				q := r.program("k", rp.V7)
				q.say(rp.RunnerInit{Name: "default", Version: 1, TotalSlots: 100})
				<-pause.Reached()
				pass(20 * time.Second)
				pause.Release()
				heardOf[rp.EngineInit](q, func(rp.EngineInit) bool { return true })
				r.close()
				synctest.Wait()
			})
		})
	}
}

// newMem returns a store in memory that is closed at the end of the test.
func newMem(t *testing.T) kv.Engine {
	e := memkv.New()
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// TestLostRunner: the actors of a runner that comes back in time run on, with the commands that it hasn't got; else
// they sleep.
func TestLostRunner(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t, engine.Options{LostThreshold: time.Second, ReadyTimeout: 500 * time.Millisecond})
	p := r.connect("default", "k")
	p.mu.Lock()
	p.hold = true
	p.mu.Unlock()
	id := r.actor("counter", "a")
	p.started(id)
	must(t, p.ws.CloseNow())
	p = r.connect("default", "k")
	at, _ := p.started(id) // it wasn't acknowledged
	if at.Generation != 1 {
		t.Errorf("%+v", at)
	}
	r.want(200, "GET", "GET", "/gateway/"+id+"/", "")
	p.put(id, "a", "1")
	must(t, p.ws.CloseNow())
	eventually(t, "the runner is lost", func() bool {
		code, text := r.call("GET", "/gateway/"+id+"/", "")
		return code == 503 && strings.Contains(text, "actor_ready_timeout")
	})
	p = r.connect("default", "other")
	r.want(200, "GET", "GET", "/gateway/"+id+"/", "")
	if at, _ := p.started(id); at.Generation != 2 {
		t.Errorf("%+v", at)
	}
}
