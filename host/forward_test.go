package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// peers are hosts that share an engine, and carry requests to each other in memory.
type peers struct {
	testing.TB
	below kv.Engine
	types func() []*Type

	mu      sync.Mutex
	hosts   map[string]*Host // by their addresses  +checklocks:mu
	refuses map[string]error // what carrying to an address returns instead  +checklocks:mu
	loses   map[string]error // what it returns after the request was done  +checklocks:mu
	carried int              // +checklocks:mu
	slow    bool             // carrying takes a while, not the same each time; set before there are hosts
	engines map[string]*faultkv.Engine
}

func newPeers(t testing.TB, types func() []*Type) *peers {
	return &peers{TB: t, below: memkv.New(), types: types, hosts: map[string]*Host{}, refuses: map[string]error{}, loses: map[string]error{}, engines: map[string]*faultkv.Engine{}}
}

// Carry implements Carrier.
func (f *peers) Carry(ctx context.Context, to *actorstore.HostInfo, request []byte) ([]byte, error) {
	f.mu.Lock()
	f.carried++
	h, refused, lost := f.hosts[to.Offer.Address], f.refuses[to.Offer.Address], f.loses[to.Offer.Address]
	f.mu.Unlock()
	if f.slow {
		<-time.After(rand.N(20 * time.Millisecond))
	}
	if h == nil || refused != nil {
		return nil, errors.Join(ErrUnreachable, refused)
	}
	if h.Store().Lower().Self() != to.ID {
		return nil, fmt.Errorf("%w: it is another host by now", ErrUnreachable)
	}
	far, cancel := context.WithCancel(WithCaller(context.Background(), CallerOf(ctx))) // no values go from host to host
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	answer := h.Answer(far, slices.Clone(request))
	return answer, lost
}

func (f *peers) set(of map[string]error, address string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of[address] = err
}

// carriedBy returns how many requests fn makes hosts carry.
func (f *peers) carriedBy(fn func()) int {
	f.mu.Lock()
	before := f.carried
	f.mu.Unlock()
	fn()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.carried - before
}

// open opens a host at an address.
func (f *peers) open(address string, change ...func(o *Options)) *Host {
	f.Helper()
	engine := faultkv.New(f.below)
	o := &Options{Logger: quiet, IdleTimeout: time.Hour, Peers: &Peers{Address: address, Carry: f}, Store: &greenroom.Options{Host: actorstore.HostOptions{Name: address}}}
	for _, c := range change {
		c(o)
	}
	h, err := Open(f.Context(), engines.Shared(engine), f.types(), o)
	must(f, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[address], f.engines[address] = h, engine
	return h
}

func (f *peers) close() {
	f.Helper()
	for _, h := range f.hosts {
		must(f, h.Close(f.Context()))
	}
}

// counters are a type that counts and tells at which host it is.
func counters() []*Type {
	return []*Type{thing(add,
		NewAction("host", func(c *Context, _ struct{}) (string, error) { return c.life.host.opts.Peers.Address, nil }),
		NewAction("caller", func(c *Context, _ struct{}) (string, error) {
			if c.Caller() == nil {
				return "none", nil
			}
			return "the caller " + c.Caller().ID, nil
		}),
		NewAction("fail", func(_ *Context, what string) (int, error) {
			switch what {
			case "own":
				return 0, &Error{Code: "sold_out", Message: "Sold out."}
			case "like":
				return 0, &Error{Code: "no_such_actor", Message: "Not the host's."}
			case "full":
				return 0, fmt.Errorf("wrapped: %w", queue.ErrFull)
			case "panic":
				panic("by the actor")
			}
			return 0, errors.New("secret")
		}),
		NewAction("fails about another", func(_ *Context, what int) (int, error) {
			ranAbout.Add(1)
			return 0, fmt.Errorf("of another actor: %w", aboutOthers[what])
		}),
		NewAction("relay", func(c *Context, via []string) (int, error) {
			if len(via) == 0 {
				return invoke[int](c, c.life.host, c.Address(), "add", 1)
			}
			return invoke[int](c, c.life.host, Address{"thing", via[0]}, "relay", via[1:])
		}),
		NewAction("send", func(c *Context, to string) (struct{}, error) {
			return struct{}{}, c.Send(Address{"thing", to}, queue.Send{Name: "letter", Body: "hello"})
		}),
	)}
}

// aboutOthers are errors that an actor may return since another one, which it has called, couldn't be had, and ranAbout counts how often one did.
var (
	aboutOthers = []error{
		&actorstore.InUseError{Host: actorstore.HostInfo{ID: actorstore.HostID{1}, Offer: actorstore.Offer{Address: "b:1"}}}, actorstore.ErrFenced,
		&actorstore.SchemaError{Found: 2, Known: 1}, ErrUnreachable, ErrClosed, ErrNotAwake, &remoteError{is: []error{ErrClosed}},
	}
	ranAbout atomic.Int32
)

// TestForwardRan: an error about another actor, which an actor has returned, is the caller's: the call isn't made again.
func TestForwardRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		asleep := func(o *Options) { o.IdleTimeout = -1 } // so that each host could have it
		a := f.open("a:1", asleep)
		f.open("b:1", asleep)
		for address, key := range f.placed(a) {
			for i, want := range aboutOthers {
				ranAbout.Store(0)
				_, err := invoke[int](t.Context(), a, Address{"thing", key}, "fails about another", i)
				if n := ranAbout.Load(); n != 1 || err == nil || i < 6 && Code(err) != Code(want) {
					t.Errorf("%v at %s: it ran %d times, and the caller got %v", want, address, n, err)
				}
				time.Sleep(10 * time.Second)
			}
		}
		f.close()
	})
}

