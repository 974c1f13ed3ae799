package host

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/metrics"
)

// TestLettersAfterFailover: at each step of a letter's way another server takes over, without some
// of the newest commits. The receiver then has what the sender, as it is then, has sent, and what
// it sends next arrives, too.
func TestLettersAfterFailover(t *testing.T) {
	t.Parallel()
	every := testkit.Pick(4, 1, 1)
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit, faultkv.BeforeSync} {
		for lost := range 4 {
			for step, hit := 1+lost%every, true; hit; step += every {
				synctest.Test(t, func(t *testing.T) { hit = lettersAfterFailover(t, point, step, lost) })
			}
		}
	}
}

func lettersAfterFailover(t *testing.T, point faultkv.Point, step, lost int) (hit bool) {
	defer func() {
		if t.Failed() {
			t.Errorf("failover at step %d of point %v, %d commits lost", step, point, lost)
		}
	}()
	server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
	r := newRigOn(t, server, Options{IdleTimeout: time.Hour}, talkers()...)
	r.heard()
	r.call(lobby, "number", nil)
	pass(time.Minute)
	r.wantHeard("1")
	var left atomic.Int64
	left.Store(int64(step))
	r.engine.Hook(func(op faultkv.Op) error {
		if op.Point == point && left.Add(-1) == 0 {
			server.Failover(lost)
		}
		return nil
	})
	for range 3 {
		for range 100 {
			if _, err := invoke[int](r.ctx, r.Host, lobby, "number", nil); err == nil {
				break
			} else if !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Error(err)
			}
			pass(100 * time.Millisecond)
		}
		pass(time.Millisecond)
	}
	pass(time.Second)
	hit = left.Load() <= 0
	r.engine.Hook(nil)
	pass(10 * time.Minute)
	n := r.call(lobby, "numbered", nil)
	r.wantHeard(numbers(n)...)
	r.call(lobby, "number", nil)
	pass(5 * time.Minute)
	r.wantHeard(numbers(n + 1)...)
	r.wantNoLetters()
	r.close()
	return hit
}

// reluctant returns talkers whose ear doesn't wake before awake is true.
func reluctant() (kinds []*Type, awake *atomic.Bool) {
	kinds, awake = talkers(), new(atomic.Bool)
	kinds[1].Wake = func(*Context) error {
		if !awake.Load() {
			return errRefused
		}
		return nil
	}
	return kinds, awake
}

// TestLettersAfterCrash: what couriers couldn't hand over before the server crashed doesn't
// hold up what is sent afterwards.
func TestLettersAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
		kinds, awake := reluctant()
		r := newRigOn(t, server, Options{IdleTimeout: time.Hour}, kinds...)
		r.call(lobby, "number", nil)
		pass(100 * time.Millisecond)
		server.Crash(1 << 30)
		awake.Store(true)
		r.call(lobby, "number", nil)
		pass(5 * time.Second)
		r.wantHeard("1", "2")
		r.close()
	})
}

// TestLettersOfTheDestroyed: what two actors of one name have sent, each of which has
// destroyed itself, comes, however long the receiver refuses, but for a crash of the server:
// then each message that doesn't come is counted. If a server takes over that has lost the
// end of the second actor, that has its messages again.
func TestLettersOfTheDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { lettersOfTheDestroyed(t, nil) })
	seen := map[int]bool{} // how many messages there are again, -1 for no actor
	for range 10 {         // which commits are the last ones is not the same every time
		for lost := range 7 {
			synctest.Test(t, func(t *testing.T) {
				seen[lettersOfTheDestroyed(t, func(s *faultkv.Server) { s.Failover(lost) })] = true
			})
		}
		if seen[-1] && seen[2] {
			break
		}
	}
	if !seen[-1] || !seen[2] {
		t.Errorf("the end was never lost, or always: %v", seen)
	}
}

func lettersOfTheDestroyed(t *testing.T, crash func(s *faultkv.Server)) (again int) {
	server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
	kinds, awake := reluctant()
	y := &tally{n: map[*metrics.Metric]int64{}}
	r := newRigOn(t, server, Options{IdleTimeout: time.Hour, Metrics: y}, kinds...)
	r.call(lobby, "last word", "1")
	r.call(lobby, "say", "2")
	r.call(lobby, "last word", "3")
	synctest.Wait()
	again, want := -1, numbers(3) // of how many messages an actor is there again
	if crash != nil {
		crash(server)
		want = nil
		if id, err := r.Store().Lower().Lookup(r.ctx, lobby.String()); err == nil {
			want = r.lettersOf(id) // of the second actor, or of the first one
			again = len(want)
		}
	}
	pass(time.Minute)
	awake.Store(true)
	pass(10 * time.Minute)
	r.wantHeard(want...)
	r.close()
	y.mu.Lock()
	defer y.mu.Unlock()
	if n := y.n[metricUndeliverable]; crash != nil && n != 3 || crash == nil && n != 0 {
		t.Errorf("%d messages are counted as lost", n)
	}
	return again
}

