package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/internal/opentx"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// A Context is what a turn does everything through: a transaction (see greenroom.Tx), and
// what the actor has in its host. It is the turn's own, and but for the methods of
// context.Context not safe for concurrent use. As a context it ends with the turn, or before
// it, when it takes too long (Options.TurnTimeout) or the host gives up.
//
// What is written through it is staged, and lands when the turn's function has returned
// nil. The turn sees its own writes where that is said.
type Context struct {
	*greenroom.Tx
	open opentx.Transaction // of Tx
	ends *turnContext       // of Tx
	life *life
	turn *turn
	now  time.Time

	landing bool // the commit has begun
	landed  bool // the commit was applied, and failed then
	over    bool
	others  []*Context // of the other actors whose turn it is, if it leads
	conns   connChanges
	mail    sending
	out     []func() // what leaves when the turn is durable
	undo    []func() // what the turn has changed in memory besides, to be undone if it doesn't land
	destroy bool
	restore func() error // what is done in the place of destroying it; nil for none
}

var _ context.Context = (*Context)(nil)

// due notes that the turn schedules an action.
func (c *Context) due(action string) error {
	if strings.HasPrefix(action, ownPrefix) {
		return fmt.Errorf("%w: %.80q", ErrNoAction, action)
	}
	if k := c.life.kind; action != "" && k.Alarm == nil && k.handler(action) == nil {
		c.life.strange = true
	}
	return nil
}

// Address returns whose turn it is.
func (c *Context) Address() Address { return c.life.addr }

// ID returns the id of the actor in the store.
func (c *Context) ID() actorstore.ID { return c.life.actor.ID() }

// Now returns when the turn began: the same time whenever it is asked.
func (c *Context) Now() time.Time { return c.now }

// Log returns a logger that says which actor it is. What is logged is written at once,
// whatever becomes of the turn, and is an event of its span.
func (c *Context) Log() *slog.Logger {
	if c.Span() == nil {
		return c.life.log
	}
	return slog.New(spanHandler{c.life.log.Handler(), c.Span()})
}

// Vars returns what Type.Vars made, nil without Type.Vars.
func (c *Context) Vars() any { return c.life.vars }

// Destroy removes the actor, with everything in it, when the turn
// lands: Type.Destroy is called first, and if that fails so does the turn. The reply
// leaves when the actor is gone. A call that comes later creates the actor anew, and so does
// one that wakes an actor which destroys itself in Type.Wake. If an actor does so
// in its first turns, in Type.Create or Wake, its caller gets ErrNoActor.
func (c *Context) Destroy() error {
	if c.destroy {
		return nil
	}
	if err := c.check(); err != nil {
		return err
	}
	if fn := c.life.kind.Destroy; fn != nil {
		if err := c.hook(spanOnDestroy, func() error { return fn(c) }); err != nil {
			return err
		}
	}
	c.destroy = true
	return nil
}

// AfterCommit calls fn when the turn is durable, with what leaves: at most once, and never
// if the turn doesn't land. It must be quick, and not wait for a turn of the actor.
func (c *Context) AfterCommit(fn func()) {
	l := c.life
	c.out = append(c.out, func() { l.report("send", shield(func() error { fn(); return nil })) })
}

// Events returns what is scheduled as the turn leaves it, the next event first. An event
// calls the action of its name, or else Type.Alarm, in a turn of its own: that
// the event is done lands with what the turn does, so that it is done exactly once. After an
// error it comes again, as Type.Alarm says. Action.At schedules an action that is declared.
func (c *Context) Events() ([]persist.Event, error) {
	events, err := c.Tx.Events()
	return slices.DeleteFunc(events, func(e persist.Event) bool {
		return strings.HasPrefix(e.Action, ownPrefix)
	}), err
}

// errTurnOver says that a Context was used after its turn.
var errTurnOver = errkind.New("host: the turn is over", errkind.ErrClosed)

func (c *Context) check() error {
	if c.over {
		return errTurnOver
	}
	return nil
}

// commit lands what the turn has staged. When it returns nil the actor's memory is as if
// the turn had been alone, and nothing of it has left.
func (c *Context) commit() error {
	c.mail.stageAccount()
	if err := c.Err(); err != nil { // too late: the caller may have been told so
		c.abort(err)
		return err
	}
	c.over, c.landing = true, true
	if c.life.used.Due(c.now) {
		c.life.used.Stage(c.open.Batch(), false)
	}
	before := c.life.actor.Seq()
	if err := c.open.Apply(); err != nil {
		c.landed = c.life.actor.Seq() != before
		c.giveUp()
		return err
	}
	c.conns.address()
	c.mail.post()
	return nil
}

// abort gives up what the turn has staged.
func (c *Context) abort(err error) {
	c.over = true
	// What comes back is err, with what went wrong on the way, which changes nothing.
	_ = c.open.Rollback(err)
	c.giveUp()
}

// giveUp undoes what the turn has changed in memory.
func (c *Context) giveUp() {
	for i := len(c.undo) - 1; i >= 0; i-- {
		c.undo[i]()
	}
	c.out = nil
}

