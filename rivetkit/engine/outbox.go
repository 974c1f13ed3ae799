package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// writeTimeout is how long a peer may take to take one message.
const writeTimeout = 30 * time.Second

// An outbox sends messages over a WebSocket in their order, and keeps those that wait. Its methods don't wait.
type outbox struct {
	ws    *websocket.Conn
	log   *slog.Logger
	limit int // of bytes that wait

	mu      sync.Mutex
	queue   []message     // +checklocks:mu
	bytes   int           // +checklocks:mu
	writing bool          // +checklocks:mu
	idle    chan struct{} // closed when writing ends  +checklocks:mu
	ended   bool          // nothing is taken any more  +checklocks:mu
	code    websocket.StatusCode
	reason  string
}

type message struct {
	kind   websocket.MessageType
	data   []byte
	size   int                    // of data when it is encoded, about
	encode func() ([]byte, error) // makes data when the message's turn has come; nil if it is there
}

// send queues a message. If too much waits the socket is cut off.
func (o *outbox) send(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.bytes += m.size + 64
	if o.bytes > o.limit {
		o.ended, o.queue = true, nil
		go func() { _ = o.ws.CloseNow() }() // it is lost in any case
		return
	}
	o.queue = append(o.queue, m)
	o.start()
}

// close closes the socket when everything that was queued is sent.
func (o *outbox) close(code websocket.StatusCode, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.ended, o.code, o.reason = true, code, reason[:min(len(reason), 123)]
	o.start()
}

// +checklocks:o.mu
func (o *outbox) start() {
	if !o.writing {
		o.writing, o.idle = true, make(chan struct{})
		go o.write()
	}
}

// write sends until there is nothing to send.
func (o *outbox) write() {
	for {
		m, ok := o.take()
		if !ok {
			return
		}
		if err := o.put(m); err != nil { // the reader of the socket hears of it
			o.mu.Lock()
			o.ended, o.queue, o.writing = true, nil, false
			close(o.idle)
			o.mu.Unlock()
			_ = o.ws.CloseNow()
			return
		}
	}
}

// take returns the next message. If there is none the writer ends, and with it the socket if it was closed.
func (o *outbox) take() (m message, ok bool) {
	o.mu.Lock()
	if len(o.queue) > 0 {
		m, o.queue[0] = o.queue[0], message{}
		o.queue = o.queue[1:]
		o.bytes -= m.size + 64
		o.mu.Unlock()
		return m, true
	}
	o.writing, o.queue = false, nil
	close(o.idle)
	ended, code, reason := o.ended, o.code, o.reason
	o.mu.Unlock()
	if ended && code != 0 {
		_ = o.ws.Close(code, reason) // the peer has gone, or goes
	}
	return m, false
}

// put writes a message.
func (o *outbox) put(m message) (err error) {
	if m.encode != nil {
		if m.data, err = m.encode(); err != nil {
			o.log.Error("engine: encode a message", slog.Any("error", err))
			return nil // the others are good
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return o.ws.Write(ctx, m.kind, m.data)
}

// inStep is how long messages to other clients wait for a message to one.
const inStep = 20 * time.Millisecond

// wait returns when everything is sent, or the client is slow. So clients that aren't get what an actor sends
// in the order in which it sends it, over whichever socket.
func (o *outbox) wait() {
	o.mu.Lock()
	idle, slow := o.idle, !o.writing || len(o.queue) > 8
	o.mu.Unlock()
	if slow {
		return
	}
	timer := time.NewTimer(inStep)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}
