package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/vfs"
)

// A Context is what a turn does everything through. It is the turn's own, and but for the
// methods of context.Context not safe for concurrent use. As a context it ends with the
// turn, or before it, when it takes too long (Options.TurnTimeout) or the host gives up.
//
// What is written through it is staged, and lands when the turn's function has returned
// nil. The turn sees its own writes where that is said.
type Context struct {
	*turnContext
	life *life
	turn *turn
	now  time.Time
	span *traces.Span

	batch   batch.Batch
	wrote   bool // something was staged
	landing bool // the commit has begun
	landed  bool // it was applied
	over    bool
	sql     *vfs.Tx // nil until it is asked for
	kv      *KV
	state   *Raw         // nil until it is set
	parted  []*conn.Conn // that the turn disconnects
	settled map[queue.ID]bool
	events  []emission // to be sent when the turn has landed
	letters []*letter  // to other actors
	account *account   // of the actor, when the turn has landed; nil if nothing is sent
	out     []func()   // what leaves when the turn is durable
	undo    []func()   // what the turn has changed in memory besides, to be undone if it doesn't land
	destroy bool
}

var _ context.Context = (*Context)(nil)

func newContext(l *life, t *turn) *Context {
	return &Context{life: l, turn: t, now: l.host.clock(), turnContext: newTurnContext(l.turns, l.host.opts.TurnTimeout)}
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
	if c.span == nil {
		return c.life.log
	}
	return slog.New(spanHandler{c.life.log.Handler(), c.span})
}

// Vars returns what Type.Vars made, nil if there is none.
func (c *Context) Vars() any { return c.life.vars }

// Span returns the span of the turn, nil if the host records none; its methods may be
// called all the same.
func (c *Context) Span() *traces.Span { return c.span }

// Input decodes what the actor was created with into v; without an input v stays as it
// is.
func (c *Context) Input(v any) error {
	return Raw(c.life.record.RawInput()).Decode(v)
}

// Batch returns what lands at the end of the turn, for those who stage in it what Context
// has no method for. It must not be committed or given up.
func (c *Context) Batch() *batch.Batch {
	c.wrote = true
	return &c.batch
}

// Destroy has the actor removed, with everything that it has stored, when the turn has
// landed: Type.Destroy is called first, and if that fails so does the turn. The reply
// leaves when the actor is gone. A call that comes later creates the actor anew, and so does
// one that has woken an actor which destroys itself in Type.Wake. An actor that does so
// when it has just been created, in Type.Create or Wake, is ErrNoActor to who called it.
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

// After has fn called when the turn is durable, with what leaves: at most once, and never
// if the turn doesn't land. It must be quick, and not wait for a turn of the actor.
func (c *Context) After(fn func()) {
	l := c.life
	c.out = append(c.out, func() { l.report("send", shield(func() error { fn(); return nil })) })
}

// DB returns the transaction of the turn in the actor's database, which begins with the
// first call. What is executed in it lands with everything else that the turn writes,
// and is seen by the turn at once. COMMIT and ROLLBACK are the host's.
func (c *Context) DB() (*vfs.Tx, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.sql == nil {
		db, err := c.life.database(c)
		if err != nil {
			return nil, err
		}
		if c.sql, err = db.BeginUpdate(c, &c.batch); err != nil {
			return nil, err
		}
	}
	return c.sql, nil
}

func (c *Context) check() error {
	if c.over {
		return ErrTurnOver
	}
	return nil
}

// commit lands what the turn has staged. When it returns nil the actor's memory is as if
// the turn had been alone, and nothing of it has left.
func (c *Context) commit() error {
	err := c.stage()
	if err == nil && c.Err() != nil {
		err = c.Err() // too late: the caller may have been told so
	}
	if err != nil {
		c.abort(err)
		return err
	}
	c.over, c.landing = true, true
	c.batch.OnCommit(func() { c.landed = true })
	switch {
	case c.sql != nil:
		err = c.sql.Commit()
	case c.wrote:
		err = c.life.actor.ApplyIn(c, &c.batch, c.turn.in)
	default:
		err = c.life.actor.Owned(c) // what it says may be from memory alone
	}
	if err != nil {
		c.giveUp(err)
		return err
	}
	c.batch.Abort(nil) // settled, unless nothing was staged
	c.address()
	c.post()
	return nil
}

// stage adds what is put together at the end of the turn.
func (c *Context) stage() error {
	l := c.life
	c.stageAccount()
	if c.state != nil {
		if err := l.record.In(c.Batch()).SetState(*c.state); err != nil {
			return err
		}
	}
	if l.traces != nil && c.wrote {
		return l.traces.In(&c.batch).Flush(c)
	}
	return nil
}

// abort gives up what the turn has staged.
func (c *Context) abort(err error) {
	c.over = true
	if c.sql != nil {
		// What comes back is err, with what went wrong on the way, which changes nothing.
		_ = c.sql.Rollback(err)
	}
	c.giveUp(err)
}

func (c *Context) giveUp(err error) {
	c.batch.Abort(err)
	for i := len(c.undo) - 1; i >= 0; i-- {
		c.undo[i]()
	}
	c.out = nil
}
