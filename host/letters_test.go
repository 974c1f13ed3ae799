package host

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/queue"
)

// bombers are a type whose actors each send messages to fan others, which do the same, and
// take a while for it. turns counts their messages.
func bombers(fan int, turns *atomic.Int64) *Type {
	spread := func(c *Context) error {
		for i := range fan {
			to := Address{"bomb", fmt.Sprintf("%s.%d", c.Address().Key, i)}
			if err := c.Send(to, queue.Send{Name: "word"}); err != nil {
				return err
			}
		}
		return nil
	}
	return &Type{
		Name: "bomb",
		Actions: []AnyAction{
			NewAction("light", func(c *Context, _ struct{}) (int, error) { return 0, spread(c) }),
		},
		Message: func(c *Context, _ *greenroom.Message) error {
			turns.Add(1)
			<-time.After(time.Millisecond)
			if err := spread(c); !errors.Is(err, ErrGenerations) {
				return err
			}
			return nil
		},
	}
}

// stored returns how many actors of a type there are.
func (r *rig) stored(kind string) (n int) {
	r.Helper()
	for info, err := range r.Store().Lower().Names(r.ctx) {
		must(r, err)
		if strings.HasPrefix(info.Name, kind+"/") {
			n++
		}
	}
	return n
}

// TestForkBomb has one actor send to many new ones, each of which does the same, where few
// may be awake: others are woken all the while, what waits is bounded, and it ends. The
// host is restarted in the midst of it.
func TestForkBomb(t *testing.T) {
	const fan, most = 12, 8
	var turns atomic.Int64
	opts := Options{MaxAwake: most, IdleTimeout: time.Hour, Letters: &Letters{Generations: 3}}
	bubble(t, opts, func(r *rig) {
		before := runtime.NumGoroutine()
		r.call(Address{"bomb", "b"}, "light", nil)
		worst, crowd := int64(0), 0
		for i := range 40 {
			if i == 20 {
				if s := r.Stats(); s.Senders == 0 {
					t.Error("it is over before the restart")
				}
				r.reopen()
			}
			pass(time.Millisecond)
			began := turns.Load()
			r.call(Address{"thing", fmt.Sprint(i)}, "add", 1)
			worst = max(worst, turns.Load()-began)
			s := r.Stats()
			crowd = max(crowd, runtime.NumGoroutine()-before)
			if s.Couriers > 2*(most/4) || s.Waiting > most/4+16 { // calls, and what wakes actors
				t.Errorf("%+v", s)
			}
		}
		if worst > 4*most {
			t.Errorf("between a call and its answer there were %d turns of others", worst)
		}
		if crowd > 300 {
			t.Errorf("there were %d goroutines more than before", crowd)
		}
		pass(time.Hour)
		if n, want := r.stored("bomb"), 1+fan+fan*fan+fan*fan*fan; n != want {
			t.Errorf("there are %d actors, want %d", n, want)
		}
		r.wantNoLetters()
	}, bombers(fan, &turns), thing(add))
}

// TestClientsFirst: couriers wait for room, and then a client, which gets it.
func TestClientsFirst(t *testing.T) {
	var woken []string
	kind := lettersType(nil)
	kind.Wake = func(c *Context) error { woken = append(woken, c.Address().Key); return nil } // one at a time
	bubble(t, Options{MaxAwake: 1, Couriers: 16, IdleTimeout: time.Hour}, func(r *rig) {
		r.wantSent(lobby, nil)
		r.life(lobby.String()).hold(1)
		r.wantSent(lobby, nil, "thing/a", "thing/b", "thing/c")
		called := make(chan error, 1)
		go func() {
			_, err := invoke[int](r.ctx, r.Host, Address{"thing", "x"}, "send", []string{})
			called <- err
		}()
		synctest.Wait()
		if s := r.Stats(); s.Waiting != 4 {
			t.Errorf("%+v", s)
		}
		r.life(lobby.String()).hold(-1)
		must(t, <-called)
		pass(time.Minute)
		if len(woken) < 5 || woken[1] != "x" {
			t.Errorf("%q were woken", woken)
		}
		r.wantNoLetters()
	}, kind)
}

