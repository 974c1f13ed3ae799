package host

import (
	"context"
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
	landed  bool // it was applied
	over    bool
	parted  []*conn.Conn      // that the turn disconnects
	events  []emission        // to be sent when the turn has landed
	letters []*mailrow.Letter // to other actors
	account *mailrow.Account  // of the actor, when the turn has landed; nil if nothing is sent
	out     []func()          // what leaves when the turn is durable
	undo    []func()          // what the turn has changed in memory besides, to be undone if it doesn't land
	destroy bool
	restore func() error // what is done in the place of destroying it; nil for none
}

var _ context.Context = (*Context)(nil)

func newContext(l *life, t *turn) (*Context, error) {
	c := &Context{life: l, turn: t, now: l.host.clock(), ends: newTurnContext(l.turns, l.host.opts.TurnTimeout)}
	c.ends.life, c.ends.caller = l, t.caller
	var err error
	c.Tx, c.open, err = transactions.Begin(c.ends, l.door, opentx.Options{Due: c.due, Incarnation: t.in})
	if err != nil {
		return nil, err
	}
	c.open.SetSpan(l.span(t))
	return c, nil
}

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
// error it comes again later. Action.At schedules an action that is declared.
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
	c.stageAccount()
	if err := c.Err(); err != nil { // too late: the caller may have been told so
		c.abort(err)
		return err
	}
	c.over, c.landing = true, true
	c.open.Batch().OnCommit(func() { c.landed = true })
	if c.life.used.due(c.now) {
		c.life.used.stage(c.open.Batch(), false)
	}
	if err := c.open.Apply(); err != nil {
		c.giveUp()
		return err
	}
	c.address()
	c.post()
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