// TestForwardVars: neither is an error about another actor that Type.Vars has returned.
func TestForwardVars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, func() []*Type {
			k := counters()[0]
			k.Vars = func(_ context.Context, a Address) (any, error) {
				ranAbout.Add(1)
				if a.Key == "odd" {
					return nil, aboutOthers[0]
				}
				return nil, nil
			}
			return []*Type{k}
		})
		a := f.open("a:1")
		for _, h := range []*Host{a, f.open("b:1")} {
			f.placed(a) // which know of each other
			ranAbout.Store(0)
			_, err := invoke[int](t.Context(), h, Address{"thing", "odd"}, "add", 1)
			if n := ranAbout.Load(); n != 1 || Code(err) != Code(aboutOthers[0]) {
				t.Errorf("at %s: it ran %d times, and the caller got %v", h.opts.Peers.Address, n, err)
			}
		}
		f.close()
	})
}

// placed returns keys of actors that are at each of the hosts, one for each, by address.
func (f *peers) placed(h *Host) map[string]string {
	f.Helper()
	keys := map[string]string{}
	for i := 0; len(keys) < len(f.hosts); i++ {
		key := fmt.Sprintf("key %d", i)
		at, err := invoke[string](f.Context(), h, Address{"thing", key}, "host", nil)
		must(f, err)
		if keys[at] == "" {
			keys[at] = key
		}
	}
	return keys
}

// TestForward: whichever host is asked, an actor is at one host, its turns are one history, and errors are what they would be without a second host.
func TestForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		hosts := []*Host{f.open("a:1"), f.open("b:1"), f.open("c:1")}
		ctx := t.Context()
		for address, key := range f.placed(hosts[0]) {
			a := Address{"thing", key}
			for i, h := range hosts {
				if n, err := invoke[int](ctx, h, a, "add", 1); n != i+1 || err != nil {
					t.Errorf("%s at %s: %d, %v", a, h.opts.Peers.Address, n, err)
				}
				if at, err := invoke[string](ctx, h, a, "host", nil); at != address || err != nil {
					t.Errorf("%s is at %s, and then at %s, %v", a, address, at, err)
				}
				for what, want := range map[string]struct {
					is   error
					code string
				}{
					"own": {nil, "sold_out"}, "like": {nil, "no_such_actor"}, "full": {queue.ErrFull, "queue_full"}, "panic": {ErrPanic, "actor_failed"}, "other": {nil, "internal"},
				} {
					_, err := invoke[int](ctx, h, a, "fail", what)
					own := (*Error)(nil)
					if Code(err) != want.code || want.is != nil && !errors.Is(err, want.is) || errors.Is(err, ErrNoActor) ||
						errors.As(err, &own) != (what == "own" || what == "like") {
						t.Errorf("%s: got %v (%s)", what, err, Code(err))
					}
				}
				_, err := invoke[int](ctx, h, a, "add", "text")
				wantErr(t, err, ErrArgs)
				if want := `The action "add" takes an integer.`; Message(err) != want {
					t.Errorf("got %q, want %q", Message(err), want)
				}
				_, err = invoke[int](ctx, h, a, "none", nil)
				wantErr(t, err, ErrNoAction)
				for _, c := range []*Caller{nil, {}, {ID: "ada"}} {
					want := "none"
					with := ctx
					if c != nil {
						want, with = "the caller "+c.ID, WithCaller(ctx, c)
					}
					if got, err := invoke[string](with, h, a, "caller", nil); got != want || err != nil {
						t.Errorf("got %q, %v, want %q", got, err, want)
					}
				}
			}
			for _, h := range hosts {
				_, err := h.Send(ctx, a, queue.Send{Name: "other", Body: map[string]any{"n": 1}, Priority: 3, Delay: time.Hour})
				must(t, err)
			}
			n := 0
			for _, h := range hosts {
				if h.life(a.String()) != nil {
					n = h.life(a.String()).queue.Stats().Messages
				}
			}
			if n != len(hosts) {
				t.Errorf("%d messages", n)
			}
			must(t, hosts[0].Create(ctx, a, nil))
			must(t, hosts[1].Destroy(ctx, a))
			wantErr(t, hosts[2].Destroy(ctx, a), ErrNoActor)
		}
		f.close()
	})
}

