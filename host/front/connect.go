package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
	"github.com/greenroomdb/greenroom/internal/remote"
)

// serveConnect is a WebSocket, from its beginning to its end.
func (f *Front) serveConnect(w http.ResponseWriter, r *http.Request, from *host.Caller) {
	a, err := f.address(r)
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	if !asksForSocket(r) {
		f.refuse(w, r, errUpgrade)
		return
	}
	as, chosen, err := chooseProtocol(subprotocols(r))
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	if err := f.enter(); err != nil {
		f.refuse(w, r, err)
		return
	}
	defer f.leave()
	// It is asked again when the client has said what it wants.
	if err := f.reserve(&f.open, f.opts.MaxSockets); err != nil {
		f.refuse(w, r, err)
		return
	}
	f.release(&f.open)
	// Where the page comes from was checked before.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: chosen, InsecureSkipVerify: true})
	if err != nil {
		return // it has answered
	}
	ws.SetReadLimit(f.opts.MaxBody)
	s := &socket{front: f, ws: ws, as: as, from: remote.Addr(r), ctx: withCaller(f.ctx, from), to: a, held: true}
	if from != nil {
		s.asks = r
	}
	f.serveSocket(s, a, r.URL.EscapedPath())
}

// A linkServer serves the links of other hosts' clients.
type linkServer struct{ *Front }

// serve is a link, from its beginning to its end.
func (f linkServer) serve(w http.ResponseWriter, r *http.Request) {
	from, a, path, ok := f.opts.Fleet.Accept(w, r, f.host)
	if !ok {
		return
	}
	if err := f.enter(); err != nil {
		f.refuse(w, r, err)
		return
	}
	defer f.leave()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the request was verified
	if err != nil {
		return // it has answered
	}
	ws.SetReadLimit(linkBytes)
	ctx := host.WithoutForwarding(withCaller(f.ctx, host.CallerOf(from)))
	f.serveSocket(&socket{front: f.Front, ws: ws, as: mediaCBOR, from: remote.Addr(r), ctx: ctx, to: a, held: true, carried: true}, a, path)
}

// serveSocket connects a client, and serves it until its socket is closed.
func (f *Front) serveSocket(s *socket, a host.Address, path string) {
	defer s.active.Wait() // nothing starts once the socket has an end
	c := &client{socket: s, actor: a, path: path}
	if !s.carried && f.opts.Fleet != nil {
		s.resumes = c.moved
	}
	r, err := c.first()
	if err == nil {
		err = f.reserve(&f.open, f.opts.MaxSockets)
	}
	if err != nil {
		s.refuse(err)
		return
	}
	defer f.release(&f.open)
	if err := c.connect(r); err != nil {
		c.unlink()
		s.refuse(err)
		return
	}
	if !f.enlist(s) { // Shutdown has begun, and doesn't know of it
		s.drain()
	}
	defer f.delist(s)
	s.watch()
	c.part(c.read())
	f.meter.Count(metricClosed, 1)
}

// refuse tells the client why it isn't connected, and ends the socket.
func (s *socket) refuse(err error) {
	s.front.note(s.ctx, "connect", "", err)
	code := wire.CloseRefused
	if errors.Is(err, errMessage) {
		code = wire.CloseBad
	}
	s.welcome(s.failure(0, err))
	s.finish(code, host.Code(err))
	// What the client sends now is of no use, but its close frame has to be read.
	s.drainReads()
}

// drainReads reads until the socket is closed.
func (s *socket) drainReads() {
	for {
		if _, _, err := s.ws.Read(s.ctx); err != nil {
			return
		}
	}
}

// A client is the other end of a socket: a connection of an actor.
type client struct {
	*socket
	actor  host.Address
	path   string // of the request
	joined host.Joined
	stays  bool // the connection hibernates

	link  *link          // to the actor's host; nil if that is this one  +checklocks:mu
	links sync.WaitGroup // goroutines of links
}

// connect makes the connection that the first message asks for, or takes it up again.
func (c *client) connect(r *wire.Request) (err error) {
	switch r.Type {
	case wire.TypeConnect:
		ctx, cancel := context.WithTimeout(c.ctx, c.front.opts.CallTimeout)
		defer cancel()
		c.stays = r.Hibernate == nil || *r.Hibernate
		return c.front.host.Follow(ctx, c.actor, func(ctx context.Context) error { return c.join(ctx, r) },
			func(ctx context.Context, to *actorstore.HostInfo) error { return c.reach(ctx, to, r) })
	case wire.TypeResume:
		j, err := c.front.resumed(c.actor, r.Conn, r.Token)
		if err != nil {
			return err
		}
		// No time limit of its own: were it over while the turn runs, a socket that is gone
		// could be attached later.
		return c.front.host.Follow(c.ctx, c.actor, func(ctx context.Context) error { return c.rejoin(ctx, r, j) },
			func(ctx context.Context, to *actorstore.HostInfo) error { c.stays = true; return c.reach(ctx, to, r) })
	}
	return errMessage
}

