package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// A State is that of a connection.
type State int

// The states of a connection.
const (
	Connected State = iota + 1 // calls are sent
	Away                       // its socket has ended, and it is being taken up again
	Closed                     // it is over for good
)

// String returns the word for a state.
func (s State) String() string { return [...]string{"none", "connected", "away", "closed"}[s] }

// ConnectOptions change what Connect does.
type ConnectOptions struct {
	// Params returns what the actor's Connect gets, of each new connection; nil for undefined.
	Params func() any
	// Held makes a connection that keeps its actor awake and ends with its socket; else it outlives both.
	Held bool
	// OnEvent is told each event that comes, in their order. OnState is told each change of the state, after the first Connected: whether the connection is
	// the one of before, and why it is Away or Closed. Both are called by one goroutine of the connection, one after the other, and may call its methods. When 256 events wait for
	// OnEvent, or 4 MiB, the client ends its socket and resumes, and what the actor sends meanwhile is lost. nil for none.
	OnEvent func(name string, body host.Raw)
	OnState func(s State, resumed bool, err error)
	// Silence is how long a host may take to answer a ping before its socket is given up: 0 means 30 seconds.
	Silence time.Duration
}

// Bounds of what is sent.
const (
	window     = 16 // requests of one socket that a host lets wait
	maxMessage = 1 << 20
	silence    = 30 * time.Second
)

// A Conn is a connection to an actor, which comes back by itself. Its methods may be called from many goroutines at once.
type Conn struct {
	actor   *Actor
	opts    ConnectOptions
	ctx     context.Context // ends with the connection
	cancel  context.CancelFunc
	first   chan struct{} // closed when it is connected for the first time
	done    chan struct{} // closed when it is over
	ended   chan struct{} // closed when nothing of it is left but what OnEvent and OnState do
	more    chan struct{} // has room for one: something is to be sent
	program *program

	mu         sync.Mutex
	next       uint64              // the id of the last request  +checklocks:mu
	waiting    []*pending          // in the order in which they are sent  +checklocks:mu
	owed       map[uint64]*pending // that the socket has to answer  +checklocks:mu
	subscribed map[string]bool     // +checklocks:mu
	listeners  []*listener         // +checklocks:mu
	joined     *wire.Response      // by which the connection is taken up again; nil for a new one  +checklocks:mu
	ws         *websocket.Conn     // nil while it is away  +checklocks:mu
	err        error               // why it is over  +checklocks:mu
}

// A pending is a request that isn't answered.
type pending struct {
	*request
	text    []byte // as it is sent, each time the same
	paused  bool   // the host has refused it for now
	renewed bool   // it subscribes a new connection to what an earlier one was subscribed to
	answer  chan answer
}

// An answer is that to a request.
type answer struct {
	body host.Raw
	err  error
}

var _ Doer = (*Conn)(nil)

// Done returns a channel that is closed when the connection is over for good.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection is over, nil as long as it isn't: ErrClosed, what the host has refused it with, or a *host.Error with the code "disconnected" if the actor has ended it.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, here and at the actor. Calls that aren't answered fail.
func (c *Conn) Close() {
	c.mu.Lock()
	ws := c.ws
	c.mu.Unlock()
	c.end(ErrClosed)
	if ws != nil {
		_ = ws.Close(websocket.StatusNormalClosure, "") // a host that isn't told finds the client away
	}
	c.cancel()
	<-c.ended
}

// end ends the connection for good. The first one says why.
func (c *Conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for _, p := range c.waiting {
		p.doubt = p.doubt || c.owed[p.ID] == p
		p.answer <- answer{err: p.left(err)}
	}
	c.waiting = nil
	close(c.done)
	c.tell(Closed, false, err)
	c.program.close()
}

// Do implements Doer, over the socket, as a call of the connection. Calls are sent in their order; one that the host refuses for now comes behind later ones. It waits until
// the call is answered, ctx ends, or the connection is over, also while that is away.
func (c *Conn) Do(ctx context.Context, action string, args, result any, opts *CallOptions) error {
	r, err := newRequest(action, args, opts)
	if err != nil {
		return err
	}
	body, err := c.ask(ctx, r)
	if err != nil {
		return err
	}
	return decode(action, body, result)
}

// Subscribe has the actor's broadcasts of an event come, from now on, also after breaks. Without it only those come for which the actor has subscribed the connection, and those
// that it sends to this one alone.
func (c *Conn) Subscribe(ctx context.Context, event string) error {
	c.subscription(event, true)
	_, err := c.ask(ctx, &request{Request: wire.Request{Type: wire.TypeSubscribe, Event: event}, repeats: true})
	if err != nil {
		c.subscription(event, false)
	}
	return err
}

// Unsubscribe ends that.
func (c *Conn) Unsubscribe(ctx context.Context, event string) error {
	c.subscription(event, false)
	_, err := c.ask(ctx, &request{Request: wire.Request{Type: wire.TypeUnsubscribe, Event: event}, repeats: true})
	return err
}

func (c *Conn) subscription(event string, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wanted {
		c.subscribed[event] = true
	} else {
		delete(c.subscribed, event)
	}
}

// ask sends a request until it is answered.
func (c *Conn) ask(ctx context.Context, r *request) (host.Raw, error) {
	p, err := c.enqueue(r)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-p.answer:
		return a.body, a.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, p); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if c.owed[p.ID] == p {
			p.doubt = true
		}
		return nil, p.left(context.Cause(ctx))
	}
	a := <-p.answer
	return a.body, a.err
}

// enqueue has a request sent.
func (c *Conn) enqueue(r *request) (*pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	p, err := c.prepare(r)
	if err != nil {
		return nil, err
	}
	c.waiting = append(c.waiting, p)
	c.wake()
	return p, nil
}

// prepare gives a request its id and its text.
//
// +checklocks:c.mu
func (c *Conn) prepare(r *request) (*pending, error) {
	c.next++
	r.ID = c.next
	text, err := host.Encode(&r.Request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrArgs, err)
	}
	if len(text) > maxMessage {
		return nil, told("body_too_large", "This is more than may be sent at once.")
	}
	return &pending{request: r, text: text, answer: make(chan answer, 1)}, nil
}

// wake has the socket look for what is to be sent.
func (c *Conn) wake() {
	select {
	case c.more <- struct{}{}:
	default: // it looks anyway
	}
}

// tell tells the program about a state.
func (c *Conn) tell(s State, resumed bool, err error) {
	if c.opts.OnState != nil {
		c.program.push(0, func() { c.opts.OnState(s, resumed, err) })
	}
}
