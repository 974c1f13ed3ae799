package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// Connect makes a connection to the actor, and waits until it is there, ctx ends, or the host refuses it for a reason that doesn't pass. The caller closes it. opts may be nil.
func (a *Actor) Connect(ctx context.Context, opts *ConnectOptions) (*Conn, error) {
	c := &Conn{
		actor: a, first: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}), more: make(chan struct{}, 1),
		owed: map[uint64]*pending{}, subscribed: map[string]bool{},
	}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Silence == 0 {
		c.opts.Silence = silence
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.program = newProgram()
	go c.run()
	select {
	case <-c.first:
		return c, nil
	case <-c.done:
		<-c.ended
		return nil, c.Err()
	case <-ctx.Done():
		c.Close()
		return nil, context.Cause(ctx)
	}
}

// run keeps the connection, from socket to socket, until it is over.
func (c *Conn) run() {
	defer close(c.ended)
	for failures := 0; ; failures++ {
		stood, err := c.session()
		if stood > pause(failures) {
			failures = 0
		}
		var said *host.Error
		switch {
		case c.ctx.Err() != nil:
			c.end(ErrClosed)
			return
		case !errors.As(err, &said) || passing[said.Code] || said.Code == "unknown_outcome" || said.Code == "bad_response":
			// It passes.
		case said.Code == "no_such_connection" && c.forget():
			// The client was away for too long, and connects anew.
		case said.Code == "unauthorized" && stood > 0:
			// The token has ended, and there may be another one.
		default:
			c.end(err)
			return
		}
		if sleep(c.ctx, pause(failures)) != nil {
			c.end(ErrClosed)
			return
		}
	}
}

// forget forgets the connection of before, and says whether there was one.
func (c *Conn) forget() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.joined != nil
	c.joined = nil
	return had
}

// session is one socket, from its beginning to its end. stood is how long the client was connected by it, and at least longestPause if the host has answered or sent anything.
func (c *Conn) session() (stood time.Duration, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ws, first, err := c.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = ws.CloseNow() }() // it has ended, or isn't wanted any more
	if err := c.connected(ws, first); err != nil {
		return 0, err
	}
	began := time.Now()
	var both sync.WaitGroup
	both.Go(func() { c.send(ctx, ws); cancel() })
	both.Go(func() { c.ping(ctx, ws); cancel() })
	heard, err := c.receive(ctx, ws)
	cancel()
	both.Wait()
	c.lost(err)
	if stood = time.Since(began); heard {
		stood = max(stood, longestPause)
	}
	return stood, err
}

// dial opens a socket, and returns the answer to its first message.
func (c *Conn) dial(ctx context.Context) (*websocket.Conn, *wire.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Silence)
	defer cancel()
	h, err := c.actor.client.header(ctx)
	if err != nil {
		return nil, nil, err
	}
	first, err := c.hello()
	if err != nil {
		return nil, nil, err
	}
	ws, resp, err := websocket.Dial(ctx, c.actor.url("connect"), &websocket.DialOptions{
		HTTPClient: c.actor.client.opts.HTTP, HTTPHeader: h, Subprotocols: []string{wire.ProtocolCBOR},
	})
	if err != nil {
		if resp != nil && resp.Body != nil {
			if text, rerr := io.ReadAll(resp.Body); rerr == nil && len(text) > 0 {
				err = problemOf(resp, text)
			}
		}
		return nil, nil, err
	}
	ws.SetReadLimit(maxAnswer)
	var r *wire.Response
	if err = ws.Write(ctx, websocket.MessageBinary, first); err == nil {
		r, err = read(ctx, ws)
	}
	if err == nil && r.Type != wire.TypeConnected {
		err = told(cmp.Or(r.Code, "bad_response"), r.Message)
	}
	if err != nil {
		_ = ws.CloseNow() // what is wrong is known
		return nil, nil, err
	}
	return ws, r, nil
}

// hello returns the first message.
func (c *Conn) hello() ([]byte, error) {
	c.mu.Lock()
	joined := c.joined
	c.mu.Unlock()
	m := &wire.Request{Type: wire.TypeConnect}
	switch {
	case joined != nil:
		m = &wire.Request{Type: wire.TypeResume, Conn: joined.Conn, Token: joined.Token}
	case c.opts.Params != nil:
		params, err := host.Encode(c.opts.Params())
		if err != nil {
			return nil, &host.Error{Code: host.Code(host.ErrArgs), Message: "The parameters can't be encoded.", Err: err}
		}
		m.Params = wire.Value(params)
	}
	if c.opts.Held {
		m.Hibernate = new(bool)
	}
	return host.Encode(m)
}

// read reads a message of the host. The error of a socket that the host has closed says why, if it is one for the program.
func read(ctx context.Context, ws *websocket.Conn) (*wire.Response, error) {
	_, text, err := ws.Read(ctx)
	if err != nil {
		var why websocket.CloseError
		if errors.As(err, &why) && why.Code == wire.CloseGone {
			err = told("disconnected", why.Reason)
		} else if errors.As(err, &why) && why.Code == wire.CloseBad {
			err = told("bad_message", why.Reason)
		}
		return nil, err
	}
	r := &wire.Response{}
	if err := host.Raw(text).Decode(r); err != nil {
		return nil, fmt.Errorf("client: a message of the host: %w", err)
	}
	return r, nil
}