// Conn returns the connection through which the turn was asked for, nil if it was asked
// for without one.
func (c *Context) Conn() *Conn {
	return c.FindConn(c.turn.conn)
}

// Caller returns the caller that asked for the turn: of a call, a connection or a subscription that was asked for with WithCaller, and through a
// connection that which has made the connection. It is nil if nothing is said about it: for what the program itself asks for, for what is scheduled,
// for messages, and for calls of other actors.
func (c *Context) Caller() *Caller {
	if c.turn.from != nil {
		return c.turn.from
	}
	if n := c.Conn(); n != nil {
		return n.Caller()
	}
	return nil
}

// Connections returns the actor's connections, in the order of their ids, but for those that
// the turn has disconnected. It stands before the method of greenroom.Tx, whose changes the
// clients would not hear of.
func (c *Context) Connections() []*Conn {
	var all []*Conn
	for _, n := range c.life.conns.In(c.open.Batch()).Conns() {
		all = append(all, &Conn{c, n})
	}
	return all
}

// FindConn returns the connection with that id; nil without one.
func (c *Context) FindConn(id conn.ID) *Conn {
	if n, ok := c.life.conns.In(c.open.Batch()).Get(id); ok && id != "" {
		return &Conn{c, n}
	}
	return nil
}

// Broadcast sends an event to all connections that have subscribed to it, when the turn
// is durable.
func (c *Context) Broadcast(event string, v any) error { return c.conns.emit(nil, event, v) }

// Send puts a message into the queue of another actor. It wakes that actor, and creates it if it doesn't exist; if its
// type has MustCreate, it must exist, or Send returns ErrNoActor. The message is sent when the turn is durable, and not
// at all if the turn doesn't land. From then on it arrives exactly once, behind those that this actor sent to that one
// before, whatever happens to either actor or to the host, unless delivery takes more than a day. Until it arrives, the
// host retries, and the sender hears nothing of the retries.
//
// Only the messages that haven't arrived when this actor is destroyed are in the host's memory alone. They are lost if
// the host stops, or if the server on which the engine runs crashes.
//
// If the other queue can never take a message, because it is too large there or its name is unknown, the host drops it
// and logs an error. s.Delay counts from now. The turn itself puts a message to its own actor into the queue, as
// Queue.Send does.
//
// Letters may bound the actors a message may be sent to, whether it may create one, and how much is sent in a time.
// Such bounds don't count messages of an actor to itself.
//
// Errors: ErrAddress, ErrNoType, ErrNoActor, ErrOutboxFull, queue.ErrInvalid, greenroom.ErrClosed, those of Letters,
// and those of the store. After an error nothing is sent, even if the turn lands.
func (c *Context) Send(to Address, s queue.Send) error {
	if _, err := to.check(); err != nil {
		return err
	}
	if c.life.host.kind(to.Type) == nil {
		return fmt.Errorf("%w: %.80q", ErrNoType, to.Type)
	}
	if to == c.life.addr {
		if r, ok := s.Body.(Raw); ok {
			s.Body = queue.Raw(r)
		}
		_, err := c.Enqueue(s)
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	l, err := c.mail.write(to, s)
	if err != nil {
		return err
	}
	if err := c.mail.permit(to, l); err != nil {
		c.life.host.meter.Count(metricRefused, 1)
		return err
	}
	c.Batch().Put(mailrow.LetterKey(l.Number), l.Append(nil))
	c.Batch().WakeBy(c.now)
	c.mail.letters = append(c.mail.letters, l)
	c.life.host.meter.Count(metricSent, 1)
	sentEvent(c.Span(), s.Name, traces.String(eventTo, l.To))
	return nil
}

// hook calls fn, a hook of the type, in a span below that of the turn, unless the turn is
// for nothing else.
func (c *Context) hook(name string, fn func() error) error {
	if c.Span() == nil || c.turn.name == name {
		return fn()
	}
	around := c.Span()
	c.open.SetSpan(c.life.traces.Begin(name, c.life.spanOf(around)))
	err := errHookPanic // which goes on, to the end of the turn
	defer func() {
		endSpan(c.Span(), err)
		c.open.SetSpan(around)
	}()
	err = fn()
	return err
}

// unknown says what is known of a turn whose commit has failed, and whose handle is at its
// end. Where another host has the actor the commit came too late, unless it had landed
// before: then it is SQLite that was told of the other host.
func (c *Context) unknown(cause, err error) error {
	if errors.Is(cause, actorstore.ErrFenced) && !c.landed {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// refusal is what the caller of a turn is told that has failed with err: not why, if the
// actor has another owner or was lost, for that may be from a memory that is old.
func (c *Context) refusal(err error) error {
	if errors.Is(err, ErrPanic) || c.Err() != nil {
		return err // it says nothing of the actor
	}
	if lost := c.life.actor.Owned(c); lost != nil && !errors.Is(err, lost) {
		return fmt.Errorf("%w (the turn has failed: %v)", lost, err)
	}
	return err
}
