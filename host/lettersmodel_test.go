package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// A postState is what an actor of the model knows: how many messages it has sent to whom,
// and what it has got.
type postState struct {
	Sent  map[string]int
	Heard []string
}

// post sends the next message to an actor, with its number.
func (s *postState) post(c *Context, to string) error {
	a, err := ParseAddress(to)
	if err != nil {
		return err
	}
	if s.Sent == nil {
		s.Sent = map[string]int{}
	}
	s.Sent[to]++
	return c.Send(a, queue.Send{Name: "word", Body: fmt.Sprintf("%s#%d", c.Address(), s.Sent[to])})
}

// postKinds are the types of the model. An ear sends each third message on to box/fwd; a box keeps
// its messages in its queue until the model empties it.
func postKinds() []*Type {
	actions := func() []AnyAction {
		return []AnyAction{
			NewAction("state", func(c *Context, _ struct{}) (postState, error) { return greenroom.State[postState](c) }),
			NewAction("send", func(c *Context, to []string) (int, error) {
				return 0, greenroom.Mutate(c, func(s *postState) error {
					for _, name := range to {
						if err := s.post(c, name); err != nil {
							return err
						}
					}
					return nil
				})
			}),
			NewAction("empty", func(c *Context, _ struct{}) ([]string, error) {
				ms, err := c.ReceiveWith(&queue.ReceiveOptions{Count: 50})
				var all []string
				for _, m := range ms {
					var text string
					err = errors.Join(err, m.Decode(&text), c.Complete(m.Receipt(), nil))
					all = append(all, text)
				}
				return all, err
			}),
		}
	}
	hear := func(c *Context, m *greenroom.Message) error {
		var text string
		if err := m.Decode(&text); err != nil {
			return err
		}
		return greenroom.Mutate(c, func(s *postState) error {
			s.Heard = append(s.Heard, text)
			if len(s.Heard)%3 == 0 {
				return s.post(c, "box/fwd")
			}
			return nil
		})
	}
	all := greenroom.QueueOptions{MaxMessages: -1}
	return []*Type{
		{Name: "thing", Actions: actions(), Queue: all},
		{Name: "ear", Actions: actions(), Queue: all, Message: hear},
		{Name: "box", Actions: actions(), Queue: all},
	}
}

var (
	postSenders   = []string{"thing/0", "thing/1", "thing/2", "thing/3", "ear/0", "ear/1"}
	postReceivers = []string{"ear/0", "ear/1", "box/0", "box/1", "box/fwd", "thing/0", "thing/3"}
)

// TestModelLetters has actors of one or two hosts send to each other while their server
// crashes at random moments, or is replaced by one that knows less, and hosts are restarted.
// In the end each has got what the others have sent, as they remember it: once, and in order.
func TestModelLetters(t *testing.T) {
	t.Parallel()
	runs := testkit.Pick(1, 2, 16)
	for range runs {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			m := postModel{T: t, rnd: rand.New(rand.NewPCG(seed, 0))}
			m.run()
			if t.Failed() {
				t.Errorf("seed %d, %d crashes", seed, m.crashes)
			}
		})
	}
}

type postModel struct {
	*testing.T
	rnd    *rand.Rand
	server *faultkv.Server
	hosts  []*postHost
	lock   chan struct{} // held while a host is chosen, or opened anew; a mutex would stop the clock

	ops      atomic.Int64 // of the engines
	over     atomic.Bool  // no more crashes
	mu       sync.Mutex
	due      int64 // the next crash  +checklocks:mu
	every    int   // operations between crashes, at most
	lossless bool  // crashes lose nothing that was synced
	crashes  int   // +checklocks:mu
	rndCrash *rand.Rand
}

type postHost struct {
	*Host
	engine *faultkv.Engine
	opts   Options
}

func (m *postModel) run() {
	m.server = faultkv.NewServer(func() kv.Engine { return memkv.New() })
	m.lock = make(chan struct{}, 1)
	m.lossless = m.rnd.IntN(2) == 0
	m.every = 5 + m.rnd.IntN([]int{60, 300, 1500}[m.rnd.IntN(3)])
	m.rndCrash = rand.New(rand.NewPCG(m.rnd.Uint64(), 1))
	m.open()
	acked := m.load()
	m.over.Store(true)
	pass(time.Hour)
	m.compare(acked)
	pass(time.Hour)
	for _, h := range m.hosts {
		if held, stats := h.couriers.heldBytes(), h.Stats(); held != 0 || stats.Senders != 0 || stats.Couriers != 0 {
			m.Errorf("couriers hold %d bytes at the end: %+v", held, stats)
		}
	}
	r := &rig{TB: m, Host: m.hosts[0].Host, ctx: m.Context(), engine: m.hosts[0].engine}
	r.wantNoLetters()
	for _, h := range m.hosts {
		must(m, h.Close(m.Context()))
	}
}

func (cs *couriers) heldBytes() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.held
}

