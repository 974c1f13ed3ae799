package engine

import (
	"context"

	"github.com/coder/websocket"
)

// An incoming reads what a client sends, one message ahead.
type incoming struct {
	ctx      context.Context
	ws       *websocket.Conn
	messages chan received // closed at the end
	err      error         // why it has ended; set before that
	first    *received     // came before the actor had taken the socket
}

type received struct {
	binary bool
	data   []byte
}

func (in *incoming) read() {
	defer close(in.messages)
	for {
		kind, data, err := in.ws.Read(in.ctx)
		if err != nil {
			in.err = err
			return
		}
		select {
		case in.messages <- received{kind == websocket.MessageBinary, data}:
		case <-in.ctx.Done():
			in.err = in.ctx.Err()
			return
		}
	}
}