// TestCouriersGoOn has clients want actors all the time where one may be awake: messages
// come all the same.
func TestCouriersGoOn(t *testing.T) {
	kinds := talkers()
	kinds[0].Actions = append(kinds[0].Actions, NewAction("add", func(*Context, int) (int, error) { <-time.After(time.Millisecond); return 0, nil }))
	bubble(t, Options{MaxAwake: 1, IdleTimeout: time.Hour}, func(r *rig) {
		var stop atomic.Bool
		var calls atomic.Int64
		done := make(chan bool)
		const clients = 20
		for i := range clients {
			go func() {
				for n := 0; !stop.Load(); n++ {
					r.call(Address{"thing", fmt.Sprintf("%d.%d", i, n%2)}, "add", 1)
					calls.Add(1)
				}
				done <- true
			}()
		}
		for range 5 {
			r.call(lobby, "number", nil)
		}
		for calls.Load() < 2000 && r.Stats().Senders > 0 {
			<-time.After(time.Millisecond)
		}
		if s := r.Stats(); s.Senders > 0 || s.Waiting < clients/2 {
			t.Errorf("%+v after %d calls", s, calls.Load())
		}
		stop.Store(true)
		for range clients {
			<-done
		}
		pass(time.Minute) // it takes them one by one
		r.wantHeard(numbers(5)...)
	}, kinds...)
}

