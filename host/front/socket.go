package front

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// A socket is a client's WebSocket, and the host.Transport of its connection. What is to
// be sent goes into a bounded queue, which a goroutine empties that exists only while
// there is something in it; so that a socket that is silent costs the goroutine that
// reads, and no more.
type socket struct {
	front *Front
	ws    *websocket.Conn
	as    media
	from  netip.Addr      // where the client is
	ctx   context.Context // ends when the socket is given up; with the caller
	asks  *http.Request   // about which Options.Authorize is asked; nil for a client that may do anything
	to    host.Address    // the actor
	// resumes resumes the connection where its actor is; nil for a client that another host has.
	resumes func()
	// carried says that the client is another host's, for a client of its own: see link.
	carried bool

	mu      sync.Mutex
	queue   []outgoing // +checklocks:mu
	size    int        // bytes in queue  +checklocks:mu
	held    bool       // nothing leaves before the client knows that it is connected  +checklocks:mu
	writing bool       // the goroutine of write runs  +checklocks:mu
	end     *ending    // what the socket is closed with when the queue is empty  +checklocks:mu
	gone    bool       // the host closed it: its connection ended, or has another socket  +checklocks:mu

	pending  []wire.Request // of the client, in their order  +checklocks:mu
	serving  bool           // a goroutine does them  +checklocks:mu
	draining bool           // no more are taken  +checklocks:mu
	heard    time.Time      // when the client asked for something last  +checklocks:mu
	pinger   *time.Timer    // +checklocks:mu

	active sync.WaitGroup // goroutines of the socket, but for the one that reads
}

var (
	_ host.Transport = (*socket)(nil)
	_ host.Mover     = (*socket)(nil)
)

// An outgoing is a message in the queue: an event, which is encoded when its turn comes, or
// a response.
type outgoing struct {
	event host.Event
	reply *wire.Response
}

// An ending is how a socket is closed.
type ending struct {
	code   websocket.StatusCode
	reason string
}

// overhead is what a queued message counts besides its value.
const overhead = 128

// Send implements host.Transport.
func (s *socket) Send(e host.Event) { s.push(outgoing{event: e}, len(e.Name)+len(e.Body)) }

// Close implements host.Transport.
func (s *socket) Close(reason string) {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.finish(wire.CloseGone, reason)
}

// Moved implements host.Mover: a request of the host's own is put behind those of the client.
func (s *socket) Moved() {
	if s.resumes != nil {
		s.resumes()
	}
}

// reply sends a response.
func (s *socket) reply(r *wire.Response) { s.push(outgoing{reply: r}, len(r.Body)) }

// replyError answers a request with an error.
func (s *socket) replyError(id uint64, err error) {
	s.reply(s.failure(id, err))
}

// failure returns the answer to a request with an error; id is 0 for the first one.
func (s *socket) failure(id uint64, err error) *wire.Response {
	r := &wire.Response{Type: wire.TypeError, ID: id, Code: host.Code(err), Message: host.Message(err)}
	if s.carried {
		r.Fault = host.TellError(err)
	}
	return r
}

// push puts a message into the queue. A socket whose queue has grown too long is cut off:
// the queued messages are lost, and so are later ones.
func (s *socket) push(o outgoing, size int) {
	size += overhead
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return
	}
	opts := &s.front.opts
	// One message may be larger than all that may wait.
	if len(s.queue) >= opts.MaxQueued || len(s.queue) > 0 && s.size+size > opts.MaxQueuedBytes {
		s.front.meter.Count(metricSlow, 1)
		s.queue, s.size = nil, 0
		s.end = &ending{wire.CloseSlow, "what was sent was not read in time"}
	} else {
		s.queue = append(s.queue, o)
		s.size += size
	}
	s.start()
}

// start starts the goroutine of write if it doesn't run and is needed.
//
// +checklocks:s.mu
func (s *socket) start() {
	if !s.writing && (!s.held || s.end != nil) {
		s.writing = true
		s.active.Go(s.write)
	}
}

// welcome sends the first message, before all that has been sent meanwhile.
func (s *socket) welcome(r *wire.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	s.queue = append([]outgoing{{reply: r}}, s.queue...)
	s.size += overhead
	s.start()
}