func (m *postModel) open() {
	idles := []time.Duration{-1, 100 * time.Millisecond, time.Second, 5 * time.Second, time.Minute, time.Hour}
	n := 1 + m.rnd.IntN(2)
	if n == 2 {
		idles = idles[:4] // a receiver that is awake on another host gets nothing
	}
	for i := range n {
		h := &postHost{engine: faultkv.New(m.server), opts: Options{
			MaxAwake: []int{2, 3, 8, 100}[m.rnd.IntN(4)], IdleTimeout: idles[m.rnd.IntN(len(idles))], Logger: quiet,
			Store: &greenroom.Options{Host: actorstore.HostOptions{Name: fmt.Sprint(i)}},
		}}
		m.start(h)
		h.engine.Delay(time.Duration(m.rnd.IntN(4)) * 3 * time.Millisecond)
		if m.rnd.IntN(3) == 0 { // letters are read from the outbox
			h.couriers.mu.Lock()
			h.couriers.limit = 0
			h.couriers.mu.Unlock()
		}
		m.hosts = append(m.hosts, h)
	}
}

// start opens a host, meanwhile without crashes.
func (m *postModel) start(h *postHost) {
	h.engine.Hook(nil)
	var err error
	h.Host, err = Open(m.Context(), h.engine, postKinds(), &h.opts)
	must(m, err)
	h.engine.Hook(m.crash)
}

// crash is called before and after each operation of an engine.
func (m *postModel) crash(faultkv.Op) error {
	n := m.ops.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.due == 0 {
		m.due = n + 100 // the rows of the store and the hosts are there
	}
	if m.over.Load() || n < m.due {
		return nil
	}
	m.due = n + int64(1+m.rndCrash.IntN(m.every))
	m.crashes++
	if m.crashes%10 == 0 {
		m.due += 100 // several that wait for their syncs in step would else never have them
	}
	if m.lossless || m.rndCrash.IntN(2) == 0 {
		m.server.Crash(m.rndCrash.IntN(4))
	} else {
		m.server.Failover(m.rndCrash.IntN(6))
		m.due += 30 // else it goes back and back
	}
	return nil
}

// load has clients send, and restarts hosts. It returns how many messages each thing was told
// are sent.
func (m *postModel) load() *[4]atomic.Int64 {
	var acked [4]atomic.Int64
	ctx, cancel := context.WithTimeout(m.Context(), time.Duration(10+m.rnd.IntN(20))*time.Second)
	defer cancel()
	var clients sync.WaitGroup
	for range 4 {
		rnd := rand.New(rand.NewPCG(m.rnd.Uint64(), 2))
		clients.Go(func() {
			for ctx.Err() == nil {
				m.lock <- struct{}{}
				h := m.hosts[rnd.IntN(len(m.hosts))].Host
				<-m.lock
				i := rnd.IntN(4)
				var to []string
				for range 1 + rnd.IntN(3) {
					if name := postReceivers[rnd.IntN(len(postReceivers))]; name != postSenders[i] {
						to = append(to, name)
					}
				}
				one, done := context.WithTimeout(ctx, time.Duration(1+rnd.IntN(5000))*time.Millisecond)
				if _, err := invoke[int](one, h, Address{"thing", fmt.Sprint(i)}, "send", to); err == nil {
					acked[i].Add(int64(len(to)))
				}
				done()
				<-time.After(time.Duration(rnd.IntN(rnd.IntN(2000)+1)) * time.Millisecond)
			}
		})
	}
	for ctx.Err() == nil {
		pass(time.Duration(m.rnd.IntN(5000)) * time.Millisecond)
		if m.rnd.IntN(6) == 0 {
			m.lock <- struct{}{}
			h := m.hosts[m.rnd.IntN(len(m.hosts))]
			_ = h.Close(m.Context()) // some of its actors may be lost
			m.start(h)
			<-m.lock
		}
	}
	clients.Wait()
	return &acked
}

// ask calls an action of an actor, on the host that has it.
func ask[T any](m *postModel, name, action string) T {
	m.Helper()
	a, err := ParseAddress(name)
	must(m, err)
	for range 1000 {
		for _, h := range m.hosts {
			v, err := invoke[T](m.Context(), h.Host, a, action, nil)
			if err == nil {
				return v
			}
			if !errors.Is(err, actorstore.ErrInUse) {
				m.Errorf("%s of %s: %v", action, name, err)
			}
		}
		pass(time.Second)
	}
	m.Fatalf("%s of %s: no host has it", action, name)
	panic("unreachable")
}

// compare looks what has come.
func (m *postModel) compare(acked *[4]atomic.Int64) {
	states := map[string]postState{}
	for i, name := range postSenders {
		s := ask[postState](m, name, "state")
		states[name] = s
		sum := int64(0)
		for _, n := range s.Sent {
			sum += int64(n)
		}
		if i < len(acked) && m.lossless && sum < acked[i].Load() {
			m.Errorf("%s was told that %d messages are sent, and knows of %d", name, acked[i].Load(), sum)
		}
	}
	for _, to := range postReceivers {
		got := states[to].Heard
		if !strings.HasPrefix(to, "ear/") {
			got = nil
			for some := ask[[]string](m, to, "empty"); len(some) > 0; some = ask[[]string](m, to, "empty") {
				got = append(got, some...)
			}
		}
		for _, from := range postSenders {
			own := slices.DeleteFunc(slices.Clone(got), func(text string) bool { return !strings.HasPrefix(text, from+"#") })
			var want []string
			for i := range states[from].Sent[to] {
				want = append(want, fmt.Sprintf("%s#%d", from, i+1))
			}
			if strings.HasPrefix(to, "ear/") { // a turn that fails takes its message later
				slices.Sort(own)
				slices.Sort(want)
			}
			if !slices.Equal(own, want) {
				m.Errorf("%s has %q from %s, want %q", to, own, from, want)
			}
		}
	}
}
