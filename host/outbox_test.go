package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/queue"
)

// ear is the actor to which the others talk.
var ear = Address{"ear", "mine"}

// talkers are a type that sends, and one that keeps what it gets in its state, where it
// can be read with "heard".
func talkers() []*Actor {
	tell := Action(func(c *Context, n int) (int, error) {
		for i := range n {
			if err := c.Send(ear, queue.Send{Name: "word", Body: i}); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	talker := thing(map[string]Handler{
		"tell": tell,
		"say": Action(func(c *Context, text string) (int, error) {
			return 0, c.Send(ear, queue.Send{Name: "word", Body: text})
		}),
		"fail": Action(func(c *Context, text string) (int, error) {
			return 0, errors.Join(c.Send(ear, queue.Send{Name: "word", Body: text}), errRefused)
		}),
		"last word": Action(func(c *Context, text string) (int, error) {
			return 0, errors.Join(c.Send(ear, queue.Send{Name: "word", Body: text}), c.Destroy())
		}),
		"number": Action(func(c *Context, _ struct{}) (n int, err error) {
			err = Mutate(c, func(v *int) error { *v++; n = *v; return nil })
			return n, errors.Join(err, c.Send(ear, queue.Send{Name: "word", Body: n}))
		}),
		"numbered": Action(func(c *Context, _ struct{}) (int, error) { return State[int](c) }),
	})
	return []*Actor{talker, listener()}
}

func listener() *Actor {
	return &Actor{
		Name: "ear",
		Actions: map[string]Handler{
			"heard": Action(func(c *Context, _ struct{}) ([]string, error) { return State[[]string](c) }),
		},
		Message: func(c *Context, m *queue.Message) error {
			var v any
			if err := m.Decode(&v); err != nil {
				return err
			}
			return Mutate(c, func(heard *[]string) error { *heard = append(*heard, fmt.Sprint(v)); return nil })
		},
		Queue: queue.Options{MaxMessages: 1000},
	}
}

func (r *rig) heard() []string {
	r.Helper()
	heard, err := Invoke[[]string](r.ctx, r.Host, ear, "heard", nil)
	must(r, err)
	return heard
}

func (r *rig) wantHeard(want ...string) {
	r.Helper()
	if got := r.heard(); !slices.Equal(got, want) {
		r.Errorf("heard %q, want %q", got, want)
	}
}

// wantNumbers looks whether an ear has heard the numbers up to n, each once, in any order.
func wantNumbers(t testing.TB, heard []string, n int) {
	t.Helper()
	got, want := slices.Sorted(slices.Values(heard)), slices.Sorted(slices.Values(numbers(n)))
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want the numbers up to %d", heard, n)
	}
}

// wantNoLetters looks whether all outboxes are empty.
func (r *rig) wantNoLetters() {
	r.Helper()
	for info, err := range r.Store().Actors(r.ctx, nil) {
		must(r, err)
		v, err := r.Store().View(r.ctx, info.ID)
		must(r, err)
		start, end := letterRange()
		for e, err := range v.List(r.ctx, actorstore.ListOptions{Start: start, End: end}) {
			must(r, err)
			r.Errorf("%s has %x in its outbox", info.Name, e.Key)
		}
		must(r, v.Close())
	}
}

// numbers are the texts of 1 to n.
func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i+1))
	}
	return all
}

func TestSend(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "say", "hello")
		_, err := Invoke[int](r.ctx, r.Host, lobby, "fail", "never")
		wantErr(t, err, errRefused)
		for i := range 5 {
			r.call(lobby, "say", fmt.Sprint(i))
		}
		pass(time.Second)
		r.wantHeard("hello", "0", "1", "2", "3", "4")
		r.wantNoLetters()
		pass(time.Minute)
		if s := r.Stats(); s.Awake != 0 || s.Alarms != 0 {
			t.Errorf("%+v when everything has come", s)
		}
		r.wantRows(0)
		r.call(lobby, "last word", "good bye")
		pass(time.Second)
		r.call(lobby, "say", "I am a new one")
		pass(time.Second)
		r.wantHeard("hello", "0", "1", "2", "3", "4", "good bye", "I am a new one")
	}, talkers()...)
}

