package engine

import (
	"bytes"
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

// messageOverhead is what counts for a message beside its data, in bytes: what the engine knows of it takes memory, too.
const messageOverhead = 256

// cost returns how many bytes of the account the message has.
func (m received) cost() int64 { return int64(len(m.data)) + messageOverhead }

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

// next reads a message. Its cost is the account's.
func (in *incoming) next() (m received, err error) {
	ctx, cancel := context.WithCancel(in.ctx)
	defer cancel()
	kind, r, err := in.ws.Reader(ctx)
	if err != nil {
		return m, err
	}
	late := time.AfterFunc(messageTimeout, cancel)
	defer late.Stop()
	data, err := in.account.read(ctx, r, -1, messageOverhead)
	if len(data) <= messageOverhead {
		data = bytes.Clone(data) // what it was read into is larger
	}
	return received{kind == websocket.MessageBinary, data}, err
}