// TestCouriersPassTheBusy has all room taken by actors that are busy: those talk to each
// other while messages for others wait.
func TestCouriersPassTheBusy(t *testing.T) {
	kinds := talkers()
	kinds[0].Actions = append(kinds[0].Actions, NewAction("to others", func(c *Context, n int) (int, error) {
		for i := range n {
			if err := c.Send(Address{"thing", fmt.Sprint(i)}, queue.Send{Name: "word"}); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	bubble(t, Options{MaxAwake: 2, IdleTimeout: time.Hour}, func(r *rig) {
		r.heard()
		r.call(lobby, "numbered", nil)
		for _, a := range []Address{ear, lobby} {
			r.life(a.String()).hold(1)
		}
		r.call(lobby, "to others", 100)
		pass(time.Second)
		r.call(lobby, "number", nil)
		pass(time.Second)
		r.wantHeard("1")
		if s := r.Stats(); s.Couriers != 1 || s.Senders != 1 {
			t.Errorf("%+v", s)
		}
		for _, a := range []Address{ear, lobby} {
			r.life(a.String()).hold(-1)
		}
		pass(time.Minute)
		r.wantNoLetters()
	}, kinds...)
}

// TestSendMuch has more sent than couriers keep in memory, by several actors to several
// ones: it comes once, and in the order of each sender.
func TestSendMuch(t *testing.T) {
	const senders, ears, each, size = 5, 3, 90, 64 << 10
	type word struct {
		From, N int
		Much    []byte
	}
	var closed atomic.Bool
	closed.Store(true)
	mouth := thing(
		NewAction("tell", func(c *Context, of [2]int) (int, error) { // ten, which fit any commit
			from := of[0]
			for n := of[1]; n < of[1]+10; n++ {
				w := word{from, n, make([]byte, size)}
				if err := c.Send(Address{"ear", fmt.Sprint(n % ears)}, queue.Send{Name: "word", Body: w}); err != nil {
					return 0, err
				}
			}
			return each, nil
		}),
	)
	listener := &Type{
		Name:    "ear",
		Actions: []AnyAction{NewAction("heard", func(c *Context, _ struct{}) ([][]int, error) { return greenroom.State[[][]int](c) })},
		Wake: func(*Context) error {
			if closed.Load() {
				return errRefused
			}
			return nil
		},
		Message: func(c *Context, m *greenroom.Message) error {
			var w word
			if err := m.Decode(&w); err != nil {
				return err
			}
			return greenroom.Mutate(c, func(heard *[][]int) error {
				if *heard == nil {
					*heard = make([][]int, senders)
				}
				(*heard)[w.From] = append((*heard)[w.From], w.N)
				return nil
			})
		},
	}
	bubble(t, Options{IdleTimeout: -1}, func(r *rig) {
		for i := range senders {
			for n := 0; n < each; n += 10 {
				r.call(Address{"thing", fmt.Sprint(i)}, "tell", [2]int{i, n})
			}
			synctest.Wait()
			r.couriers.mu.Lock()
			if held := r.couriers.held; held > maxHeld+senders*(leastRead+2*size) {
				t.Errorf("%d bytes are kept", held)
			}
			r.couriers.mu.Unlock()
		}
		closed.Store(false)
		pass(time.Hour)
		for e := range ears {
			heard, err := invoke[[][]int](r.ctx, r.Host, Address{"ear", fmt.Sprint(e)}, "heard", nil)
			must(t, err)
			var want []int
			for n := e; n < each; n += ears {
				want = append(want, n)
			}
			for i, got := range heard {
				if !slices.Equal(got, want) {
					t.Errorf("%d has heard from %d %v", e, i, got)
				}
			}
		}
		r.wantNoLetters()
		if s := r.Stats(); s.Senders != 0 || r.couriers.held != 0 {
			t.Errorf("%+v, and %d bytes, when all has come", s, r.couriers.held)
		}
	}, mouth, listener)
}

// lettersType is a type whose actors send where they are told, under bounds.
func lettersType(o *Letters) *Type {
	kind := thing(
		NewAction("send", func(c *Context, to []string) (int, error) {
			for i, text := range to {
				a, err := ParseAddress(text)
				if err == nil {
					err = c.Send(a, queue.Send{Name: "word", Body: i})
				}
				if err != nil {
					return 0, err
				}
			}
			return len(to), nil
		}),
	)
	kind.Letters = o
	return kind
}

func (r *rig) wantSent(from Address, want error, to ...string) {
	r.Helper()
	_, err := invoke[int](r.ctx, r.Host, from, "send", to)
	if !errors.Is(err, want) {
		r.Errorf("%s sends to %.60q: %v, want %v", from, to, err, want)
	}
	synctest.Wait()
}

// TestLettersTo bounds which actors a message may be sent to.
func TestLettersTo(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.wantSent(lobby, nil, "thing/x", "ear/mine", "ear/m", "thing/lobby")
		for _, not := range []string{"ear/min", "ear/mine2", "ear/", "thin/x"} {
			_, err := invoke[int](r.ctx, r.Host, lobby, "send", []string{not})
			if code := Code(err); code != "not_allowed" && code != "bad_address" && code != "no_such_type" {
				t.Errorf("%s: %v", not, err)
			}
		}
		r.wantSent(lobby, ErrNotAllowed, "thing/y", "ear/min")
		if n := r.stored("thing"); n != 2 {
			t.Errorf("there are %d things", n)
		}
	}, lettersType(&Letters{To: []string{"thing/*", "ear/mine", "ear/m"}}), listener())
}

// TestLettersRate counts what may be sent, also over a restart: turns that fail don't
// count.
func TestLettersRate(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		all := func(n int) (to []string) { return slices.Repeat([]string{ear.String()}, n) }
		r.wantSent(lobby, ErrTooFast, all(6)...)
		r.wantSent(lobby, nil, all(4)...)
		r.wantSent(lobby, ErrTooFast, all(2)...)
		r.wantSent(lobby, nil, all(1)...)
		r.wantSent(lobby, ErrTooFast, all(1)...)
		r.wantSent(Address{"thing", "other"}, nil, all(5)...)
		r.wantSent(lobby, nil, lobby.String(), lobby.String())
		r.reopen()
		r.wantSent(lobby, ErrTooFast, all(1)...)
		pass(2 * time.Second)
		r.wantSent(lobby, ErrTooFast, all(5)...)
		r.wantSent(lobby, nil, all(4)...)
		r.wantSent(lobby, ErrTooFast, all(1)...)
		pass(time.Hour)
		if n := r.Stats().Awake; n != 0 {
			t.Errorf("%d are awake", n)
		}
		r.wantSent(lobby, ErrTooFast, all(6)...)
		r.wantSent(lobby, nil, all(5)...)
	}, lettersType(&Letters{Rate: 2, Burst: 5}), listener())
}

