package guest

import "github.com/greenroomdb/greenroom/host/internal/abi"

// A Conn is a connection of the actor, as a turn sees it: with its own changes.
type Conn struct{ id string }

// Conn returns the connection through which the turn was asked for, nil if it was asked
// for without one.
func (o *origin) Conn() *Conn {
	if o.conn == "" {
		return nil
	}
	return &Conn{o.conn}
}

// Connections returns the actor's connections, in the order of their ids, but for those that the
// turn has disconnected.
func (c *Context) Connections() ([]*Conn, error) {
	var ids []string
	if err := call(connList, nil, &ids); err != nil {
		return nil, err
	}
	var all []*Conn
	for _, id := range ids {
		all = append(all, &Conn{id})
	}
	return all, nil
}

// FindConn returns the connection with that id. If it doesn't exist, its first use returns
// an *Error with the code "no_such_connection".
func (c *Context) FindConn(id string) *Conn { return &Conn{id} }

// ID returns the connection's id.
func (n *Conn) ID() string { return n.id }

func (n *Conn) get() (c abi.Conn, err error) {
	err = call(connGet, n.id, &c)
	return c, err
}

// Hibernates reports whether the connection stays when the actor sleeps.
func (n *Conn) Hibernates() (bool, error) {
	c, err := n.get()
	return c.Hibernates, err
}

// Caller returns the caller that has made the connection, nil if nothing was said about it.
func (n *Conn) Caller() (*Caller, error) {
	c, err := n.get()
	return callerOf(c.Caller), err
}

// Parameters decodes what the client gave when it connected into what v points to.
func (n *Conn) Parameters(v any) error {
	c, err := n.get()
	if err != nil {
		return err
	}
	return Raw(c.Parameters).Decode(v)
}

// State decodes what the actor keeps about the connection into what v points to, which
// stays as it is if that was never set.
func (n *Conn) State(v any) error {
	c, err := n.get()
	if err != nil {
		return err
	}
	return Raw(c.State).Decode(v)
}

// SetState replaces what the actor keeps about the connection.
func (n *Conn) SetState(v any) error {
	r, err := encode(v)
	if err != nil {
		return err
	}
	return call(connSetState, abi.ConnState{ID: n.id, State: r}, nil)
}

// Subscribe has the connection get the events of that name that the actor broadcasts.
func (n *Conn) Subscribe(event string) error {
	return call(connSubscribe, abi.Subscription{ID: n.id, Event: event, On: true}, nil)
}

// Unsubscribe undoes Subscribe.
func (n *Conn) Unsubscribe(event string) error {
	return call(connSubscribe, abi.Subscription{ID: n.id, Event: event}, nil)
}

// Send sends an event to this connection's client, when the turn is durable.
func (n *Conn) Send(event string, v any) error {
	r, err := encode(v)
	if err != nil {
		return err
	}
	return call(connSend, abi.ConnEvent{ID: n.id, Event: event, Body: r}, nil)
}

// Disconnect ends the connection, with the turn.
func (n *Conn) Disconnect(reason string) error {
	return call(connDisconnect, abi.Parting{ID: n.id, Reason: reason}, nil)
}

// Broadcast sends an event to all connections that have subscribed to it, when the turn
// is durable.
func (c *Context) Broadcast(event string, v any) error {
	r, err := encode(v)
	if err != nil {
		return err
	}
	return call(broadcast, abi.Broadcast{Event: event, Body: r}, nil)
}