// connected goes on with a socket. A new connection is subscribed first to what an earlier one was subscribed to.
func (c *Conn) connected(ws *websocket.Conn, r *wire.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	resumed := c.joined != nil && c.joined.Conn == r.Conn
	c.joined = nil
	if r.Token != "" {
		c.joined = r
	}
	if !resumed {
		asked := map[string]bool{}
		for _, p := range c.waiting {
			asked[p.Event] = asked[p.Event] || p.Type == wire.TypeSubscribe
		}
		var again []*pending
		for event := range c.subscribed {
			if asked[event] {
				continue
			}
			p, err := c.prepare(&request{Request: wire.Request{Type: wire.TypeSubscribe, Event: event}, repeats: true})
			if err != nil {
				return err
			}
			p.renewed = true
			again = append(again, p)
		}
		c.waiting = append(again, c.waiting...)
	}
	for _, p := range c.waiting {
		p.paused = false
	}
	c.ws = ws
	for _, l := range c.listeners {
		l.miss()
	}
	select {
	case <-c.first:
		c.tell(Connected, resumed, nil)
	default:
		close(c.first)
	}
	c.wake()
	return nil
}

// lost goes on when a socket has ended.
func (c *Conn) lost(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ws = nil
	if c.err != nil {
		return
	}
	owed := c.owed
	c.owed = map[uint64]*pending{}
	broken := &host.Error{Code: host.Code(host.ErrUnknownOutcome), Message: "The connection broke before the answer.", Err: fmt.Errorf("%w: %w", host.ErrUnknownOutcome, err)}
	var largest *pending
	for _, p := range owed {
		if !p.again(broken) {
			c.settle(p, answer{err: broken})
		} else if largest == nil || len(p.text) > len(largest.text) {
			largest = p
		}
	}
	if websocket.CloseStatus(err) == websocket.StatusMessageTooBig && largest != nil { // one of them was too large for the host, so that the largest one was
		c.settle(largest, answer{err: told("body_too_large", "This is more than may be sent at once.")})
	}
	c.tell(Away, false, err)
}

// settle answers a request. One that isn't waited for any more is left.
//
// +checklocks:c.mu
func (c *Conn) settle(p *pending, a answer) {
	if i := slices.Index(c.waiting, p); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		p.answer <- a
	}
}

// send sends what the host takes, until ctx or the socket ends.
func (c *Conn) send(ctx context.Context, ws *websocket.Conn) {
	for {
		p := c.following()
		if p == nil {
			select {
			case <-c.more:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := ws.Write(ctx, websocket.MessageBinary, p.text); err != nil {
			return // reading ends, too, and tells why
		}
	}
}

// following returns the next request to be sent, which the socket owes an answer from now on; nil for none.
func (c *Conn) following() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.owed) >= window {
		return nil
	}
	for _, p := range c.waiting {
		if !p.paused && c.owed[p.ID] == nil {
			c.owed[p.ID] = p
			return p
		}
	}
	return nil
}

// ping asks the host now and then whether it is there, until it doesn't say so, or ctx ends.
func (c *Conn) ping(ctx context.Context, ws *websocket.Conn) {
	for sleep(ctx, c.opts.Silence/2) == nil {
		pong, cancel := context.WithTimeout(ctx, c.opts.Silence)
		err := ws.Ping(pong)
		cancel()
		if err != nil {
			return
		}
	}
}

// errSlow ends a socket whose events the program takes too slowly.
var errSlow = errors.New("client: the program didn't take its events in time")

// receive takes what the host sends, until the socket ends. heard is whether the host has answered or sent anything, and the program has taken it.
func (c *Conn) receive(ctx context.Context, ws *websocket.Conn) (heard bool, _ error) {
	var refused error // what the host says before it closes the socket
	for {
		r, err := read(ctx, ws)
		if err != nil {
			return heard, cmp.Or(refused, err)
		}
		heard = heard || r.Type == wire.TypeEvent || r.ID != 0
		switch r.Type {
		case wire.TypeEvent:
			if !c.event(r) {
				return false, errSlow
			}
		case wire.TypeResult:
			c.answered(r, nil)
		case wire.TypeError:
			err := told(r.Code, r.Message)
			if r.ID == 0 {
				refused = err
			} else if err := c.answered(r, err); err != nil {
				return heard, err
			}
		}
	}
}

// event tells of an event, and says whether there was room for it.
func (c *Conn) event(r *wire.Response) bool {
	c.mu.Lock()
	for _, l := range c.listeners {
		l.hear(r)
	}
	c.mu.Unlock()
	if c.opts.OnEvent == nil {
		return true
	}
	return c.program.push(len(r.Event)+len(r.Body)+1, func() { c.opts.OnEvent(r.Event, host.Raw(r.Body)) })
}

// answered takes the answer to a request, which is asked again later if err passes. An error is that of a subscription that a new connection must have.
func (c *Conn) answered(r *wire.Response, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.owed[r.ID]
	if p == nil {
		return nil
	}
	delete(c.owed, r.ID)
	c.wake()
	switch {
	case err == nil:
		c.settle(p, answer{body: host.Raw(r.Body)})
	case p.again(err):
		p.paused = true
		p.failures++
		time.AfterFunc(pause(p.failures-1), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			p.paused = false
			c.wake()
		})
	default:
		c.settle(p, answer{err: p.final(err)})
		if p.renewed {
			return err
		}
	}
	return nil
}
