package hosttest

import (
	"fmt"
	"sync"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/host"
)

// A Client is the client of a connection, which hibernates: the actor may sleep meanwhile.
type Client struct {
	of     *Actor
	joined host.Joined

	mu     sync.Mutex
	way    *way         // on which it hears, nil while it is away  +checklocks:mu
	events []host.Event // that were not taken yet  +checklocks:mu
	taken  int          // how many were  +checklocks:mu
	ended  bool         // the connection is over  +checklocks:mu
	reason string       // why it is  +checklocks:mu
}

// Connect makes a client of the actor, with the parameters that Type.Connect gets. An error, such as
// a refusal of Type.Connect, is the caller's.
func (a *Actor) Connect(parameters any) (*Client, error) {
	p, err := host.Encode(parameters)
	if err != nil {
		return nil, err
	}
	ctx, cancel := a.context()
	defer cancel()
	c := &Client{of: a}
	c.way = &way{c}
	if c.joined, err = a.e.Host.Join(ctx, &host.Join{Actor: a.Address, Transport: c.way, Parameters: p, Hibernate: true}); err != nil {
		return nil, err
	}
	a.e.clients = append(a.e.clients, c)
	return c, nil
}

// Do calls an action over the connection. See Caller.
func (c *Client) Do(action string, in any) (host.Raw, error) {
	return c.of.do(&host.Call{Action: action, Conn: c.joined.ID}, in)
}

func (c *Client) env() *Env { return c.of.e }

func (c *Client) must(what string, err error) {
	c.of.e.t.Helper()
	c.of.must("client: "+what, err)
}

// Subscribe subscribes to the events of a name, as a client asks for it.
func (c *Client) Subscribe(event string) {
	c.of.e.t.Helper()
	ctx, cancel := c.of.context()
	defer cancel()
	c.must("subscribe to "+event, c.of.e.Host.Subscribe(ctx, c.of.Address, c.joined.ID, event, true))
}

// Next takes the next event that has come, and ends the test if none has come when nothing goes on
// any more, or if it has another name, or doesn't fit. It lets no time pass.
func Next[Body any](c *Client, name string) (body Body) {
	c.of.e.t.Helper()
	e, err := c.next()
	if err == nil && e.Name != name {
		err = fmt.Errorf("it is %q", e.Name)
	}
	if err == nil {
		err = e.Body.Decode(&body)
	}
	c.must(fmt.Sprintf("the next event %q", name), err)
	return body
}

func (c *Client) next() (e host.Event, err error) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.events) > 0:
		e, c.events = c.events[0], c.events[1:]
		c.taken++
		return e, nil
	case c.ended:
		return e, fmt.Errorf("the connection has ended after %d events: %s", c.taken, c.reason)
	case c.way == nil:
		return e, fmt.Errorf("the client is away since it has taken %d events: it must Rejoin", c.taken)
	}
	return e, fmt.Errorf("it hasn't come; the client has taken %d", c.taken)
}

// Waiting returns the names of the events that have come and were not taken yet, in order.
func (c *Client) Waiting() (names []string) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		names = append(names, e.Name)
	}
	return names
}

// Ended says whether the connection is over, and the reason that the client got.
func (c *Client) Ended() (reason string, ended bool) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason, c.ended
}

// Close disconnects the client.
func (c *Client) Close() {
	c.of.e.t.Helper()
	ctx, cancel := c.of.context()
	defer cancel()
	c.must("close", c.of.e.Host.Leave(ctx, c.of.Address, c.joined.ID, "the client has left"))
}

// Lose has the client lose its network: it hears nothing until it is back by Rejoin, for which
// host.Options.AwayTimeout is the time.
func (c *Client) Lose() {
	if w := c.lose(); w != nil {
		c.of.e.Host.Away(c.of.Address, c.joined.ID, w)
	}
}

// Rejoin has a client that is away come back, as after Lose, Restart and Crash. host.ErrNoConn says that the
// connection is gone.
func (c *Client) Rejoin() error {
	ctx, cancel := c.of.context()
	defer cancel()
	w := &way{c}
	c.mu.Lock()
	c.way = w
	c.mu.Unlock()
	_, err := c.of.e.Host.Rejoin(ctx, c.of.Address, c.joined, w)
	if err != nil {
		c.lose()
	}
	return err
}

// lose returns the way on which c heard, nil if it was away.
func (c *Client) lose() *way {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.way
	c.way = nil
	return w
}

// loseClients has all clients be away.
func (e *Env) loseClients() {
	for _, c := range e.clients {
		c.lose()
	}
}

// A way is the transport of a client, until it has another one.
type way struct{ to *Client }

// Send is host.Transport's.
func (w *way) Send(e host.Event) {
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	if w.to.way == w {
		w.to.events = append(w.to.events, e)
	}
}

// Close is host.Transport's.
func (w *way) Close(reason string) {
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	if w.to.way == w {
		w.to.way, w.to.ended, w.to.reason = nil, true, reason
	}
}