// TestSendRefused has messages that can't be sent.
func TestSendRefused(t *testing.T) {
	kinds := talkers()
	kinds[1].Queue.Names = []string{"word"}
	kinds[1].Queue.MaxMessageBytes = 100
	bubble(t, Options{}, func(r *rig) {
		send := func(to Address, s queue.Send) error {
			return r.Do0(func(c *Context) error { return c.Send(to, s) })
		}
		for _, bad := range []struct {
			to   Address
			s    queue.Send
			want error
		}{
			{Address{"", "x"}, queue.Send{}, ErrAddress},
			{Address{"nothing", "x"}, queue.Send{}, ErrNoType},
			{ear, queue.Send{Name: "\xff"}, queue.ErrInvalid},
			{ear, queue.Send{Delay: -1}, queue.ErrInvalid},
			{ear, queue.Send{Body: func() {}}, queue.ErrInvalid},
			{ear, queue.Send{Body: Raw{0xff}}, queue.ErrInvalid},
		} {
			if err := send(bad.to, bad.s); !errors.Is(err, bad.want) {
				t.Errorf("%v: got %v, want %v", bad.s, err, bad.want)
			}
		}
		_, err := Invoke[int](r.ctx, r.Host, lobby, "tell", maxLetters+1)
		wantErr(t, err, ErrOutboxFull)
		// What nobody can take holds up nothing.
		must(t, send(ear, queue.Send{Name: "nobody's"}))
		must(t, send(ear, queue.Send{Name: "word", Body: strings.Repeat("x", 200)}))
		must(t, send(ear, queue.Send{Name: "word", Body: queue.Raw{0x01}, Delay: time.Hour}))
		must(t, send(ear, queue.Send{Name: "word", Body: Raw{0x02}}))
		must(t, send(ear, queue.Send{Name: "word"}))
		pass(time.Second)
		r.wantHeard("2", "<nil>")
		r.wantNoLetters()
		pass(time.Hour)
		r.wantHeard("2", "<nil>", "1")
	}, kinds...)
}

// TestSendToItself is a message to the own queue, in the same commit.
func TestSendToItself(t *testing.T) {
	kind := listener()
	kind.Actions["say"] = Action(func(c *Context, text string) (int, error) {
		return c.Queue().Len(), c.Send(c.Address(), queue.Send{Name: "word", Body: Raw{0x63, 'y', 'e', 's'}})
	})
	bubble(t, Options{}, func(r *rig) {
		r.call(ear, "say", "x")
		pass(time.Second)
		r.wantHeard("yes")
		r.wantNoLetters()
	}, kind)
}

// TestSendCrowded has everybody talk where few may be awake: the receiver, or one actor
// in all.
func TestSendCrowded(t *testing.T) {
	for _, most := range []int{1, 2} {
		y := &tally{n: map[*metrics.Metric]int64{}}
		bubble(t, Options{MaxAwake: most, IdleTimeout: time.Hour, Metrics: y}, func(r *rig) {
			for i := range 10 {
				r.call(Address{"thing", fmt.Sprint(i)}, "say", fmt.Sprint(i))
			}
			pass(10 * time.Minute)
			got := r.heard()
			slices.Sort(got)
			if want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(got, want) {
				t.Errorf("with %d awake: heard %q", most, got)
			}
			r.wantNoLetters()
			y.mu.Lock()
			defer y.mu.Unlock()
			// The senders twice, and between each two of them the receiver.
			if n := y.n[metricWoken]; n > 60 {
				t.Errorf("with %d awake: actors were woken %d times", most, n)
			}
		}, talkers()...)
	}
}

// TestSendFullQueue sends more than fits into the queue of the receiver, which takes it
// all the same in time, and in order.
func TestSendFullQueue(t *testing.T) {
	kinds := talkers()
	kinds[1].Queue.MaxMessages = 5
	var open atomic.Bool
	hear := kinds[1].Message
	kinds[1].Message = func(c *Context, m *queue.Message) error {
		if !open.Load() {
			return errRefused
		}
		return hear(c, m)
	}
	bubble(t, Options{}, func(r *rig) {
		for range 40 {
			r.call(lobby, "number", nil)
		}
		pass(time.Minute)
		r.wantHeard()
		open.Store(true)
		pass(2 * time.Hour)
		wantNumbers(t, r.heard(), 40) // what had failed came again later
		r.wantNoLetters()
	}, kinds...)
}

// TestSendBehindRefused has a courier give up, and only then a newer message sent: it
// doesn't overtake, nor is what it would have overtaken lost.
func TestSendBehindRefused(t *testing.T) {
	kinds := talkers()
	var awake atomic.Bool
	kinds[1].Wake = func(*Context) error {
		if !awake.Load() {
			return errRefused
		}
		return nil
	}
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "number", nil)
		pass(20 * time.Second)
		r.couriers.mu.Lock()
		if n := len(r.couriers.routes); n != 0 {
			t.Errorf("%d couriers are under way", n)
		}
		r.couriers.mu.Unlock()
		awake.Store(true)
		r.call(lobby, "number", nil)
		pass(5 * time.Minute)
		r.wantHeard("1", "2")
		r.wantNoLetters()
	}, kinds...)
}