// lettersOf returns the bodies of the messages, which are texts, in the outbox of an actor.
func (r *rig) lettersOf(id actorstore.ID) (bodies []string) {
	r.Helper()
	v, err := r.Store().Lower().View(r.ctx, id)
	must(r, err)
	start, end := mailrow.LetterRange()
	for e, err := range v.List(r.ctx, actorstore.ListOptions{Start: start, End: end}) {
		must(r, err)
		l, err := mailrow.ParseLetter(e.Key, e.Value)
		must(r, err)
		var body string
		must(r, Raw(l.Body).Decode(&body))
		bodies = append(bodies, body)
	}
	must(r, v.Close())
	return bodies
}

// TestLettersWaitForReceiver has a message wait in the mailbox of a receiver, which loses
// its last commits, and perhaps the sender too, before it takes it.
func TestLettersWaitForReceiver(t *testing.T) {
	for lost := range 6 {
		synctest.Test(t, func(t *testing.T) { lettersWait(t, lost) })
	}
}

func lettersWait(t *testing.T, lost int) {
	server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
	kinds := talkers()
	hang, wake := make(chan struct{}), make(chan struct{})
	var slow atomic.Bool
	kinds[1].Wake = func(*Context) error {
		if slow.Swap(false) {
			<-wake
		}
		return nil
	}
	kinds[1].Actions = append(kinds[1].Actions, NewAction("hang", func(*Context, struct{}) (int, error) { <-hang; return 0, nil }))
	r := newRigOn(t, server, Options{IdleTimeout: 5 * time.Second}, kinds...)
	r.call(lobby, "number", nil)
	pass(10 * time.Second) // both sleep
	r.call(lobby, "numbered", nil)
	slow.Store(true)
	r.call(lobby, "number", nil)
	synctest.Wait() // its courier wakes the ear
	done := make(chan error, 1)
	go func() {
		_, err := invoke[int](r.ctx, r.Host, ear, "hang", nil)
		done <- err
	}()
	synctest.Wait()
	close(wake)
	synctest.Wait() // one of the two hangs, or is done, and the other waits
	server.Failover(lost)
	close(hang)
	<-done
	pass(10 * time.Minute)
	n := r.call(lobby, "numbered", nil)
	r.wantHeard(numbers(n)...)
	r.call(lobby, "number", nil)
	pass(10 * time.Minute)
	r.wantHeard(numbers(n + 1)...)
	if t.Failed() {
		t.Errorf("%d commits lost", lost)
	}
	r.close()
}

// TestBirthAfterCrash crashes the server while a message creates its receiver, of whom
// others want something too: that the message may be lost is nothing to them.
func TestBirthAfterCrash(t *testing.T) {
	other := Address{"thing", "other"}
	for name, want := range map[string]func(r *rig, heard chan<- error){
		"a client": func(r *rig, heard chan<- error) {
			go func() {
				_, err := invoke[[]string](r.ctx, r.Host, ear, "heard", nil)
				heard <- err
			}()
		},
		"another courier": func(r *rig, heard chan<- error) {
			r.call(other, "last word", "farewell")
			heard <- nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
				r := newRigOn(t, server, Options{IdleTimeout: time.Hour}, talkers()...)
				r.call(lobby, "numbered", nil)
				birth := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Match: func(op faultkv.Op) bool { return op.Commit.In != 0 }})
				r.call(lobby, "number", nil)
				synctest.Wait()
				if birth.Hits() != 1 {
					t.Fatal("nothing is on its way")
				}
				heard := make(chan error, 1)
				server.Crash(1 << 30)
				want(r, heard)
				synctest.Wait()
				birth.Release()
				must(t, <-heard)
				pass(10 * time.Second)
				if name != "a client" {
					r.wantHeard("farewell")
				}
				pass(5 * time.Minute)
				if got := r.heard(); got[len(got)-1] != "1" {
					t.Errorf("heard %q", got)
				}
				r.close()
			})
		})
	}
}
