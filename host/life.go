package host

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// A life is an actor's stay in memory. One goroutine, main, opens its parts, runs its
// turns, and closes everything; what else it starts only asks for turns.
type life struct {
	host  *Host
	kind  *kind
	addr  Address
	name  string
	birth *birth // nil: the actor must exist
	log   *slog.Logger

	ctx    context.Context // ends when the actor is to sleep, or was lost
	cancel context.CancelFunc
	steady context.Context // doesn't end
	turns  context.Context // of turns, which are part of going to sleep, too: ends with the host, or when all is over
	end    context.CancelFunc

	woken chan struct{} // closed when it is awake, or failure says why it isn't
	sleep chan struct{} // closed when it is to sleep
	empty chan struct{} // closed when it is leaving and has no users
	left  chan struct{} // closed when it is gone

	mailbox chan *turn // turns that users ask for
	inner   chan *turn // turns that the actor's own parts ask for, also while it goes to sleep
	over    chan struct{}

	failure   error // why it didn't wake; written before woken is closed
	stillborn bool  // it was to be created, which failed, and nothing of it is stored; likewise

	phase    phase         // +checklocks:host.mu
	users    int           // callers with turns, or about to have some  +checklocks:host.mu
	held     int           // what keeps it awake besides  +checklocks:host.mu
	place    *list.Element // in Host.idle; nil while it isn't idle  +checklocks:host.mu
	since    time.Time     // when it became idle  +checklocks:host.mu
	began    time.Time     // when it was awake  +checklocks:host.mu
	timer    *time.Timer   // +checklocks:host.mu
	sleepers sleepers      // +checklocks:host.mu
	alone    bool          // empty is closed  +checklocks:host.mu

	// What follows belongs to main.
	course    course
	creation  creation
	door      *greenroom.Actor  // main sets it with host.mu held, with which others read it
	actor     *actorstore.Actor // of door, and so are its parts
	clock     *alarm.Clock
	conns     *conn.Set
	record    *persist.Record
	queue     *queue.Queue
	traces    *traces.Traces
	spanAttrs []traces.Attr // of all spans; must not change
	workflow  *flow
	vars      any
	gate      gate
	out       outbox
	used      usage
	seen      map[mailrow.Sender]mailrow.Seen // what has come from other actors, of those of late
	had       actorstore.Wake                 // what the store said when it woke
	seq       uint64                          // of the actor's newest commit, when it woke
	woke      time.Time                       // when that was
	found     map[string]int                  // messages by name, when it woke although versions of its type had tried
	strange   bool                            // a turn has scheduled what its type can't do
	absence   *alarm.Source                   // rings when a client has been away for too long; nil if that is for ever
	expecting sync.Mutex                      // held to set absence
	running   atomic.Bool                     // of the workflow, whose goroutine sets it
	sources   sync.WaitGroup                  // of goroutines that ask for turns
	destroy   bool                            // the actor is to be removed, with everything that it has
	restore   func() error                    // what is done at the end instead; nil for nothing
	restored  bool                            // that was done; written before left is closed
}

// sleepers are the callers of Host.Sleep that wait. Host.mu guards them.
type sleepers struct {
	callers int           // that wait until the actor has nothing to do
	kept    chan struct{} // closed when a connection holds the actor; nil unless a caller waits
}

// hold tells the callers that a connection holds the actor.
func (b *sleepers) hold() {
	if b.kept != nil {
		close(b.kept)
		b.kept = nil
	}
}

func newLife(h *Host, kind *kind, a Address, name string, b *birth) *life {
	l := &life{
		host: h, kind: kind, addr: a, name: name, birth: b,
		log:   h.log.With(slog.String("actor", name)),
		woken: make(chan struct{}), sleep: make(chan struct{}), empty: make(chan struct{}), left: make(chan struct{}),
		mailbox: make(chan *turn, h.opts.Mailbox), inner: make(chan *turn), over: make(chan struct{}),
	}
	l.gate.life, l.creation.life = l, l
	l.course.begin(l)
	l.steady = context.WithoutCancel(h.ctx)
	l.turns, l.end = context.WithCancel(h.ctx)
	l.ctx, l.cancel = context.WithCancel(l.turns)
	return l
}

// quiesce closes the parts that ask for turns, or save something.
func (l *life) quiesce() {
	ctx := context.WithoutCancel(l.ctx)
	if l.workflow != nil {
		l.report("close the workflow", l.workflow.close())
	}
	l.report("close the record", l.record.Close(ctx))
	var held []Transport
	for _, n := range l.ephemeral() {
		if t, ok := n.Transport().(Transport); ok {
			held = append(held, t)
		}
	}
	l.report("close the connections", l.conns.Close(ctx))
	for _, t := range held {
		t.Close("the actor has left this host")
	}
	if l.traces != nil {
		l.report("close the traces", l.traces.Close(ctx))
	}
}

// refuse ends turns without running them until its last user is gone.
func (l *life) refuse(stopped <-chan struct{}) {
	empty := l.empty
	for stopped != nil || empty != nil {
		select {
		case t := <-l.mailbox:
			t.finish(errAgain)
		case t := <-l.inner:
			t.finish(errAgain)
		case <-stopped:
			stopped = nil
		case <-empty:
			empty = nil
		}
	}
}

// shut closes what is open of the actor, in the reverse order of open. lost says that
// errors are to be expected.
func (l *life) shut(lost bool) {
	report := l.report
	if lost {
		report = func(string, error) {}
		l.shutLost()
	}
	if l.door != nil {
		report("close the actor", l.door.Close())
	}
	if c, ok := l.vars.(interface{ Close() error }); ok {
		l.report("close the variables", shield(c.Close))
	}
	l.cancel()
	l.end()
}

// shutLost closes the parts that quiesce closes, for an actor that didn't wake.
func (l *life) shutLost() {
	ctx := context.WithoutCancel(l.ctx)
	if l.workflow != nil {
		_ = l.workflow.close()
	}
	if l.record != nil {
		_ = l.record.Close(ctx)
	}
	if l.conns != nil {
		_ = l.conns.Close(ctx)
	}
	if l.traces != nil {
		_ = l.traces.Close(ctx)
	}
}

// ephemeral returns the connections that end when the actor leaves memory.
func (l *life) ephemeral() (ns []*conn.Conn) {
	for _, n := range l.conns.Conns() {
		if n.Ephemeral() {
			ns = append(ns, n)
		}
	}
	return ns
}

func (l *life) disconnectEphemeral(c *Context) error {
	for _, n := range l.ephemeral() {
		if err := c.disconnect(n, "the host is shutting down"); err != nil {
			return err
		}
	}
	return nil
}

// report logs an error that has no caller.
func (l *life) report(what string, err error) {
	var p *panicError
	switch {
	case errors.As(err, &p):
		l.log.Error("host: "+what, slog.Any("panic", p.value), slog.String("stack", string(p.stack)))
	case err != nil && !errors.Is(err, context.Canceled):
		l.log.Error("host: "+what, slog.Any("error", err))
	}
}