// TestForwardCost: a forwarded call is carried once, and reads and commits nothing at the host that is asked; a call of an actor that is here is carried by none.
func TestForwardCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		a, b := f.open("a:1"), f.open("b:1")
		keys := f.placed(a)
		for _, tt := range []struct {
			key  string
			want int
		}{{keys["b:1"], 1}, {keys["a:1"], 0}} {
			synctest.Wait() // what hosts do when they begin isn't of the call
			f.engines["a:1"].Reset()
			if n := f.carriedBy(func() { must(t, testkit.Second(invoke[int](t.Context(), a, Address{"thing", tt.key}, "add", 1))) }); n != tt.want {
				t.Errorf("%d requests were carried, want %d", n, tt.want)
			}
			if got := f.engines["a:1"].Counts(); tt.want == 1 && (got.Gets+got.Scans+got.Commits > 0) {
				t.Errorf("the host that forwards did %+v", got)
			}
		}
		if b.Stats().Awake == 0 {
			t.Error("all is at one host")
		}
		f.close()
	})
}

// TestForwardNested: actors of two hosts that wait for each other are told so.
func TestForwardNested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		a := f.open("a:1")
		f.open("b:1")
		f.open("c:1")
		k := f.placed(a)
		for _, via := range [][]string{{k["b:1"], k["a:1"]}, {k["b:1"], k["c:1"], k["a:1"]}, {k["b:1"], k["c:1"], k["b:1"]}, {k["b:1"]}} {
			_, err := invoke[int](t.Context(), a, Address{"thing", k["a:1"]}, "relay", via)
			if err == nil {
				t.Errorf("%v: no error", via)
			}
			if Code(err) != "internal" || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: got %v", via, err)
			}
		}
		f.close()
	})
}

// TestForwardLetters: a message to an actor of another host comes at once, and its sender forgets it.
func TestForwardLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		a := f.open("a:1")
		b := f.open("b:1")
		k := f.placed(a)
		for range 3 {
			must(t, testkit.Second(invoke[struct{}](t.Context(), a, Address{"thing", k["a:1"]}, "send", k["b:1"])))
		}
		pass(10 * time.Millisecond)
		to := b.life(Address{"thing", k["b:1"]}.String())
		if n := to.queue.Stats().Messages; n != 3 {
			t.Errorf("%d messages have come", n)
		}
		if from := a.life(Address{"thing", k["a:1"]}.String()); !from.out.empty() {
			t.Error("the sender still has them")
		}
		f.close()
	})
}

