// Package engine runs the actors of RivetKit programs. A program, the runner, connects to the engine over a WebSocket,
// and the engine tells it which actors to start and stop, keeps their keys, wakes them when their time has come, and
// passes the requests of clients on to them. For the program it is a Rivet engine, for which it needs
// nothing but RIVET_ENDPOINT; what its actors store are actors of a store, in actorstore.LayoutRivetKit, which everything else in
// Greenroom reads.
//
// An actor is asleep until somebody wants something of it: a request, a message over a WebSocket that has outlived its
// sleep, or its alarm. Then the engine opens it, which keeps other processes away, and has a runner of the
// actor's namespace and runner name start it. From then on the actor's keys are the runner's to read and write,
// until it says that the actor has stopped. A write is answered when it is durable.
package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host/internal/gateway"
	"github.com/greenroomdb/greenroom/host/internal/rivetstore"
	"github.com/greenroomdb/greenroom/kv"
)

// Options change what Open does.
type Options struct {
	// RunnerTokens are the tokens with which runners connect, and ClientTokens those of clients; a
	// runner's token opens everything. Without any, everybody is let in who can reach the engine.
	RunnerTokens, ClientTokens []string
	// Origins are those of pages that may read answers, as browsers write them; empty means all if there are
	// tokens, and pages of this machine if there are none.
	Origins []string
	// Hosts are the names by which the engine may be addressed, without a port. Empty means any name if there are tokens, and
	// those of loopback if there are none.
	Hosts []string

	// LostThreshold is how long the actors of a runner are left alone that has lost its connection. 0 means 15 seconds.
	LostThreshold time.Duration
	// StartThreshold and StopThreshold are how long an actor may take to start and to stop. 0 means 30 seconds.
	StartThreshold, StopThreshold time.Duration
	// ReadyTimeout is how long a request waits for its actor to run. 0 means 10 seconds.
	ReadyTimeout time.Duration
	// PingInterval is how often runners are pinged. 0 means 3 seconds.
	PingInterval time.Duration

	// MaxBody bounds the body of a request, and of an answer, in bytes. 0 means 20 MiB.
	MaxBody int64
	// MaxPending bounds the bytes that wait for an actor over one WebSocket; the client isn't read from when there are
	// more. 0 means 4 MiB.
	MaxPending int
	// MaxQueued bounds the bytes that wait to be sent to one runner, or one client, in bytes; who is slower is cut
	// off. 0 means 256 MiB for runners and a sixteenth for clients.
	MaxQueued int

	// Store changes how the store is opened; nil means with its defaults.
	Store *actorstore.Options
	// Version is what /metadata says.
	Version string
	// Logger takes what goes wrong; nil means slog.Default().
	Logger *slog.Logger
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
}

func (o *Options) withDefaults() Options {
	var all Options
	if o != nil {
		all = *o
	}
	orElse(&all.LostThreshold, 15*time.Second)
	orElse(&all.StartThreshold, 30*time.Second)
	orElse(&all.StopThreshold, 30*time.Second)
	orElse(&all.ReadyTimeout, 10*time.Second)
	orElse(&all.PingInterval, 3*time.Second)
	orElse(&all.MaxBody, 20<<20)
	orElse(&all.MaxPending, 4<<20)
	orElse(&all.MaxQueued, 256<<20)
	if all.Logger == nil {
		all.Logger = slog.Default()
	}
	if all.Clock == nil {
		all.Clock = time.Now
	}
	return all
}

func orElse[T comparable](v *T, d T) {
	if zero := *new(T); *v == zero {
		*v = d
	}
}

// An Engine is an http.Handler, which serves clients and runners. It is safe for concurrent use.
type Engine struct {
	opts    Options
	log     *slog.Logger
	kv      kv.Engine
	store   *actorstore.Store
	http    *gateway.Gateway
	tokens  tokens
	alarms  *alarms
	gateway [4]byte // of this stay in memory, in the ids of requests

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup

	// mu guards everything in memory: actors, runners, requests and what they have.
	mu         sync.Mutex
	actors     map[actorstore.ID]*actor // +checklocks:mu
	runners    map[runnerKey]*runner    // +checklocks:mu
	tunnels    map[uint32]*tunnel       // by the number of the request  +checklocks:mu
	namespaces map[string]time.Time     // +checklocks:mu
	creating   map[string]chan struct{} // by the actor's name  +checklocks:mu
	next       uint32                   // the number of the next request  +checklocks:mu
	closed     bool                     // +checklocks:mu
}

// ErrClosed says that the engine is closed.
var ErrClosed = errors.New("engine: closed")

