package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
)

// A Type is a type of actors: what they do. All fields but Name may be left out.
//
// Each function that gets a *Context runs in a turn: alone with the actor, and what it
// writes lands in one commit, or not at all if it returns an error or panics. It must
// not keep the Context, nor wait for another turn of the same actor.
type Type struct {
	// Name is that of the type: the first part of an Address. It has no slash.
	Name string
	// Version tells the versions of the type apart in metrics: failed turns are counted by it. It may be "".
	Version string

	// Actions are what others may call: each name is there once. See NewAction.
	Actions []AnyAction
	// Other is called for actions that are not in Actions; nil means that there are none.
	Other func(c *Context, action string, args Raw) (Raw, error)

	// Migrations bring the database of each actor to their latest version: when the actor wakes, in a transaction of its own before any of its code sees the actor, or, of one that is
	// created, in the turn of Create, before that. If one fails the actor doesn't wake, and its database stays as it is. An actor with a newer version than the latest doesn't wake:
	// greenroom.ErrNewerSchema. Without migrations any version is known, unless a host of the store ever ran the type with some.
	Migrations greenroom.Migrations

	// Create is called once in the life of an actor, in its first turn. If it fails, the
	// caller gets its error and the actor doesn't exist: nothing is stored, the input neither. The
	// next call, or Host.Create with an input of its own, tries again.
	Create func(c *Context) error
	// MustCreate leaves it to Host.Create to create actors. Calls, joins and messages to an
	// actor that doesn't exist are ErrNoActor, and write nothing. An actor that exists is not
	// asked how it was created.
	MustCreate bool
	// Wake is called whenever an actor is in memory again, after Create too; if it fails
	// the actor doesn't wake. Sleep is called before it leaves memory in good order, which
	// it does whatever Sleep returns; a crash comes without.
	Wake, Sleep func(c *Context) error
	// Destroy is called before the actor and all its data are removed. If it fails the
	// actor stays.
	Destroy func(c *Context) error

	// Connect is called for a new connection; an error refuses it. Disconnect is called
	// when a connection has gone, in the turn that removes it.
	Connect    func(c *Context, n *Conn) error
	Disconnect func(c *Context, n *Conn, reason string) error
	// Subscribe is called when a client asks for the events of a name; an error refuses it. The actor's own code, which calls Conn.Subscribe, isn't asked.
	Subscribe func(c *Context, n *Conn, event string) error

	// Alarm is called for what was scheduled (greenroom.Tx.Schedule) with a name that no action
	// has. The event is done by the commit of the turn; after an error it comes again: after a
	// second, then after twice as long each time, up to five minutes.
	Alarm func(c *Context, e persist.Event) error

	// Message is called for each message of the actor's queue whose name is among
	// MessageNames, or for all if that is empty. The message is completed by the commit of
	// the turn, without an answer, unless Message has settled it itself. After an error it
	// comes again: after a second, then after twice as long each time, up to five minutes. After
	// Queue.MaxReceive times it is a dead letter, or at once if queue.Permanent has marked the error.
	Message      func(c *Context, m *greenroom.Message) error
	MessageNames []string

	// Batch is for messages of which many are to be done in one turn.
	Batch *Batch

	// Work is for messages whose work takes long, such as a call of a language model: it is done outside of turns, for several messages at once if Work.Concurrency says so.
	Work *Work

	// Limits bound, for the actors of the type and of others that name the same limits, the messages that Message, Batch and Work are at: one that must wait stays in
	// the queue, and isn't handed out. Each message, and each batch as a whole, needs a permit of each limit: see Limit for the order in which they are claimed.
	Limits []*Limit

	// Run is started when the actor has woken, on a goroutine of its own and outside of any
	// turn: what it does to the actor it does with Turn. Its context ends when the actor is
	// to sleep, which waits until Run has returned. It doesn't keep the actor awake, but
	// for the time of its turns and between KeepAwake and its release. When it returns an error, or panics, that is logged and counted as
	// a failure of "actor.run", and Run is called again, at first a second later and at last every five minutes, if the actor is awake then. When it returns
	// nil it is not called again before the actor wakes again.
	Run func(ctx context.Context) error

	// Workflow is the durable workflow that each actor of this type has. See NewWorkflow.
	Workflow *Workflow
	// WorkflowLimits bound the workflows that run: one that was started waits until it has a permit of each, in the order of the starts, and has them until it is over, also while it
	// sleeps. Restarted, it waits again.
	WorkflowLimits []*Limit

	// Vars makes what Context.Vars returns, when the actor wakes and before any turn:
	// things that live as long as it is in memory. If it has a method Close() error that is
	// called when the actor has left memory.
	Vars func(ctx context.Context, a Address) (any, error)

	// Letters bound what the actors send to others. nil means as Options.Letters says.
	Letters *Letters

	// Queue and DB change the actors' queues and databases.
	Queue greenroom.QueueOptions
	DB    greenroom.DBOptions
}

