package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// turnValue is the size of what a turn writes, turnsKept how many turns of each actor the
// peer records and plays back.
const (
	turnValue = 100
	turnsKept = 8
)

// hostLines is host/turn: a call of an action that puts one user key, from the call to its
// answer, by one caller of each actor. A turn is committed without waiting, and its answer
// waits until it is durable; the peer makes the same commits and waits for each.
// host/turn-many is the same with thousands of actors. host/awake and host/asleep are how
// many actors there may be in a GiB of memory.
func hostLines(engine string) []line {
	subject, own := "greenroom-"+engine, "greenroom-"+engineMem
	return []line{
		{
			"host/turn", "turn/s",
			side{subject, func(ctx context.Context, at site) (runner, error) { return openTurns(ctx, at) }},
			side{rawEngine, openRawTurns},
		},
		{
			"host/turn-many", "turn/s",
			side{subject, func(ctx context.Context, at site) (runner, error) { return openTurns(ctx, at.many()) }},
			side{rawEngine, func(ctx context.Context, at site) (runner, error) { return openRawTurns(ctx, at.many()) }},
		},
		{
			"host/awake", "actors/GiB",
			side{own, func(ctx context.Context, at site) (runner, error) { return openAwake(ctx, at.many()) }},
			side{"goroutine", func(ctx context.Context, at site) (runner, error) { return openGoroutines(ctx, at.many()) }},
		},
		{
			"host/asleep", "actors/GiB",
			side{own, func(ctx context.Context, at site) (runner, error) { return openAsleep(ctx, at.many()) }},
			side{"timer", func(ctx context.Context, at site) (runner, error) { return openTimers(ctx, at.many()) }},
		},
	}
}

// A turnHost is a host with actors that are called.
type turnHost struct {
	engine *faultkv.Engine
	host   *host.Host
	actors []host.Address
	value  host.Raw
}

var _ runner = (*turnHost)(nil)

func openTurns(ctx context.Context, at site) (h *turnHost, err error) {
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	// A byte string in CBOR, made of noise.
	h = &turnHost{engine: faultkv.New(engine), value: append(host.Raw{0x58, turnValue}, make([]byte, turnValue)...)}
	noise(newRand(1), h.value[2:])
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	limits := batch.DefaultLimits()
	limits.Storage = 1 << 40
	h.host, err = host.Open(ctx, h.engine, []*host.Type{putter()}, &host.Options{
		Store: &greenroom.Options{Limits: limits}, MaxAwake: at.sizes.actors, Logger: slog.New(slog.DiscardHandler),
		IdleTimeout: 1 << 60,
	})
	if err != nil {
		return nil, err
	}
	for i := range at.sizes.actors {
		h.actors = append(h.actors, host.Address{Type: "putter", Key: fmt.Sprint(i)})
	}
	// Each once, and together: there are thousands.
	errs := make([]error, len(h.actors))
	var done sync.WaitGroup
	for i := range h.actors {
		done.Go(func() { errs[i] = h.call(ctx, i) })
	}
	done.Wait()
	return h, errors.Join(errs...)
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

func (h *turnHost) call(ctx context.Context, i int) error {
	_, err := h.host.Do(ctx, &host.Call{Actor: h.actors[i], Action: "put", Args: h.value})
	return err
}

func (h *turnHost) run(ctx context.Context, n int) error {
	return together(len(h.actors), n, func(i int, more func() bool) error {
		return repeat(more, func() error { return h.call(ctx, i) })
	})
}

func (h *turnHost) counts() faultkv.Counts { return h.engine.Counts() }

func (h *turnHost) close() error {
	var err error
	if h.host != nil {
		err = h.host.Close(context.Background())
	}
	return errors.Join(err, h.engine.Close())
}

// openRawTurns records some turns of each actor in memory. They are played back as commits
// that are waited for: that is what a caller is promised.
func openRawTurns(ctx context.Context, at site) (runner, error) {
	commits, err := recordTurns(ctx, at)
	if err != nil {
		return nil, err
	}
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	return &rawCrowd{faultkv.New(engine), 1, commits, make([]int, len(commits))}, nil
}

func recordTurns(ctx context.Context, at site) (commits [][]kv.Commit, err error) {
	at.engine = engineMem
	h, err := openTurns(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for i := range h.actors {
		var of []kv.Commit
		h.engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeCommit {
				kept := keep(op.Commit)
				kept.Durability = kv.Durable
				of = append(of, kept)
			}
			return nil
		})
		for range turnsKept {
			if err := h.call(ctx, i); err != nil {
				return nil, err
			}
		}
		h.engine.Hook(nil)
		if len(of) != turnsKept {
			return nil, errManyCommits
		}
		commits = append(commits, of)
	}
	return commits, nil
}