// finish closes the socket when what is in the queue has been sent. The first one says
// with what. It doesn't wait.
func (s *socket) finish(code websocket.StatusCode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = &ending{code, closeReason(reason)}
		s.start()
	}
}

// closeReason returns what a close frame takes of a text: 123 bytes of UTF-8.
func closeReason(text string) string {
	const limit = 123
	text = strings.ToValidUTF8(text, "?")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}

// write empties the queue, and then closes the socket if it is to be closed.
func (s *socket) write() {
	var batch []outgoing
	for {
		s.mu.Lock()
		clear(batch)
		batch, s.queue, s.size = s.queue, batch[:0], 0
		end := s.end
		if len(batch) == 0 && end == nil {
			s.writing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for i := range batch {
			if err := s.writeOne(&batch[i]); err != nil {
				s.abandon()
				return
			}
			if s.cutOff() {
				break
			}
		}
		if len(batch) == 0 {
			// The client knows, or can't be told: either way reading ends.
			_ = s.ws.Close(end.code, end.reason)
			return
		}
	}
}

// cutOff says whether the client was too slow meanwhile, so that the rest is lost.
func (s *socket) cutOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end != nil && s.end.code == wire.CloseSlow
}

func (s *socket) writeOne(o *outgoing) error {
	r := o.reply
	if r == nil {
		r = &wire.Response{Type: wire.TypeEvent, Event: o.event.Name, Body: wire.Value(o.event.Body)}
	}
	b, err := s.as.encode(r)
	if err != nil {
		s.front.note(s.ctx, "encode for a socket", r.Event, err)
		if r.Type != wire.TypeResult {
			return nil // an event that can't be one is lost
		}
		if b, err = s.as.encode(&wire.Response{Type: wire.TypeError, ID: r.ID, Code: host.Code(err), Message: host.Message(err)}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.front.opts.WriteTimeout)
	defer cancel()
	if err := s.ws.Write(ctx, s.as.frame(), b); err != nil {
		return err
	}
	if r.Type == wire.TypeEvent {
		s.front.meter.Count(metricEvents, 1)
	}
	return nil
}

// abandon closes the socket at once, and drops its queue. If the writer calls it, writing
// stays set, so that no other one starts.
func (s *socket) abandon() {
	s.mu.Lock()
	s.queue, s.size = nil, 0
	if s.end == nil {
		s.end = &ending{websocket.StatusAbnormalClosure, ""}
	}
	s.mu.Unlock()
	_ = s.ws.CloseNow() // the caller can't do anything about it
}

// watch begins to ping the client, and stop ends it.
func (s *socket) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	s.pinger = time.AfterFunc(s.front.opts.PingInterval, s.ping)
}

func (s *socket) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinger != nil {
		s.pinger.Stop()
		s.pinger = nil
	}
}

// ping looks whether the client is still there. It is called by the timer.
func (s *socket) ping() {
	s.mu.Lock()
	if s.pinger == nil {
		s.mu.Unlock()
		return
	}
	s.active.Add(1)
	defer s.active.Done()
	idle := s.front.opts.SocketIdle
	idled := idle > 0 && time.Since(s.heard) >= idle && !s.serving
	s.mu.Unlock()
	if idled {
		s.front.meter.Count(metricSilent, 1)
		s.finish(wire.CloseSilent, "nothing was asked for")
		return
	}
	if err := s.stillMay(); err != nil {
		s.front.note(s.ctx, "a socket that is open", s.to.String(), err)
		s.replyError(0, err)
		s.finish(wire.CloseRefused, host.Code(err))
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.front.opts.PongTimeout)
	defer cancel()
	err := s.ws.Ping(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		// It would be told in vain.
		s.front.meter.Count(metricSilent, 1)
		s.abandon()
	}
	if err != nil { // else it is being closed
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinger != nil {
		s.pinger.Reset(s.front.opts.PingInterval)
	}
}

// stillMay says why the client may not have the socket any more: its token has ended, perhaps. An answer that can't be had now isn't taken for a refusal.
func (s *socket) stillMay() error {
	if s.asks == nil {
		return nil
	}
	_, err := s.front.guard.admit(s.ctx, s.asks, &Access{Kind: AccessConnect, Actor: s.to})
	switch host.Code(err) {
	case "unavailable", "timeout", "cancelled":
		return nil
	}
	return err
}