// TestSendWhenSleeping is an actor that sends something whenever it goes to sleep.
func TestSendWhenSleeping(t *testing.T) {
	kinds := talkers()
	kinds[0].Sleep = func(c *Context) error { return c.Send(ear, queue.Send{Name: "word", Body: "good night"}) }
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "say", "hello")
		pass(time.Hour)
		r.wantHeard("hello", "good night")
		r.wantNoLetters()
	}, kinds...)
}

// TestSendFaults fails each engine operation from a turn that sends until its message has
// come: what was acknowledged comes once, and what failed never.
func TestSendFaults(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit, faultkv.BeforeSync, faultkv.BeforeGet, faultkv.BeforeScan} {
		for skip, hit := 0, true; hit; skip++ {
			bubble(t, Options{}, func(r *rig) {
				r.call(lobby, "number", nil)
				pass(time.Second)
				fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
				_, err := Invoke[int](r.ctx, r.Host, lobby, "number", nil)
				pass(5 * time.Minute)
				fault.Remove()
				hit = fault.Hits() > 0
				if err == nil && r.call(lobby, "numbered", nil) != 2 {
					t.Errorf("fault %d at %v: the turn isn't there", skip, point)
				}
				r.call(lobby, "number", nil)
				pass(time.Minute)
				r.wantHeard(numbers(r.call(lobby, "numbered", nil))...)
				r.wantNoLetters()
				if t.Failed() {
					t.Fatalf("fault %d at %v, error %v", skip, point, err)
				}
			}, talkers()...)
		}
	}
}

// TestSendAfterCrash crashes the host at each commit and wait of a turn that sends and of
// the way of its message, and restarts it: the message comes once if its turn has landed.
func TestSendAfterCrash(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeSync} {
		for skip, hit := 0, true; hit; skip++ {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{IdleTimeout: 10 * time.Hour}, talkers()...)
				pause := r.engine.Pause(faultkv.Rule{Point: point, Skip: skip, Err: faultkv.ErrInjected})
				done := make(chan error, 1)
				go func() {
					_, err := Invoke[int](r.ctx, r.Host, lobby, "number", nil)
					done <- err
				}()
				synctest.Wait()
				pass(time.Second)
				old := r.crash()
				pause.Release()
				hit = pause.Hits() > 0
				pass(5 * time.Minute)
				err := <-done
				n := r.call(lobby, "numbered", nil)
				if err == nil && n != 1 {
					t.Errorf("what was acknowledged isn't there")
				}
				r.wantHeard(numbers(n)...)
				r.call(lobby, "number", nil)
				pass(time.Minute)
				r.wantHeard(numbers(n + 1)...)
				r.wantNoLetters()
				if t.Failed() {
					t.Errorf("crash %d at %v, error %v", skip, point, err)
				}
				_ = old.Close(t.Context()) // its actors are fenced
				r.close()
			})
		}
	}
}

// TestSendAcrossRestarts closes the host with a message under way: the next one sends it
// at once.
func TestSendAcrossRestarts(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		must(t, r.Create(r.ctx, ear, nil))
		pass(time.Minute)
		release := make(chan bool)
		busy := make(chan error, 1)
		go func() {
			busy <- r.turn(r.ctx, ear, nil, newTurn("test", func(*Context) error { <-release; return nil }))
		}()
		synctest.Wait()
		r.call(lobby, "say", "one")
		closed := make(chan error, 1)
		go func() { closed <- r.Host.Close(r.ctx) }()
		synctest.Wait()
		close(release)
		must(t, <-busy)
		must(t, <-closed)
		r.open()
		pass(time.Second)
		r.wantHeard("one")
		r.wantNoLetters()
	}, talkers()...)
}

// TestSendFromFork has an actor forked that has something in its outbox: what the
// original has sent the fork doesn't send.
func TestSendFromFork(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "say", "one")
		pass(time.Minute)
		r.wantHeard("one")
		// As if the letter had been under way when the fork was made.
		id := actorstore.IDFromName(lobby.String())
		other := Address{"thing", "other"}
		r.call(other, "numbered", nil)
		must(t, r.turn(r.ctx, other, nil, newTurn("test", func(c *Context) error {
			l := &letter{number: 7, from: senderOf(id), to: ear.String(), name: "word", body: Raw{1}}
			c.Batch().Put(letterKey(l.number), l.append(nil))
			return nil
		})))
		r.reopen()
		r.call(other, "number", nil)
		pass(10 * time.Minute)
		r.wantHeard("one", "1")
		r.wantNoLetters()
	}, talkers()...)
}