// memoryTimes is how many times as many actors there are where their memory is measured,
// or how many turns they make together, as are at work at once elsewhere: thousands.
const memoryTimes = 10

// many returns the site for thousands of actors.
func (s site) many() site {
	s.sizes.actors *= memoryTimes
	return s
}

// A footprint measures bytes instead of seconds: an operation is an actor, and takes as
// long as it has memory, a second for each GiB. So the throughput is how many actors fit
// into a GiB. An operation more costs nothing: each run weighs the same actors once.
//
// The engine is always the one in memory. What it holds is there before, and not counted.
type footprint struct {
	actors int
	// hold has the actors in memory, and returns what lets go of them.
	hold   func(ctx context.Context) (release func() error, err error)
	finish func() error
	passed time.Duration
}

var _ clocked = (*footprint)(nil)

func (f *footprint) run(ctx context.Context, n int) error {
	before := liveMemory()
	release, err := f.hold(ctx)
	if err != nil {
		return err
	}
	each := max(float64(liveMemory()-before)/float64(f.actors), 1)
	f.passed += time.Duration(float64(n) * each / (1 << 30) * float64(time.Second))
	return release()
}

func (f *footprint) clock() time.Duration { return f.passed }

func (f *footprint) counts() faultkv.Counts { return faultkv.Counts{} }

func (f *footprint) close() error { return f.finish() }

// liveMemory is what objects on the heap and stacks take that are in use.
func liveMemory() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() + s[1].Value.Uint64())
}

// openAwake has actors awake that have made a turn, and openAsleep those that have made
// one and sleep until an alarm rings, in a year.
func openAwake(ctx context.Context, at site) (runner, error) {
	return openFootprint(ctx, at, at.sizes.actors)
}

func openAsleep(ctx context.Context, at site) (runner, error) {
	return openFootprint(ctx, at, 1)
}

// openFootprint makes actors that each have a key and an alarm. They are held by a host in
// which each makes a turn that only reads, and most may be awake.
func openFootprint(ctx context.Context, at site, most int) (_ runner, err error) {
	at.engine = engineMem
	engine, err := openEngine(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, engine.Close())
		}
	}()
	visit := func(ctx context.Context, action string) (*host.Host, error) {
		h, err := host.Open(ctx, engine, []*host.Type{putter()}, &host.Options{
			MaxAwake: most, Logger: slog.New(slog.DiscardHandler), IdleTimeout: 1 << 60,
		})
		if err != nil {
			return nil, err
		}
		for i := range at.sizes.actors {
			_, err := h.Do(ctx, &host.Call{Actor: host.Address{Type: "putter", Key: fmt.Sprint(i)}, Action: action})
			if err != nil {
				return nil, errors.Join(err, h.Close(ctx))
			}
		}
		return h, nil
	}
	hold := func(ctx context.Context) (func() error, error) {
		h, err := visit(ctx, "get")
		if err != nil {
			return nil, err
		}
		return func() error { return h.Close(context.Background()) }, nil
	}
	h, err := visit(ctx, "plan")
	if err != nil {
		return nil, err
	}
	return &footprint{actors: at.sizes.actors, hold: hold, finish: engine.Close}, h.Close(ctx)
}

// openGoroutines is the peer of an actor that is awake: a goroutine that waits for work,
// in a table by its name.
func openGoroutines(_ context.Context, at site) (runner, error) {
	return &footprint{actors: at.sizes.actors, finish: func() error { return nil }, hold: func(context.Context) (func() error, error) {
		table := map[string]chan struct{}{}
		var done sync.WaitGroup
		for i := range at.sizes.actors {
			work := make(chan struct{})
			table[fmt.Sprint("putter/", i)] = work
			done.Go(func() { <-work })
		}
		return func() error {
			for _, work := range table {
				close(work)
			}
			done.Wait()
			return nil
		}, nil
	}}, nil
}

// openTimers is the peer of an actor that sleeps: a timer, in a table by its name.
func openTimers(_ context.Context, at site) (runner, error) {
	return &footprint{actors: at.sizes.actors, finish: func() error { return nil }, hold: func(context.Context) (func() error, error) {
		table := map[string]*time.Timer{}
		for i := range at.sizes.actors {
			table[fmt.Sprint("putter/", i)] = time.AfterFunc(time.Hour, func() {})
		}
		return func() error {
			for _, t := range table {
				t.Stop()
			}
			return nil
		}, nil
	}}, nil
}
