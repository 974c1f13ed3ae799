package engine

import (
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/metering"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// What the engine has in memory. All of it changes under one lock, for moments only: what takes time is done by
// jobs of an actor, outboxes and handlers.

// A core is what the parts of an engine share.
type core struct {
	opts     Options
	log      *slog.Logger
	kv       kv.Engine
	store    *actorstore.Store
	alarms   *alarms
	budget   *budget // its lock may be taken under mu
	staged   room    // of commits that come in parts
	sockets  openSockets
	fleet    *fleet  // the other engines; nil for one that asks none
	instance [4]byte // of this stay in memory: the gateway in the ids of requests

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup

	// mu guards everything in memory: actors, runners, requests and what they have.
	mu         sync.Mutex
	actors     map[actorstore.ID]*actor // +checklocks:mu
	runners    map[runnerKey]*runner    // +checklocks:mu
	pools      pools                    // +checklocks:mu
	tunnels    map[rp.TunnelID]*tunnel  // +checklocks:mu
	namespaces map[string]time.Time     // +checklocks:mu
	creating   map[string]chan struct{} // by the actor's name  +checklocks:mu
	doomed     map[actorstore.ID]bool   // to be destroyed: tried again when they are opened  +checklocks:mu
	lost       map[runnerKey]time.Time  // runners that were given up, and when  +checklocks:mu
	endings    map[actorstore.ID]ending // of actors that the store may still say a runner has  +checklocks:mu
	next       uint32                   // the number of the next request  +checklocks:mu
	inits      uint64                   // how many runners have introduced themselves  +checklocks:mu
	shared     bool                     // other processes may have the store open  +checklocks:mu
	draining   bool                     // no actor is started any more  +checklocks:mu
	closed     bool                     // +checklocks:mu
}

// now returns the time.
func (e *core) now() time.Time { return e.opts.Clock() }

// spawn runs fn on a goroutine for which Close waits, unless the engine is closed.
//
// +checklocks:e.mu
func (e *core) spawn(fn func()) {
	if !e.closed {
		e.work.Go(fn)
	}
}

// begin returns a context for the caller that ends with Close, which waits until the caller calls done. It returns errLeaving
// if the engine is closed.
func (e *core) begin() (ctx context.Context, done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil, errLeaving
	}
	e.work.Add(1)
	ctx, cancel := context.WithCancel(e.ctx)
	return ctx, func() {
		cancel()
		e.work.Done()
	}, nil
}

// newID returns the id of a new tunnel.
//
// +checklocks:e.mu
func (e *core) newID() rp.TunnelID {
	id := rp.TunnelID{Gateway: e.instance}
	for {
		e.next++
		binary.BigEndian.PutUint32(id.Request[:], e.next)
		if _, taken := e.tunnels[id]; !taken {
			return id
		}
	}
}

// A phase is where an actor stands.
type phase uint8

const (
	asleep   phase = iota
	starting       // a runner was told to start it, or is about to be
	running
	stopping // the runner was told to stop it
	gone     // it is destroyed, or another process has it
)

// An actor is one that the engine has open. It stays open until it sleeps and isn't waited for. All fields from phase on are
// guarded by core.mu.
type actor struct {
	e    *core
	id   actorstore.ID
	text string // the id as runners and clients know it

	opened chan struct{} // closed when handle or err is set
	closed chan struct{} // closed when the actor may be opened anew
	err    error
	handle *actorstore.Actor
	public actorInfo // but for what changes

	phase   phase
	rec     rivetstore.Record
	alarm   int64         // when it must be started if it sleeps, Unix ms; 0 for never
	users   int           // how many callers need it open
	closing bool          // its handle is being closed
	changed chan struct{} // closed when the phase changes, or a runner has come, or paused ends
	paused  bool          // it could not be started just now
	runner  *runner       // the runner that runs it
	told    bool          // the runner was told to start it
	via     *runnerConn   // the connection over which it was told so, or to stop it; nil if it was away
	command int64         // index of the next command
	event   int64         // index of the last event; -1 before the first one that this engine has heard
	wanted  bool          // it has said that it wants to stop
	destroy bool          // it is to be destroyed when it has stopped
	again   bool          // it is to be started again then
	since   time.Time
	timer   *time.Timer
	tunnels map[rp.TunnelID]*tunnel
	said    sequence

	pages    actorPages // its database, of RivetKit 2.3. It belongs to the jobs
	span     span       // of this start
	jobs     []func()   // what is done with its keys, in order
	jobBytes int
	working  bool
	used     meter
	mail     mailbox
}

// A meter counts what an actor uses. Its fields are guarded by core.mu.
type meter struct {
	metering.Stay
	a       *actor
	storing bool // a job is about to store what was used
}

// An actorInfo is what clients are told of an actor. A zero time isn't known.
type actorInfo struct {
	ID        actorstore.ID
	Name      string // its type
	Key       string // as rivetstore.Key.String returns it
	NoKey     bool   // it has none
	Namespace string
	Runner    string // the name of the runners that run it

	Created, Started, Connectable, Slept time.Time
}

