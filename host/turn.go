package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/opentx"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/traces"
)

// A turn is something to be done alone with an actor.
type turn struct {
	name string // of its span; "" for that of an action
	run  func(c *Context) error
	turnOrigin
	done        chan error     // gets the outcome, once, when it may leave
	life        *life          // whose user the turn is; nil for none
	caller      *turnContext   // of the turn that waits for it, nil for none
	must        bool           // it waits for room in the mailbox
	in          kv.Incarnation // in which alone it may land, 0 for any
	courier     bool           // it brings letters, or tells that they have come: other callers go first
	place       *place         // in the line of calls that are to follow the actor, if it wasn't run; nil for none
	took        atomic.Bool    // it is being run, or its caller has gone
	participant *participant   // in a turn of several actors, nil for one of one
	// patient: the reply to a call that destroys the actor waits until the actor is gone. The
	// actor's own parts must not wait for that, since the actor waits for them.
	patient bool
}

// A turnOrigin says for what a turn is, for its span.
type turnOrigin struct {
	conn      conn.ID // through which it was asked for, "" for none
	from      *Caller // nil if nothing is said about it
	action    string  // "" for none
	scheduled bool
	parent    *traces.Span   // of the actor, nil for none
	trace     traces.TraceID // elsewhere, zero for none
	above     traces.SpanID  // of it
}

// spanName returns the name of the turn's span.
func (t *turn) spanName() string {
	if t.name == "" {
		return spanAction + t.action
	}
	return t.name
}

func newTurn(name string, run func(c *Context) error) *turn {
	return &turn{name: name, run: run, done: make(chan error, 1)}
}

// again returns t as it was before it was posted.
func (t *turn) again() *turn {
	return &turn{
		name: t.name, run: t.run, turnOrigin: t.turnOrigin, must: t.must, in: t.in, courier: t.courier, caller: t.caller, participant: t.participant,
		done: make(chan error, 1),
	}
}

// by says which kind of caller waits for t.
func (t *turn) by() caller {
	if t.courier {
		return byCourier
	}
	return byUser
}

// finish tells what became of t.
func (t *turn) finish(err error) {
	t.done <- err
	if t.life != nil {
		t.life.leave()
	}
}