// Open returns an Engine whose actors are in the store of e, and begins to wake them. The caller closes the Engine before
// e.
func Open(ctx context.Context, e kv.Engine, opts *Options) (*Engine, error) {
	o := opts.withDefaults()
	store, err := actorstore.Open(ctx, e, o.Store)
	if err != nil {
		return nil, err
	}
	en := &Engine{
		opts: o, log: o.Logger, kv: e, store: store, tokens: newTokens(&o),
		actors: map[actorstore.ID]*actor{}, runners: map[runnerKey]*runner{}, tunnels: map[uint32]*tunnel{},
		namespaces: map[string]time.Time{}, creating: map[string]chan struct{}{},
	}
	_, _ = rand.Read(en.gateway[:]) // it never fails
	en.ctx, en.stop = context.WithCancel(context.WithoutCancel(ctx))
	en.http = gateway.New(&gateway.Options{
		Backend: backend{en}, Runtime: "greenroom", Version: o.Version, AllowOrigin: en.allowOrigin, Extra: en.routes(),
	})
	en.alarms = newAlarms(en)
	if err := errors.Join(en.loadNamespaces(ctx), en.alarms.load(ctx)); err != nil {
		en.stop()
		return nil, errors.Join(err, store.Close())
	}
	en.work.Go(en.alarms.run)
	return en, nil
}

// ServeHTTP implements http.Handler.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.allowHost(r) {
		gateway.WriteError(w, &gateway.Error{
			Group: "guard", Code: "wrong_host", Message: "The engine isn't known by this name.", Status: http.StatusMisdirectedRequest,
		})
		return
	}
	e.http.ServeHTTP(w, r)
}

// Close ends all sockets, which stops the actors in their runners, and closes the store. What was acknowledged is stored.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	for _, r := range e.runners {
		r.end("ws.going_away")
	}
	for _, t := range e.tunnels {
		t.fail(gateway.ErrUnavailable)
	}
	e.mu.Unlock()
	e.stop()
	e.work.Wait()
	e.mu.Lock()
	var handles []*actorstore.Actor
	for _, a := range e.actors {
		if a.handle != nil {
			handles = append(handles, a.handle)
		}
	}
	e.mu.Unlock()
	var err error
	for _, h := range handles {
		err = errors.Join(err, h.Close())
	}
	return errors.Join(err, e.store.Close())
}

// now returns the time.
func (e *Engine) now() time.Time { return e.opts.Clock() }

// loadNamespaces reads the namespaces that were made.
func (e *Engine) loadNamespaces(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.namespaces[rivetstore.DefaultNamespace] = time.Time{}
	for row, err := range e.kv.Scan(ctx, rivetstore.NamespaceRange()) {
		if err != nil {
			return err
		}
		name, err := rivetstore.ParseNamespaceKey(row.Key)
		if err != nil {
			return err
		}
		ms, err := rivetstore.ParseTime(row.Value)
		if err != nil {
			return fmt.Errorf("%w, of namespace %q", err, name)
		}
		e.namespaces[name] = time.UnixMilli(ms)
	}
	return nil
}

// errNoNamespace says that a namespace wasn't made.
var errNoNamespace = &gateway.Error{
	Group: "namespace", Code: "not_found", Message: "There is no such namespace.", Status: http.StatusBadRequest,
}

// known returns an error unless there is the namespace. Another process may have made it.
func (e *Engine) known(ctx context.Context, namespace string) error {
	e.mu.Lock()
	_, ok := e.namespaces[namespace]
	e.mu.Unlock()
	if ok {
		return nil
	}
	value, err := e.kv.Get(ctx, rivetstore.NamespaceKey(namespace), nil)
	if errors.Is(err, kv.ErrNotFound) {
		return errNoNamespace
	}
	if err != nil {
		return err
	}
	ms, err := rivetstore.ParseTime(value)
	if err == nil {
		e.mu.Lock()
		e.namespaces[namespace] = time.UnixMilli(ms)
		e.mu.Unlock()
	}
	return err
}

// makeNamespace makes a namespace, unless it is there, and returns when it was made.
func (e *Engine) makeNamespace(ctx context.Context, name string) (time.Time, error) {
	err := e.known(ctx, name)
	if err != nil && err != error(errNoNamespace) {
		return time.Time{}, err
	}
	if err != nil {
		now := e.now()
		err := e.kv.Commit(ctx, &kv.Commit{
			Ops: []kv.Op{kv.Set(rivetstore.NamespaceKey(name), rivetstore.AppendTime(nil, now.UnixMilli()))}, Durability: kv.Durable,
		})
		if err != nil {
			return time.Time{}, err
		}
		e.mu.Lock()
		e.namespaces[name] = now
		e.mu.Unlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.namespaces[name], nil
}

// spawn runs fn on a goroutine for which Close waits, unless the engine is closed.
//
// +checklocks:e.mu
func (e *Engine) spawn(fn func()) {
	if !e.closed {
		e.work.Go(fn)
	}
}

// number returns the number of a new request, which no other one has.
//
// +checklocks:e.mu
func (e *Engine) number() uint32 {
	for {
		e.next++
		if _, taken := e.tunnels[e.next]; !taken {
			return e.next
		}
	}
}

func requestBytes(n uint32) (b [4]byte) {
	binary.BigEndian.PutUint32(b[:], n)
	return b
}