// A Batch is what is done for many messages in one turn. See Type.Batch.
type Batch struct {
	// Names are the names of the messages that are taken. Without names all are, if nothing else of the type takes messages.
	Names []string
	// Count is how many messages a turn gets at most. It is 1 or more.
	Count int
	// Linger is how long a message waits at most for Count to be there, from when it is visible. Meanwhile the actor is kept awake. 0 means that a turn
	// gets what is there. It is in memory alone: after a restart the time that has passed since a message was enqueued counts.
	Linger time.Duration
	// Do is called in a turn, with 1 to Count messages in their order. Those that it hasn't settled are completed by the commit of the turn, without an answer.
	//
	// After an error, or a panic, nothing of the turn has landed, and all of them come again later: each by itself, so that one for which Do fails
	// holds up no others. So does each message that was handed out before. After Queue.MaxReceive times, of which the first counts and which are
	// more than one, a message is a dead letter, or before that if it was by itself and queue.Permanent has marked the error.
	Do func(c *Context, all []*greenroom.Message) error
}

// Work is what is done for messages outside of turns. See Type.Work.
type Work struct {
	// Names are the names of the messages that are taken. Without names all are, if nothing else of the type takes messages.
	Names []string
	// Concurrency is how many messages of an actor are worked on at once; 0 means one.
	Concurrency int
	// Do does the work for a message. It is on a goroutine of its own, and no turn; the actor is kept awake until it returns. ctx ends when the host closes or the actor is lost, and when the
	// lease of the message can't be renewed, so that another one may have the message: then its results don't land.
	//
	// When it returns nil the message is completed by a turn, with what land, if it isn't nil, writes in it: all of it, once, or nothing. After an error, of Do or of land,
	// it comes again as one of Type.Message does, and after Queue.MaxReceive times it is a dead letter.
	Do func(ctx context.Context, m *queue.Message) (land func(c *Context) error, err error)
}

// check says what is wrong with a type.
func (t *Type) check() error {
	switch {
	case t == nil:
		return fmt.Errorf("%w: there is a nil among them", ErrTypes)
	case t.Name == "" || strings.Contains(t.Name, "/"):
		return fmt.Errorf("%w: the name %q is empty or has a slash", ErrTypes, t.Name)
	case t.Workflow != nil && t.Workflow.open == nil:
		return fmt.Errorf("%w: %s has a workflow without a function", ErrTypes, t.Name)
	}
	if err := t.checkWork(); err != nil {
		return err
	}
	if err := t.Migrations.Check(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrTypes, t.Name, err)
	}
	return errors.Join(t.checkTakers(), t.checkLimits())
}

// checkWork says what is wrong with Work and Batch.
func (t *Type) checkWork() error {
	w, b := t.Work, t.Batch
	switch {
	case w != nil && w.Do == nil:
		return fmt.Errorf("%w: %s has Work without a function", ErrTypes, t.Name)
	case w != nil && w.Concurrency < 0:
		return fmt.Errorf("%w: %s has Work for %d messages at once", ErrTypes, t.Name, w.Concurrency)
	case b != nil && b.Do == nil:
		return fmt.Errorf("%w: %s has a Batch without a function", ErrTypes, t.Name)
	case b != nil && (b.Count < 1 || b.Linger < 0):
		return fmt.Errorf("%w: %s has a Batch of %d messages or after %v", ErrTypes, t.Name, b.Count, b.Linger)
	case b != nil && b.Count > 1 && t.Queue.MaxReceive == 1:
		return fmt.Errorf("%w: %s has a Batch, and Queue.MaxReceive is 1: all messages of one that fails would be dead letters", ErrTypes, t.Name)
	}
	return nil
}

// A taker is a field of a Type that takes messages: of the names, of all if there are none.
type taker struct {
	part  part
	field string // of the names
	names []string
}

// takers returns those of t. A workflow isn't among them, since it says at any time what it waits for.
func (t *Type) takers() (all []taker) {
	if t.Message != nil {
		all = append(all, taker{partMessage, "MessageNames", t.MessageNames})
	}
	if t.Batch != nil {
		all = append(all, taker{partBatch, "Batch.Names", t.Batch.Names})
	}
	if t.Work != nil {
		all = append(all, taker{partWork, "Work.Names", t.Work.Names})
	}
	return all
}