// reach makes the connection by a link to another host.
func (c *client) reach(ctx context.Context, to *actorstore.HostInfo, r *wire.Request) error {
	l, hello, err := c.dial(ctx, to, r)
	if err != nil {
		return err
	}
	c.joined = host.Joined{ID: hello.Conn}
	if c.stays {
		if c.joined, err = c.front.resumed(c.actor, hello.Conn, hello.Token); err != nil {
			_ = l.ws.CloseNow() // the other host has another secret
			return err
		}
	}
	c.relink(l)
	c.front.meter.Count(metricLinked, 1)
	c.welcome(&wire.Response{Type: wire.TypeConnected, Conn: hello.Conn, Token: hello.Token})
	select {
	case <-l.ended: // before it was the client's
		c.unlinked(l)
	default:
	}
	return nil
}

// first reads the first message. A client that leaves before it, or breaks the rules of
// WebSockets, doesn't concern the server's operator.
func (c *client) first() (*wire.Request, error) {
	r, err := c.receive(true)
	var told *host.Error
	if err != nil && !errors.As(err, &told) && !errors.Is(err, host.ErrClosed) && c.ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errCut, err)
	}
	return r, err
}

// receive reads a message, for whose beginning the client has as long as it likes unless
// it is the first one. A socket that is closed, or becomes so for what was sent, is an
// error that isn't errMessage.
func (c *client) receive(first bool) (*wire.Request, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ts := &c.front.transfers
	t := &transfer{from: c.from, early: first, grace: c.front.opts.HeaderTimeout, cut: cancel}
	if first {
		ts.begin(t)
	}
	frame, from, err := c.ws.Reader(ctx)
	if err != nil {
		if first {
			err = cmp.Or(t.end(nil), err)
		}
		return nil, err
	}
	if !first {
		ts.begin(t)
	}
	data, err := t.read(from)
	if err != nil {
		return nil, err
	}
	r := &wire.Request{}
	if frame != c.as.frame() || c.as.decode(data, r) != nil || r.Type == wire.TypeMoved {
		return nil, errMessage
	}
	if !c.carried {
		r.Caller = nil
	}
	return r, nil
}

func (c *client) join(ctx context.Context, r *wire.Request) (err error) {
	c.joined, err = c.front.host.Join(ctx, &host.Join{
		Actor: c.actor, Transport: c.socket, Parameters: host.Raw(r.Params), Hibernate: c.stays, Path: c.path,
	})
	if err != nil {
		return err
	}
	c.front.meter.Count(metricOpened, 1)
	hello := &wire.Response{Type: wire.TypeConnected, Conn: c.joined.ID}
	if c.stays {
		hello.Token = c.front.resumeToken(c.actor, c.joined)
	}
	c.welcome(hello)
	return nil
}

func (c *client) rejoin(ctx context.Context, r *wire.Request, j host.Joined) error {
	if _, err := c.front.host.Rejoin(ctx, c.actor, j, c.socket); err != nil {
		if errors.Is(err, host.ErrUnknownOutcome) {
			// It may be attached: then it is as if its client were lost.
			c.joined, c.stays = j, true
			c.away()
		}
		return err
	}
	c.joined, c.stays = j, true
	c.front.meter.Count(metricResumed, 1)
	c.welcome(&wire.Response{Type: wire.TypeConnected, Conn: j.ID, Token: r.Token})
	return nil
}

// part ends the connection, or says that its client is away, as the socket was closed:
// with code 1000 by the client it is over, and otherwise the client may come back.
func (c *client) part(err error) {
	c.mu.Lock()
	gone, ours := c.gone, c.end != nil
	if c.end == nil {
		c.end = &ending{websocket.StatusAbnormalClosure, ""}
	}
	c.mu.Unlock()
	_ = c.ws.CloseNow()
	// What the client has asked for before it went is done first.
	c.stop()
	c.active.Wait()
	defer c.unlink()
	switch {
	case gone:
	case !c.stays, !ours && websocket.CloseStatus(err) == websocket.StatusNormalClosure:
		c.leave()
	default:
		c.away()
	}
}

// unlink ends the link, if there is one: to the other host the client is away then.
func (c *client) unlink() {
	c.relink(nil)
	c.links.Wait()
}

// leave ends the connection.
func (c *client) leave() {
	ctx, cancel := context.WithTimeout(c.ctx, c.front.opts.CallTimeout)
	defer cancel()
	err := c.front.host.Leave(ctx, c.actor, c.joined.ID, "the client has left")
	if err == nil || errors.Is(err, host.ErrNoConn) {
		return
	}
	c.front.note(c.ctx, "disconnect", c.actor.String(), err)
	if c.stays {
		c.away() // the host disconnects it later
	}
}

// away says that the client may come back.
func (c *client) away() { c.front.host.Away(c.actor, c.joined.ID, c.socket) }
