package wasm

import (
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// connFunctions are those for the actor's connections.
var connFunctions = []function{
	{name: "conn_list", body: nothing(connList)},
	{name: "conn_get", body: with(connGet)},
	{name: "conn_set_state", keep: true, body: with(connSetState)},
	{name: "conn_subscribe", keep: true, body: with(connSubscribe)},
	{name: "conn_send", keep: true, body: with(connSend)},
	{name: "conn_disconnect", keep: true, body: with(connDisconnect)},
	{name: "broadcast", keep: true, body: with(broadcast)},
}

func connList(c *call) (any, error) {
	ids := []string{}
	for _, n := range c.host.Connections() {
		ids = append(ids, string(n.ID()))
	}
	return ids, nil
}

func (c *call) conn(id string) (*host.Conn, error) {
	if n := c.host.FindConn(conn.ID(id)); n != nil {
		return n, nil
	}
	return nil, host.ErrNoConn
}

func connGet(c *call, id *string) (any, error) {
	n, err := c.conn(*id)
	if err != nil {
		return nil, err
	}
	var parameters, state host.Raw
	if err := n.Parameters(&parameters); err != nil {
		return nil, err
	}
	if err := n.State(&state); err != nil {
		return nil, err
	}
	return abi.Conn{ID: *id, Hibernates: n.Hibernates(), Parameters: abi.Raw(parameters), State: abi.Raw(state), Caller: callerOf(n.Caller())}, nil
}

func connSetState(c *call, s *abi.ConnState) (any, error) {
	n, err := c.conn(s.ID)
	if err != nil {
		return nil, err
	}
	return nil, n.SetState(host.Raw(s.State))
}

func connSubscribe(c *call, s *abi.Subscription) (any, error) {
	n, err := c.conn(s.ID)
	switch {
	case err != nil:
		return nil, err
	case s.On:
		return nil, n.Subscribe(s.Event)
	}
	return nil, n.Unsubscribe(s.Event)
}

func connSend(c *call, e *abi.ConnEvent) (any, error) {
	n, err := c.conn(e.ID)
	if err != nil {
		return nil, err
	}
	return nil, n.Send(e.Event, host.Raw(e.Body))
}

func connDisconnect(c *call, p *abi.Parting) (any, error) {
	n, err := c.conn(p.ID)
	if err != nil {
		return nil, err
	}
	return nil, n.Disconnect(clip(p.Reason, maxText))
}

func broadcast(c *call, e *abi.Broadcast) (any, error) {
	return nil, c.host.Broadcast(e.Event, host.Raw(e.Body))
}