// checkTakers says which messages are taken in several ways.
func (t *Type) checkTakers() error {
	all := t.takers()
	if t.Workflow == nil && len(all) < 2 {
		return nil
	}
	by := map[string]string{}
	for _, taker := range all {
		if len(taker.names) == 0 {
			return fmt.Errorf("%w: %s takes messages in several ways: say which ones in %s", ErrTypes, t.Name, taker.field)
		}
		for _, name := range taker.names {
			if other := by[name]; other != "" && other != taker.field {
				return fmt.Errorf("%w: %s takes messages %q in two ways, %s and %s", ErrTypes, t.Name, name, other, taker.field)
			}
			by[name] = taker.field
		}
	}
	return nil
}

// Metrics returns what a Host with these types tells Options.Metrics, for a Sink that wants to know
// beforehand. The packages that it uses have their own.
func Metrics(types ...*Type) []*metrics.Metric {
	all := metricsOfAll()
	for _, t := range types {
		all = append(all, t.metrics().all()...)
	}
	return slices.Compact(slices.SortedFunc(slices.Values(all), func(a, b *metrics.Metric) int { return strings.Compare(a.String(), b.String()) }))
}

func (t *Type) metrics() *kindMetrics {
	var actions []string
	for _, a := range t.Actions {
		if a != nil {
			actions = append(actions, a.declared().Name)
		}
	}
	return metricsOf(t.Name, t.Version, actions)
}

// A kind is a type of a host.
type kind struct {
	*Type
	actions     map[string]*action // by name
	fingerprint func() uint64      // computed once, when it is first wanted
	metrics     *kindMetrics
	// limits and flowLimits are those of the Type, in order.
	limits, flowLimits []*Limit
	versioned          atomic.Bool // noteVersioned need not look again
}

// newKind returns a type with its actions looked up.
func newKind(t *Type) (*kind, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	k := &kind{Type: t, actions: map[string]*action{}, metrics: t.metrics(), limits: inOrder(t.Limits), flowLimits: inOrder(t.WorkflowLimits)}
	k.fingerprint = sync.OnceValue(func() uint64 { return fingerprintOf(k) })
	for _, declared := range t.Actions {
		if declared == nil {
			return nil, fmt.Errorf("%w: there is a nil among the actions of %s", ErrTypes, t.Name)
		}
		a := declared.declared()
		switch {
		case a.Run == nil:
			return nil, fmt.Errorf("%w: %s has the action %q without a function", ErrTypes, t.Name, a.Name)
		case strings.HasPrefix(a.Name, ownPrefix):
			return nil, fmt.Errorf("%w: %s has the action %q; names with %q are the host's", ErrTypes, t.Name, a.Name, ownPrefix)
		case k.actions[a.Name] != nil:
			return nil, fmt.Errorf("%w: %s has two actions %q", ErrTypes, t.Name, a.Name)
		}
		k.actions[a.Name] = a
	}
	return k, nil
}

// ownPrefix begins the names of the scheduled events that are the host's own.
const ownPrefix = "host:"

// noteVersioned stores that the type is run with migrations, if it is and the store lacks that.
func (k *kind) noteVersioned(ctx context.Context, e kv.Engine) error {
	if len(k.Migrations) == 0 || k.versioned.Load() {
		return nil
	}
	has, err := versionedType(ctx, e, k.Name)
	if err == nil && !has {
		row := kv.Set(versionedKey(k.Name), bare.AppendVersion(nil, versionedVersion))
		if err = e.Commit(ctx, &kv.Commit{Ops: []kv.Op{row}}); err != nil {
			err = fmt.Errorf("host: store that type %q has migrations: %w", k.Name, err)
		}
	}
	k.versioned.Store(err == nil)
	return err
}

// handler returns what an action of that name calls, nil for an unknown name.
func (k *kind) handler(action string) func(c *Context, args Raw) (Raw, error) {
	if a := k.actions[action]; a != nil {
		return a.Run
	}
	if k.Other == nil {
		return nil
	}
	return func(c *Context, args Raw) (Raw, error) { return k.Other(c, action, args) }
}

// An AnyAction is an *Action or a *Command, whatever it takes and returns.
type AnyAction interface{ declared() *action }

// An action is one without its types: as the host calls it.
type action struct {
	abi.Action[*Context, Raw]
	in, out reflect.Type                                  // what it takes and returns; nil for a command's result
	others  func(of Address, args Raw) ([]Address, error) // whose turns it takes, too; nil for an action of one actor
}