// unknownAlarm is the alarm of an actor that has told it to an engine before.
const unknownAlarm = 1

// attr names the actor in the log.
func (a *actor) attr() slog.Attr { return slog.String("actor", a.public.Name+"/"+a.public.Key) }

// name returns the actor's name in the store.
func (a *actor) name() string {
	return rivetstore.ActorName(a.public.Namespace, a.public.Name, a.public.Key)
}

// pool names the runners that can run the actor.
//
// +checklocks:a.e.mu
func (a *actor) pool() poolKey { return poolKey{a.public.Namespace, a.rec.Runner} }

// notify tells all that wait that the phase has changed.
//
// +checklocks:a.e.mu
func (a *actor) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// An ending is what became of a generation of an actor.
type ending struct {
	generation uint32
	stopped    bool // else its runner is to stop it
	told       bool // it was told so
}

// A runnerKey tells runners apart: one that comes with the key of another takes its place.
type runnerKey struct{ namespace, name, key string }

// A runner is a program that runs actors. It outlives its connection by Options.LostThreshold, and the engine's process: the
// records of its actors have its id. All fields are guarded by core.mu.
type runner struct {
	e        *core
	at       runnerKey
	id       string
	types    []string
	conn     *runnerConn // nil while it is lost
	since    time.Time   // when it came first; the zero time for one that came to an engine before
	stopping bool        // it takes no more actors
	actors   map[*actor]struct{}
	orphans  []actorstore.ID // actors of an engine before, which aren't opened yet
	lost     *time.Timer     // gives it up; nil if it was never lost
	until    time.Time       // when it does
	envoy    bool            // it is of RivetKit 2.3
	again    bool            // one with its key was given up: it may have actors of that
	came     bool            // it was connected to this engine before
	broken   bool            // its connection broke off: its process may be gone
	over     bool            // it is being given up
	ending   bool            // a goroutine is about that
	gone     chan struct{}   // closed when it is given up
}

// pool names the runners that can run the same actors.
func (r *runner) pool() poolKey { return poolKey{r.at.namespace, r.at.name} }

// reachable reports whether the runner is connected, and has said what it had to say since it was lost.
//
// +checklocks:r.e.mu
func (r *runner) reachable() bool { return r.conn != nil && !r.conn.resuming }

// takes reports whether an actor of the runner takes new requests and sockets. One that wants to sleep gets them at its next start.
// r may be nil.
//
// +checklocks:a.e.mu
func (r *runner) takes(a *actor) bool { return a.phase == running && !a.wanted && r.reachable() }

// send sends a message to the runner, if it is connected.
//
// +checklocks:r.e.mu
func (r *runner) send(m rp.ToRunner) {
	if r.conn != nil {
		r.conn.send(m)
	}
}

// takenOver is the index of the first command to an actor whose commands an engine before has counted.
const takenOver = 1 << 16

// disown tells an envoy to stop what it may have of an actor: a runner stops all that it has when it gets another id, and an envoy gets none.
//
// +checklocks:r.e.mu
func (r *runner) disown(actor string, generation uint32) {
	if r.envoy {
		at := rp.Checkpoint{Actor: actor, Generation: generation, Index: takenOver}
		r.send(rp.Commands{{Checkpoint: at, Body: rp.StopActor{Reason: rp.StopLost}}})
	}
}

// A tunnel is one request of a client, or one WebSocket, on its way through a runner to an actor. All fields are guarded by
// core.mu.
//
// The messages to an actor are numbered. The index in a message is its number modulo 65536: 0 is for the one that opens the
// tunnel.
type tunnel struct {
	e  *core
	a  *actor
	id rp.TunnelID
	n  uint64 // the number of the next message

	awaits bool   // its envoy, which was told of the socket at a start of the actor, hasn't opened it anew
	client client // nil when the client of a socket has gone

	opened     bool // the actor has taken the socket
	hibernates bool // it outlives the actor's sleep
	noted      bool // that it is open is stored, or about to be
	// pending are the messages of a socket that hibernates which the actor hasn't acknowledged, in order.
	pending []*pendingMessage
	bytes   int    // of pending
	sent    uint64 // the first number that wasn't sent to this start of the actor
	atStop  uint64 // sent when the actor was told to stop
	closing bool   // the client has gone, and the actor is to be told so behind the last of pending
	ending  rp.ClientClose
}

// A pendingMessage is what a client has sent.
type pendingMessage struct {
	t       *tunnel
	n       uint64
	size    int                 // of its data
	m       *rivetstore.Message // nil while it is in the store alone
	stored  bool                // it is durable
	gone    bool                // it was acknowledged, or its tunnel has ended
	done    func()              // called once, when its data has left memory; may be nil
	account *account            // of the client; nil when it has nothing for the message any more
}

// A client waits at the other end of a tunnel. Its methods don't wait, and are called under core.mu.
type client interface {
	// take takes what the actor says.
	take(t *tunnel, m rp.FromActor)
	// fail says why there will be nothing more.
	fail(t *tunnel, err error)
	// sent says that the first message is written, or won't be. It is called at any time, with or without core.mu.
	sent()
}