// TestForwardUnreachable: a host that can't be reached but lives keeps its actors, and callers are told that nothing was done; one that has died loses them. What is
// under way at a host that is lost may have been done.
func TestForwardUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		a, b := f.open("a:1"), f.open("b:1")
		ctx, k := t.Context(), f.placed(a)
		at := Address{"thing", k["b:1"]}
		must(t, testkit.Second(invoke[int](ctx, a, at, "add", 1)))

		f.set(f.refuses, "b:1", errors.New("no route"))
		_, err := invoke[int](ctx, a, at, "add", 1)
		wantErr(t, err, ErrUnreachable)
		if n, err := invoke[string](ctx, a, Address{"thing", "new 1"}, "host", nil); n != "a:1" || err != nil {
			t.Errorf("an actor that no host has: at %s, %v", n, err)
		}
		f.set(f.refuses, "b:1", nil)
		if n, err := invoke[int](ctx, a, at, "add", 1); n != 2 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}

		f.set(f.loses, "b:1", fmt.Errorf("%w: the connection broke", ErrUnknownOutcome))
		_, err = invoke[int](ctx, a, at, "add", 1)
		wantErr(t, err, ErrUnknownOutcome)
		f.set(f.loses, "b:1", nil)
		if n, err := invoke[int](ctx, a, at, "add", 1); n != 4 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}

		f.set(f.refuses, "b:1", errors.New("dead"))
		f.engines["b:1"].Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever})
		began := time.Now()
		for {
			n, err := invoke[int](ctx, a, at, "add", 1)
			if err == nil {
				if n != 5 {
					t.Errorf("%d turns have landed, want 5", n)
				}
				break
			}
			wantErr(t, err, ErrUnreachable)
			pass(time.Second)
		}
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("it took %v", d)
		}
		f.engines["b:1"].Heal()
		pass(time.Minute)
		if err := b.Close(ctx); err != nil && !errors.Is(err, actorstore.ErrLeaseLost) && !errors.Is(err, actorstore.ErrFenced) {
			t.Error(err)
		}
		must(t, a.Close(ctx))
	})
}

// TestHandOver: a host that is about to end gives its actors away while calls come to all hosts: none is refused, lost or done twice, and what waits for a turn follows its actor.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, going := make(chan struct{}, 1), make(chan struct{})
		f := newPeers(t, func() []*Type {
			kinds := counters()
			kinds[0].Actions = append(kinds[0].Actions, NewAction("hold", func(c *Context, _ struct{}) (int, error) {
				begun <- struct{}{}
				<-going
				return 0, greenroom.Mutate(c, func(n *int) error { *n += 100; return nil })
			}))
			return kinds
		})
		a, b := f.open("a:1"), f.open("b:1")
		k := f.placed(a)
		ctx, at := t.Context(), Address{"thing", k["a:1"]}
		var work sync.WaitGroup
		add := func(h *Host) {
			work.Go(func() {
				if _, err := invoke[int](ctx, h, at, "add", 1); err != nil {
					t.Errorf("at %s: %v", h.opts.Peers.Address, err)
				}
			})
		}
		work.Go(func() { must(t, testkit.Second(invoke[int](ctx, b, at, "hold", nil))) })
		<-begun
		for range 5 {
			add(a)
			add(b)
		}
		synctest.Wait()
		over := make(chan error, 1)
		go func() { over <- a.HandOver(ctx) }()
		synctest.Wait()
		for range 5 {
			add(a)
			add(b)
		}
		pass(time.Second)
		if n := len(over); n != 0 {
			t.Error("a turn that has begun was given up")
		}
		close(going)
		work.Wait()
		must(t, <-over)
		if n, err := invoke[int](ctx, a, at, "add", 0); n != 120 || err != nil {
			t.Errorf("the sum is %d, %v", n, err)
		}
		for i := range 20 {
			if where, err := invoke[string](ctx, a, Address{"thing", fmt.Sprint("new ", i)}, "host", nil); where != "b:1" || err != nil {
				t.Errorf("a host that is about to end has a new actor: at %s, %v", where, err)
			}
		}
		if n := a.Stats().Awake; n != 0 {
			t.Errorf("%d actors are at the host that is about to end", n)
		}
		must(t, a.Close(ctx))
		f.set(f.refuses, "a:1", errors.New("gone"))
		if n, err := invoke[int](ctx, b, at, "add", 0); n != 120 || err != nil {
			t.Errorf("the sum is %d, %v", n, err)
		}
		must(t, b.HandOver(ctx)) // the last one has none to give its actors to
		if n, err := invoke[int](ctx, b, at, "add", 1); n != 121 || err != nil {
			t.Errorf("the sum is %d, %v", n, err)
		}
		must(t, b.Close(ctx))
	})
}