// TestLettersGenerations has actors create each other, a few of them: those that exist
// talk on for ever, whichever of them has slept, or been restarted.
func TestLettersGenerations(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		a, b, c := Address{"thing", "a"}, Address{"thing", "b"}, Address{"thing", "c"}
		r.wantSent(a, nil, b.String())
		r.wantSent(b, nil, c.String())
		r.wantSent(c, ErrGenerations, "thing/d")
		pass(time.Hour)
		r.reopen()
		r.wantSent(c, ErrGenerations, "thing/d")
		for range 10 {
			r.wantSent(c, nil, a.String(), b.String())
			r.wantSent(b, nil, c.String())
			r.wantSent(a, nil, b.String(), "thing/new")
		}
		if n := r.stored("thing"); n != 4 {
			t.Errorf("there are %d things", n)
		}
		must(t, r.Destroy(r.ctx, b))
		r.wantSent(c, ErrGenerations, b.String())
		r.wantSent(b, nil, "thing/e") // it was called now
		r.wantNoLetters()
	}, lettersType(&Letters{Generations: 2}))
}

// TestLettersExisting is a message to an actor that exists, and doesn't when it comes: it
// isn't created.
func TestLettersExisting(t *testing.T) {
	kind := lettersType(&Letters{Generations: -1})
	bubble(t, Options{MaxAwake: 1, IdleTimeout: time.Hour}, func(r *rig) {
		r.wantSent(lobby, ErrGenerations, "thing/x")
		must(t, r.Create(r.ctx, Address{"thing", "x"}, nil))
		must(t, r.turn(r.ctx, lobby, nil, newTurn("test", func(c *Context) error {
			c.life.hold(1)
			return c.Send(Address{"thing", "x"}, queue.Send{Name: "word"})
		})))
		synctest.Wait()
		gone := make(chan error, 1)
		go func() { gone <- r.Destroy(r.ctx, Address{"thing", "x"}) }() // before the courier
		synctest.Wait()
		r.life(lobby.String()).hold(-1)
		must(t, <-gone)
		pass(time.Minute)
		if n := r.stored("thing"); n != 1 {
			t.Errorf("there are %d things", n)
		}
		r.wantNoLetters()
	}, kind)
}