// TestSeenIsForgotten has many actors send one message each, and looks what the receiver
// keeps of them.
func TestSeenIsForgotten(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		count := func() (n int) {
			v, err := r.Store().View(r.ctx, actorstore.IDFromName(ear.String()))
			must(t, err)
			start, end := seenRange()
			for e, err := range v.List(r.ctx, actorstore.ListOptions{Start: start, End: end}) {
				must(t, err)
				_, err := parseSeen(e.Value)
				must(t, err)
				n++
			}
			must(t, v.Close())
			return n
		}
		for i := range 50 {
			r.call(Address{"thing", fmt.Sprint(i)}, "say", "x")
		}
		pass(time.Minute)
		if n := count(); n != 50 {
			t.Errorf("%d senders are known", n)
		}
		pass(25 * time.Hour)
		for i := range 100 {
			r.call(Address{"thing", fmt.Sprint("new", i)}, "say", "x")
		}
		pass(time.Minute)
		if n := count(); n < 100 || n >= 150 {
			t.Errorf("%d senders are known a day later", n)
		}
		if n := len(r.heard()); n != 150 {
			t.Errorf("%d were heard", n)
		}
	}, talkers()...)
}

// TestSendBetweenHosts has the receiver awake on another host: it gets the message from
// whoever has it next.
func TestSendBetweenHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := sharedEngine{memkv.New()}
		var hosts [2]*Host
		for i := range hosts {
			opts := Options{Logger: quiet, IdleTimeout: time.Minute, Store: &actorstore.Options{Host: actorstore.HostOptions{Name: fmt.Sprint(i)}}}
			h, err := Open(t.Context(), engine, talkers(), &opts)
			must(t, err)
			hosts[i] = h
		}
		_, err := Invoke[[]string](t.Context(), hosts[0], ear, "heard", nil)
		must(t, err)
		_, err = Invoke[int](t.Context(), hosts[1], lobby, "number", nil)
		must(t, err)
		must(t, hosts[1].Close(t.Context()))
		pass(10 * time.Minute)
		heard, err := Invoke[[]string](t.Context(), hosts[0], ear, "heard", nil)
		must(t, err)
		if !slices.Equal(heard, []string{"1"}) {
			t.Errorf("heard %q", heard)
		}
		must(t, hosts[0].Close(context.Background()))
	})
}

func TestLetterGolden(t *testing.T) {
	l := &letter{
		number: 0x0102, from: senderOf(actorstore.ID{UUID: [16]byte{0: 0xaa, 15: 0xbb}, Label: 0x0304}),
		nonce: [16]byte{0: 0xcc, 15: 0xdd}, to: "a/b", name: "n", body: Raw{0xf6}, key: "k", sent: 5, delay: 6,
	}
	zeros := strings.Repeat("\x00", 14)
	want := "\x01\x00\xaa" + zeros + "\xbb\x03\x04\xcc" + zeros + "\xdd\x03a/b\x01n\x01\xf6\x01k\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
	if got := string(l.append(nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(letterKey(l.number)), "ho\x00\x00\x00\x00\x00\x00\x01\x02"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := seen{l.nonce, 7, 8}
	if got, want := string(s.append(nil)), "\x01\x00\xcc"+zeros+"\xdd\x07\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(seenKey(l.from)), "hi\xaa"+zeros+"\xbb\x03\x04"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := parseNonce([]byte{9, 9}); !errors.Is(err, kv.ErrNewerFormat) {
		t.Errorf("got %v", err)
	}
}

func FuzzLetter(f *testing.F) {
	l := &letter{to: "a/b", name: "n", body: Raw{0xf6}}
	f.Add(letterKey(1), l.append(nil))
	f.Add(letterKey(1), seen{}.append(nil))
	f.Add(letterKey(1), appendNonce(nil, [16]byte{1}))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if l, err := parseLetter(key, value); err == nil && (string(l.append(nil)) != string(value) || string(letterKey(l.number)) != string(key)) {
			t.Errorf("%x: %x is read as %+v", key, value, l)
		}
		if s, err := parseSeen(value); err == nil && string(s.append(nil)) != string(value) {
			t.Errorf("%x is read as %+v", value, s)
		}
		if n, err := parseNonce(value); err == nil && string(appendNonce(nil, n)) != string(value) {
			t.Errorf("%x is read as %x", value, n)
		}
	})
}
