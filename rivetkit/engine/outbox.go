package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// An outbox sends messages over a WebSocket in their order, and keeps those that wait. Its methods don't wait.
type outbox struct {
	ws      *websocket.Conn
	log     *slog.Logger
	limit   int      // of bytes that wait; 0 for none: what waits for a runner is in the accounts of clients
	account *account // of the client; nil for a runner

	mu      sync.Mutex
	queue   []message     // +checklocks:mu
	bytes   int           // reserved and not taken  +checklocks:mu
	room    chan struct{} // closed when bytes has become less; nil if nothing waits for that  +checklocks:mu
	writing bool          // +checklocks:mu
	slow    bool          // it is out of its actor's sequence until everything is written  +checklocks:mu
	ended   bool          // nothing is taken any more  +checklocks:mu
	failed  error         // why a message could not be written  +checklocks:mu
	code    websocket.StatusCode
	reason  string
}

type message struct {
	kind   websocket.MessageType
	data   []byte
	size   int                    // of data when it is encoded, about
	encode func() ([]byte, error) // makes data when the message's turn has come; nil if it is there
	done   func()                 // called when it is written, or won't be; nil for nothing
}

// send queues a message. If too much waits the socket is cut off.
func (o *outbox) send(m message) {
	if !o.reserve(m) || !o.queueUp(m) {
		go m.finish() // which may want locks that the caller has
	}
}

// reserve makes room for a message that is to be queued. If too much waits the socket is cut off, and the result is false.
func (o *outbox) reserve(m message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	o.bytes += m.size + 64
	if o.limit > 0 && o.bytes > o.limit || o.account != nil && !o.account.charge(m.cost()) {
		go o.drop(o.end()) // it is lost in any case
		return false
	}
	return true
}

// queueUp queues a message for which there is room, unless the socket has ended.
func (o *outbox) queueUp(m message) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	o.queue = append(o.queue, m)
	o.start()
	return true
}

// cost returns how many bytes the message is for the budget.
func (m message) cost() int64 { return int64(m.size) + 64 }

// isSlow reports whether the socket is out of its actor's sequence.
func (o *outbox) isSlow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slow
}

// fallBehind takes the socket out of its actor's sequence, until everything is written. It returns false if everything is.
func (o *outbox) fallBehind() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slow = o.writing
	return o.slow
}

// end takes no more, and returns the messages that won't be written.
//
// +checklocks:o.mu
func (o *outbox) end() []message {
	rest := o.queue
	o.ended, o.queue, o.bytes = true, nil, 0
	o.less()
	return rest
}

// failure returns why a message could not be written, nil if that didn't happen.
func (o *outbox) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// drop cuts the socket off, and drops messages.
func (o *outbox) drop(rest []message) {
	_ = o.ws.CloseNow()
	for _, m := range rest {
		m.finish()
	}
}

// finish says that the message is written, or won't be.
func (m message) finish() {
	if m.done != nil {
		m.done()
	}
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
		o.writing = true
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
		err := o.put(m)
		if o.account != nil {
			o.account.give(m.cost())
		}
		m.finish()
		if err != nil { // the reader of the socket hears of it
			o.mu.Lock()
			rest := o.end()
			o.writing, o.slow, o.failed = false, false, err
			o.mu.Unlock()
			o.drop(rest)
			return
		}
	}
}

// take returns the next message. Without one the writer ends, and with it the socket if it was closed.
func (o *outbox) take() (m message, ok bool) {
	o.mu.Lock()
	if len(o.queue) > 0 {
		m, o.queue[0] = o.queue[0], message{}
		o.queue = o.queue[1:]
		o.bytes -= m.size + 64
		o.less()
		o.mu.Unlock()
		return m, true
	}
	o.writing, o.slow, o.queue = false, false, nil
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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := time.AfterFunc(writeTimeout, cancel)
	defer late.Stop()
	if len(m.data) <= piece {
		defer o.await()()
		return o.ws.Write(ctx, m.kind, m.data)
	}
	w, err := o.ws.Writer(ctx, m.kind)
	for data := range slices.Chunk(m.data, piece) {
		if err == nil {
			late.Reset(writeTimeout)
			moved := o.await()
			_, err = w.Write(data)
			moved()
		}
	}
	if err == nil {
		err = w.Close()
	}
	return err
}

// await says that the engine waits for the peer, until the function that it returns is called.
func (o *outbox) await() (moved func()) {
	if o.account == nil {
		return func() {}
	}
	o.account.await(taking, true)
	return func() { o.account.await(taking, false) }
}

// less says that bytes has become less.
//
// +checklocks:o.mu
func (o *outbox) less() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// drain waits until at most n bytes wait, or the socket has ended.
func (o *outbox) drain(ctx context.Context, n int) {
	for {
		o.mu.Lock()
		if o.ended || o.bytes <= n {
			o.mu.Unlock()
			return
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return
		}
	}
}
