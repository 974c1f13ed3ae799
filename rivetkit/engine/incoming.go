package engine

import (
	"context"
	"time"

	"github.com/coder/websocket"
)

// An incoming reads what a client sends, one message ahead.
type incoming struct {
	ctx      context.Context
	ws       *websocket.Conn
	account  *account
	messages chan received // closed at the end
	err      error         // why it has ended; set before that
	first    *received     // came before the actor had taken the socket
}

type received struct {
	binary bool
	data   []byte
}

// messageTimeout is how long a message may take to come, from its first byte on.
const messageTimeout = time.Minute

func (in *incoming) read() {
	defer close(in.messages)
	for {
		m, err := in.next()
		if err != nil {
			in.err = err
			return
		}
		select {
		case in.messages <- m:
		case <-in.ctx.Done():
			in.err = in.ctx.Err()
			return
		}
	}
}

// next reads a message. Its bytes are the account's.
func (in *incoming) next() (m received, err error) {
	ctx, cancel := context.WithCancel(in.ctx)
	defer cancel()
	kind, r, err := in.ws.Reader(ctx)
	if err != nil {
		return m, err
	}
	late := time.AfterFunc(messageTimeout, cancel)
	defer late.Stop()
	data, err := in.account.read(ctx, r, -1)
	return received{kind == websocket.MessageBinary, data}, err
}