// TestRefusedLogged has many actors whose messages fail again and again because they may not
// create others: each refusal is counted, and one a minute is logged.
func TestRefusedLogged(t *testing.T) {
	const actors = 50
	y := &tally{n: map[*metrics.Metric]int64{}}
	var log strings.Builder
	kind := thing()
	kind.Letters = &Letters{Generations: -1}
	kind.Message = func(c *Context, m *greenroom.Message) error {
		return c.Send(Address{"thing", c.Address().Key + "x"}, queue.Send{})
	}
	bubble(t, Options{Metrics: y, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(r *rig) {
		for i := range actors {
			a := Address{"thing", fmt.Sprint(i)}
			must(t, r.Create(r.ctx, a, nil))
			_, err := r.Send(r.ctx, a, queue.Send{})
			must(t, err)
		}
		pass(10 * time.Minute)
		y.mu.Lock()
		defer y.mu.Unlock()
		if n := y.n[metricRefused]; n < 5*actors {
			t.Errorf("%d refusals were counted", n)
		}
		if n := strings.Count(log.String(), "host: message"); n < 2 || n > 11 {
			t.Errorf("%d lines were logged in ten minutes:\n%s", n, log.String())
		}
	}, kind)
}

// TestDropsLogged: of letters that are dropped for one reason one a minute is logged, with how many there were.
func TestDropsLogged(t *testing.T) {
	var d troubles
	start := time.Unix(1000, 0)
	a, b := trouble{"", "a", "x"}, trouble{"", "b", "x"}
	for i, tt := range []struct {
		why  trouble
		at   time.Duration
		say  bool
		more int
	}{
		{a, 0, true, 0}, {a, time.Second, false, 0}, {b, time.Second, true, 0}, {a, troublePause - 1, false, 0},
		{a, troublePause, true, 2}, {a, troublePause + 1, false, 0}, {b, 3 * troublePause, true, 0}, {a, 3 * troublePause, true, 1},
	} {
		if say, more := d.note(tt.why, start.Add(tt.at)); say != tt.say || more != tt.more {
			t.Errorf("%d: %v, %d; want %v, %d", i, say, more, tt.say, tt.more)
		}
	}
	for i := range 3 * maxTroubles {
		d.note(trouble{"", "a", fmt.Sprint(i)}, start)
	}
	if n := len(d.by); n > maxTroubles {
		t.Errorf("%d reasons are remembered, want at most %d", n, maxTroubles)
	}
}

// TestLettersPriority: a message has in the queue of another actor, and in the own one, the priority with which it was sent.
func TestLettersPriority(t *testing.T) {
	send := NewAction("send", func(c *Context, to string) (int, error) {
		var refused *queue.InvalidError
		if err := c.Send(Address{"thing", to}, queue.Send{Priority: queue.MaxPriority + 1}); !errors.As(err, &refused) {
			return 0, fmt.Errorf("too high a priority: %w", err)
		}
		for _, p := range []int{0, -100, 7, 0, 100} {
			if err := c.Send(Address{"thing", to}, queue.Send{Name: "word", Priority: p}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	var got []int
	take := NewAction("take", func(c *Context, _ struct{}) (int, error) {
		got = nil
		msgs, err := c.ReceiveWith(&queue.ReceiveOptions{Count: 9})
		for _, m := range msgs {
			got = append(got, m.Priority)
		}
		return 0, err
	})
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		for _, to := range []string{"x", lobby.Key} {
			r.call(lobby, "send", to)
			pass(time.Minute)
			r.reopen()
			r.call(Address{"thing", to}, "take", nil)
			if want := []int{100, 7, 0, 0, -100}; !slices.Equal(got, want) {
				t.Errorf("thing/%s got %v, want %v", to, got, want)
			}
		}
		r.wantNoLetters()
	}, thing(send, take))
}

// TestLettersDebounce: messages to another actor replace each other in its queue, also over a restart.
func TestLettersDebounce(t *testing.T) {
	send := NewAction("send", func(c *Context, body string) (int, error) {
		var refused *queue.InvalidError
		to := Address{"thing", "x"}
		if err := c.Send(to, queue.Send{Debounce: &queue.Debounce{Max: time.Second}}); !errors.As(err, &refused) {
			return 0, fmt.Errorf("without a key: %w", err)
		}
		return 0, c.Send(to, queue.Send{Name: "save", Body: body, Delay: 4 * time.Second, Debounce: &queue.Debounce{Key: "doc", Max: 10 * time.Second}})
	})
	kind := thing(send, answered)
	kind.Message = func(c *Context, m *greenroom.Message) error {
		var body string
		err := m.Decode(&body)
		return errors.Join(err, note(c, fmt.Sprint(body, " ", m.ID)))
	}
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		for i := range 6 { // every three seconds
			r.call(lobby, "send", fmt.Sprint(i))
			if pass(3 * time.Second); i == 1 {
				r.reopen()
			}
		}
		pass(time.Minute)
		got, err := invoke[string](r.ctx, r.Host, Address{"thing", "x"}, "answered", nil)
		if must(t, err); got != "3 1\n5 2\n" {
			t.Errorf("got %q", got)
		}
		r.wantNoLetters()
	}, kind)
}
