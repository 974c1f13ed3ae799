package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// openHost opens a host on the stand's engine, of which at most so many actors are awake.
func openHost(s *stand, awake int) *host.Host {
	h := must(host.Open(s.ctx, s.openEngine(), []*host.Type{putter()}, &host.Options{
		Store: &greenroom.Options{Limits: limits()}, MaxAwake: awake, Logger: slog.New(slog.DiscardHandler), IdleTimeout: 1 << 60,
	}))
	s.end(func() error { return h.Close(context.Background()) })
	return h
}

// putter is the type of the actors.
func putter() *host.Type {
	key := []byte("key")
	put := host.NewCommand("put", func(c *host.Context, value []byte) error { return c.Put(key, value) })
	return &host.Type{Name: "putter", Actions: []host.AnyAction{
		put,
		host.NewAction("plan", func(c *host.Context, _ struct{}) (string, error) {
			if err := c.Put(key, key); err != nil {
				return "", err
			}
			return put.After(c, 365*24*time.Hour, nil)
		}),
		host.NewAction("get", func(c *host.Context, _ struct{}) ([]byte, error) { return c.Get(key) }),
	}}
}

// caller returns what calls an action of the i-th actor, and returns when it is answered.
func caller(s *stand, h *host.Host) func(i int, action string, args host.Raw) error {
	return func(i int, action string, args host.Raw) error {
		_, err := h.Do(s.ctx, &host.Call{Actor: host.Address{Type: "putter", Key: fmt.Sprint(i)}, Action: action, Args: args})
		return err
	}
}

// openTurns opens host/turn: a call of an action that puts one user key, from the call to its
// answer, by one caller of each actor. A turn is committed without waiting, and its answer
// waits until it is durable; the peer makes the same commits and waits for each.
func openTurns(s *stand) {
	call, value := caller(s, openHost(s, s.sizes.actors)), inCBOR(noisy(1))
	for i := range s.sizes.actors {
		s.workers = append(s.workers, repeat(func() error { return call(i, "put", value) }))
	}
	// Each wakes up once, and together: there are thousands.
	check(together(s.workers, func(int) func() bool { return countdown(1) }))
}

// weigh opens a side that measures bytes instead of seconds: an operation is an actor, and
// takes as long as it has memory, a second for each GiB. So the throughput is how many
// actors fit into a GiB. An operation more costs nothing: each run weighs the same actors
// once, which hold has in memory until the end of the visit.
//
// The engine is always the one in memory. What it holds is there before, and not counted.
func weigh(s *stand, hold func()) {
	var each float64 // of an actor, in seconds
	s.run = func(int) error {
		return s.visit(func(*stand) {
			before := liveMemory()
			hold()
			each = max(float64(liveMemory()-before)/float64(s.sizes.actors), 1) / (1 << 30)
		})
	}
	s.say = func(n int, t *tally) {
		t.took, t.cpu, t.counts = time.Duration(float64(n)*each*float64(time.Second)), math.NaN(), faultkv.Counts{}
	}
}

// liveMemory is what objects on the heap and stacks take that are in use.
func liveMemory() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() + s[1].Value.Uint64())
}

// openAwake measures actors that are awake after a turn, and openAsleep actors that sleep
// after one until an alarm rings, in a year.
func openAwake(s *stand) { weighActors(s, s.sizes.actors) }

func openAsleep(s *stand) { weighActors(s, 1) }

// weighActors makes actors that each have a key and an alarm. They are held by a host in
// which each makes a turn that only reads, and so many may be awake.
func weighActors(s *stand, awake int) {
	s.on = engineMem
	s.openEngine()
	visit := func(action string) {
		call := caller(s, openHost(s, awake))
		for i := range s.sizes.actors {
			check(call(i, action, nil))
		}
	}
	check(s.visit(func(*stand) { visit("plan") }))
	weigh(s, func() { visit("get") })
}