// TestHandOverForwarded: a call that waits behind one that another host forwards doesn't wait for that at the new host, and what an actor says of another one that was handed over is its caller's.
func TestHandOverForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, going := make(chan struct{}), make(chan struct{})
		gone := (*place)(nil).next()
		gone.leave()
		f := newPeers(t, func() []*Type {
			return []*Type{thing(add,
				NewAction("hold", func(*Context, struct{}) (int, error) { close(begun); <-going; return 0, nil }),
				NewAction("host", func(c *Context, _ struct{}) (string, error) { return c.life.host.opts.Peers.Address, nil }),
				NewCommand("fail", func(*Context, struct{}) error { return fmt.Errorf("of another actor: %w", &handedError{gone}) }))}
		})
		a, b := f.open("a:1"), f.open("b:1")
		at := Address{"thing", f.placed(a)["a:1"]}
		_, err := invoke[struct{}](t.Context(), a, at, "fail", nil)
		if code := Code(err); code != "shutting_down" {
			t.Errorf("got %v", err)
		}
		var work sync.WaitGroup
		work.Go(func() { must(t, testkit.Second(invoke[int](t.Context(), a, at, "hold", nil))) })
		<-begun
		for _, h := range []*Host{b, a} {
			work.Go(func() { must(t, testkit.Second(invoke[int](t.Context(), h, at, "add", 1))) })
			synctest.Wait()
		}
		over := make(chan error, 1)
		go func() { over <- a.HandOver(t.Context()) }()
		pass(time.Second)
		began := time.Now()
		close(going)
		work.Wait()
		if d := time.Since(began); d >= linePatience {
			t.Errorf("it took %v", d)
		}
		must(t, <-over)
		f.close()
	})
}

// TestHandOverOrder: calls that wait for an actor when it goes to another host are made there in their order.
func TestHandOverOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, going := make(chan struct{}), make(chan struct{})
		f := newPeers(t, func() []*Type {
			return []*Type{thing(
				NewAction("hold", func(*Context, struct{}) (int, error) { close(begun); <-going; return 0, nil }),
				NewAction("host", func(c *Context, _ struct{}) (string, error) { return c.life.host.opts.Peers.Address, nil }),
				NewAction("note", func(c *Context, n int) (all []int, err error) {
					return all, greenroom.Mutate(c, func(v *[]int) error { *v = append(*v, n); all = *v; return nil })
				}))}
		})
		f.slow = true
		a := f.open("a:1")
		f.open("b:1")
		at := Address{"thing", f.placed(a)["a:1"]}
		var work sync.WaitGroup
		work.Go(func() { must(t, testkit.Second(invoke[int](t.Context(), a, at, "hold", nil))) })
		<-begun
		var want []int
		for i := range 50 {
			want = append(want, i)
			work.Go(func() { must(t, testkit.Second(invoke[[]int](t.Context(), a, at, "note", i))) })
			synctest.Wait()
		}
		over := make(chan error, 1)
		go func() { over <- a.HandOver(t.Context()) }()
		pass(time.Second)
		close(going)
		work.Wait()
		must(t, <-over)
		got, err := invoke[[]int](t.Context(), a, at, "note", 50)
		if must(t, err); !slices.Equal(got, append(want, 50)) {
			t.Errorf("the order is %v", got)
		}
		f.close()
	})
}

// TestForwardType: a host forwards calls of a type that it doesn't run to one that does, and says so if that can't be reached.
func TestForwardType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, counters)
		b := f.open("b:1")
		f.types = func() []*Type { return []*Type{{Name: "other"}} }
		a := f.open("a:1")
		ctx := t.Context()
		if n, err := invoke[int](ctx, a, lobby, "add", 1); n != 1 || err != nil || b.Stats().Awake != 1 {
			t.Errorf("got %d, %v", n, err)
		}
		_, err := invoke[int](ctx, a, Address{"none", "x"}, "add", 1)
		wantErr(t, err, ErrNoType)
		f.set(f.refuses, "b:1", errors.New("no route"))
		_, err = invoke[int](ctx, a, lobby, "add", 1)
		if wantErr(t, err, ErrUnreachable); errors.Is(err, ErrNoType) {
			t.Errorf("got %v", err)
		}
		f.set(f.refuses, "b:1", nil)
		f.close()
	})
}

// TestOpenDue: a host that wakes actors as soon as it is opened knows of the others by then. The race detector looks at it.
func TestOpenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPeers(t, schemas(1))
		b := f.open("b:1")
		for i := range 20 {
			_, err := invoke[struct{}](t.Context(), b, Address{"thing", fmt.Sprint(i)}, "plan", time.Minute)
			must(t, err)
		}
		must(t, b.Close(t.Context()))
		time.Sleep(time.Hour)
		f.open("b:1")
		time.Sleep(time.Minute)
		f.close()
	})
}