// post puts t into the mailbox, which is emptied as long as the caller is a user.
func (l *life) post(ctx context.Context, t *turn) error {
	if !t.must {
		select {
		case l.mailbox <- t:
			return nil
		default:
			return ErrOverloaded
		}
	}
	select {
	case l.mailbox <- t:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait returns the outcome of t.
func (t *turn) wait(ctx context.Context) error {
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		if t.took.CompareAndSwap(false, true) {
			return ctx.Err() // it won't be run
		}
		select {
		case err := <-t.done:
			return err
		default:
			return fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
		}
	}
}

// inward runs t for a part of the actor itself, even while the actor goes to sleep: it waits for
// its parts first.
func (l *life) inward(ctx context.Context, t *turn) error {
	if l.enterAwake() {
		t.life = l
	}
	select {
	case l.inner <- t:
		return <-t.done
	case <-l.over:
	case <-ctx.Done():
		if t.life == nil {
			break
		}
		l.leave()
		return ctx.Err()
	}
	if t.life != nil {
		l.leave()
	}
	return ErrNotAwake
}

// lifeKey is the key of a life in contexts.
type lifeKey struct{}

func withLife(ctx context.Context, l *life) context.Context {
	return context.WithValue(ctx, lifeKey{}, l)
}

// Turn runs fn in a turn of the actor whose stay in memory ctx belongs to: ctx is that of Type.Run,
// or of a step of its workflow. Turn returns when fn's effects are durable. Within a turn of that
// actor it returns greenroom.ErrNested. A step that must land with its turn is a StepTurn.
//
// Errors: fn's, ErrPanic, ErrUnknownOutcome, ErrNotAwake, and those of the commit.
func Turn(ctx context.Context, fn func(c *Context) error) error {
	l, ok := ctx.Value(lifeKey{}).(*life)
	if !ok {
		return fmt.Errorf("%w: the context is of no actor", ErrNotAwake)
	}
	l.host.mu.Lock()
	err := nested(ctx, l)
	l.host.mu.Unlock()
	if err != nil {
		return err
	}
	t := newTurn(spanTurn, fn)
	t.caller = waiter(ctx)
	if t.parent = traces.FromContext(ctx); l.traces == nil {
		t.parent = nil // another actor's
	}
	err = l.inward(ctx, t)
	if errors.Is(err, errAgain) {
		return ErrNotAwake
	}
	return err
}

// newContext begins the turn t.
func (l *life) newContext(t *turn) (*Context, error) {
	c := &Context{life: l, turn: t, now: l.host.clock(), ends: newTurnContext(l.turns, l.host.opts.TurnTimeout)}
	c.ends.life, c.ends.caller, c.ends.beside = l, t.caller, t.participant.names()
	c.conns.c, c.mail.c = c, c
	var err error
	c.Tx, c.open, err = transactions.Begin(c.ends, l.door, opentx.Options{Due: c.due, Incarnation: t.in, Whole: t.participant != nil})
	if err != nil {
		return nil, err
	}
	c.open.SetSpan(l.span(t))
	return c, nil
}

// exec runs a turn and commits what it has done. Its outcome is told by the gate.
func (l *life) exec(t *turn) {
	if !t.took.CompareAndSwap(false, true) {
		t.finish(context.Canceled) // its caller has gone
		return
	}
	began := time.Now()
	c, refused := l.newContext(t)
	if refused != nil {
		t.finish(refused)
		return
	}
	l.turn = c.ends
	err := errGoexit // unless it returns
	// Deferred, because code that ends its goroutine returns to nowhere else. The caller of exec
	// sees to it that there is another one then.
	defer func() {
		if err == errGoexit {
			err = &panicError{err, debug.Stack()}
		}
		l.conclude(c, err, began)
	}()
	err = guard(func() error { return t.run(c) })
}

// errGoexit is the cause of a turn's failure that called runtime.Goexit, as testing.T's
// FailNow does.
var errGoexit = errors.New("runtime.Goexit was called")

// conclude ends the turn of c, whose function has returned err.
func (l *life) conclude(c *Context, err error, began time.Time) {
	t := c.turn
	if err == nil {
		err = c.commit()
	} else {
		c.abort(err)
		err = c.refusal(err)
	}
	t.participant.settle(l, err)
	if l.actor.Err() == nil {
		err = ran(err)
	}
	c.ends.end()
	l.turn = nil
	endSpan(c.Span(), err)
	if cause := l.actor.Err(); cause != nil && err != nil && c.landing {
		err = c.unknown(cause, err)
	}
	measured := l.kind.metrics.of(t.name, t.action)
	if l.used.Turn(); err != nil {
		l.used.Fail(Code(err), t.spanName())
		l.host.meter.Count(measured.failed, 1)
		if !t.participant.follows() {
			l.logFailure(t, err)
		}
	} else {
		l.destroy = l.destroy || c.destroy
		if c.restore != nil {
			l.restore = c.restore
		}
	}
	l.host.meter.Observe(measured.time, time.Since(began))
	l.used.Tell()
	l.gate.push(output{turn: t, err: err, send: c.out, seq: l.actor.Seq(), destroy: err == nil && c.destroy})
}

// logFailure logs what went wrong for no reason that a caller could know, and what the
// caller isn't told. Failures of the actor's own parts are logged by those.
func (l *life) logFailure(t *turn, err error) {
	var p *panicError
	switch {
	case errors.As(err, &p):
		l.log.Error("host: panic", slog.String("turn", t.spanName()), slog.Any("panic", p.value), slog.String("stack", string(p.stack)))
	case t.patient && Code(err) == codeInternal && !errors.Is(err, kv.ErrIncarnation):
		l.log.Error("host: turn", slog.String("turn", t.spanName()), slog.Any("error", err))
	}
}

// guard calls fn, and makes an error of a panic.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	return fn()
}

// shield calls fn, which isn't a turn, as guard does, on a goroutine of its own, and makes an error of runtime.Goexit, too.
func shield(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		var err error = &panicError{value: errGoexit}
		defer func() { done <- err }()
		err = guard(fn)
	}()
	return <-done
}

// A panicError is a panic of an actor's code. It wraps ErrPanic, and the error with which
// the code panicked, if it was one.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanic, e.value) }

func (e *panicError) Unwrap() []error {
	if err, ok := e.value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}

// span starts the span of a turn, nil if nothing is recorded.
func (l *recorder) span(t *turn) *traces.Span {
	if l.traces == nil {
		return nil
	}
	attrs := append(make([]traces.Attr, 0, len(l.spanAttrs)+4), l.spanAttrs...)
	if t.action != "" {
		attrs = append(attrs, traces.String(keyActionName, t.action),
			traces.Bool(keyActionScheduled, t.scheduled))
	}
	if t.conn != "" {
		attrs = append(attrs, traces.String(keyConnID, string(t.conn)))
	}
	o := &traces.StartOptions{Kind: traces.KindInternal, Attributes: attrs, Parent: t.parent, TraceID: t.trace, ParentID: t.above}
	if t.action != "" && !t.scheduled {
		o.Kind = traces.KindServer
	}
	return l.traces.Begin(t.spanName(), o)
}