// openGoroutines is the peer of an actor that is awake: a goroutine that waits for work,
// in a table by its name.
func openGoroutines(s *stand) {
	weigh(s, func() {
		table := map[string]chan struct{}{}
		var done sync.WaitGroup
		for i := range s.sizes.actors {
			work := make(chan struct{})
			table[fmt.Sprint("putter/", i)] = work
			done.Go(func() { <-work })
		}
		s.end(func() error {
			for _, work := range table {
				close(work)
			}
			done.Wait()
			return nil
		})
	})
}

// openTimers is the peer of an actor that sleeps: a timer, in a table by its name.
func openTimers(s *stand) {
	weigh(s, func() {
		table := map[string]*time.Timer{}
		var rung sync.WaitGroup
		for i := range s.sizes.actors {
			rung.Add(1)
			table[fmt.Sprint("putter/", i)] = time.AfterFunc(time.Hour, rung.Done)
		}
		s.end(func() error {
			// The runtime lets go of a timer that is stopped some time later, and of one that has rung at once.
			for _, t := range table {
				t.Reset(0)
			}
			rung.Wait()
			return nil
		})
	})
}

// Names of the peers of host/forwarded.
const (
	atItsHost = "at-its-host" // the same calls, asked for at the host that has the actor
	withTrip  = "with-trip"   // these, and a request of HTTP before each, of as many bytes, that is answered at once
)

// A fleetPair is two hosts of the stand's store, of which one forwards calls to the other over HTTP.
type fleetPair struct {
	*stand
	near, far *host.Host
	server    string // the address of the far one
}

// begin opens them, and has the far one wake the actors.
func (p *fleetPair) begin() {
	engine := farEngine{p.openEngine()} // which several hosts may have open
	p.near, _ = p.open(engine)
	p.far, p.server = p.open(engine)
	for i := range p.sizes.actors {
		check(caller(p.stand, p.far)(i, "put", inCBOR(noisy(1))))
	}
}

// open opens a host, and serves what others forward to it.
func (p *fleetPair) open(engine kv.Engine) (*host.Host, string) {
	listener := must((&net.ListenConfig{}).Listen(p.ctx, "tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	quiet := slog.New(slog.DiscardHandler)
	f := must(fleet.Open(p.ctx, engine, &fleet.Options{Address: address, Here: true, Logger: quiet}))
	h := must(host.Open(p.ctx, engine, []*host.Type{putter()}, &host.Options{
		Store: &greenroom.Options{Limits: limits()}, MaxAwake: p.sizes.actors, Logger: quiet, IdleTimeout: 1 << 60, Peers: f.Peers(),
	}))
	p.end(func() error { return h.Close(context.Background()) })
	echo := http.NewServeMux()
	echo.Handle("/", f.Handler(h))
	echo.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	server := &http.Server{Handler: echo, ErrorLog: slog.NewLogLogger(quiet.Handler(), 0)}
	go func() { _ = server.Serve(listener) }()
	p.end(func() error { f.Close(); return server.Close() })
	return h, address
}

// forwarded returns what opens host/forwarded or one of its peers: a call of an action that reads one user key, of an actor that another host has, by one caller of each actor.
func forwarded(by string) func(*stand) {
	return func(s *stand) {
		p := &fleetPair{stand: s}
		p.begin()
		h, first := p.far, func() error { return nil }
		switch by {
		case "":
			h = p.near
		case withTrip:
			first = p.trips()
		}
		call := caller(s, h)
		for i := range s.sizes.actors {
			s.workers = append(s.workers, repeat(func() error {
				if err := first(); err != nil {
					return err
				}
				return call(i, "get", nil)
			}))
		}
	}
}

// trips returns what makes a request that is answered at once.
func (p *fleetPair) trips() func() error {
	const size = 100
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: p.sizes.actors}}
	p.end(func() error { client.CloseIdleConnections(); return nil })
	body := noisy(size)
	return func() error {
		r, err := http.NewRequestWithContext(p.ctx, http.MethodPost, "http://"+p.server+"/echo", bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if n, err := io.Copy(io.Discard, answer.Body); err != nil || n != size {
			return fmt.Errorf("an echo of %d bytes: %w", n, err)
		}
		return nil
	}
}
