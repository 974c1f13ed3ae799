package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// A client whose actor is at another host has a link: a socket to the Front of that host, on which this one is the client. The messages are the same, in CBOR,
// with the caller of each request and all that is known of an error. When a link ends, or the actor moves, the client's connection is resumed where the actor
// is then, and the client's own socket stays open.
type link struct {
	to      *actorstore.HostInfo
	ws      *websocket.Conn
	asked   uint64              // requests; of the goroutine of client.serve
	answers chan *wire.Response // has room for one
	ended   chan struct{}
	err     error // why; written before ended is closed
}

const (
	// resumeFor bounds the attempts to resume a connection after the end of its link: longer than the lease of a host that has died, as a rule.
	resumeFor = 20 * time.Second
	// resumePause is how long to wait in between.
	resumePause = 250 * time.Millisecond
)

// errLink says that a link was asked for something after its end.
var errLink = errors.New("front: the socket to the actor's host has ended")

// dial opens a link with a first message, and returns it with the answer.
func (c *client) dial(ctx context.Context, to *actorstore.HostInfo, first *wire.Request) (*link, *wire.Response, error) {
	ws, err := c.front.opts.Fleet.Dial(ctx, to, c.actor, c.path)
	if err != nil {
		return nil, nil, err
	}
	ws.SetReadLimit(linkBytes)
	l := &link{to: to, ws: ws, answers: make(chan *wire.Response, 1), ended: make(chan struct{})}
	c.links.Go(func() { l.read(c) })
	r, err := l.ask(ctx, c, first)
	if err != nil {
		_ = ws.CloseNow() // it has told the error
		return nil, nil, err
	}
	return l, r, nil
}

// linkBytes bounds a message of a link.
const linkBytes = 64 << 20

// ask sends a request, and waits for its answer.
func (l *link) ask(ctx context.Context, c *client, r *wire.Request) (*wire.Response, error) {
	l.asked++
	sent := *r
	sent.ID = l.asked
	if from := host.CallerOf(ctx); from != nil {
		text, err := json.Marshal(from)
		if err != nil {
			return nil, fmt.Errorf("%w: the caller: %w", host.ErrArgs, err)
		}
		sent.Caller = text
	}
	text, err := mediaCBOR.encode(&sent)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrArgs, err)
	}
	select {
	case <-l.ended:
		return nil, fmt.Errorf("%w: %w", host.ErrUnreachable, errLink)
	default:
	}
	if err := l.ws.Write(ctx, websocket.MessageBinary, text); err != nil {
		_ = l.ws.CloseNow() // so that reading ends, which may have an answer, or say why
	}
	for {
		got, err := l.next(ctx)
		switch {
		case websocket.CloseStatus(err) == websocket.StatusServiceRestart:
			// The host has answered what it had taken, and takes no more.
			return nil, host.ToldError(l.to, host.TellError(host.ErrClosed))
		case err != nil:
			return nil, fmt.Errorf("%w: host %q: %w", host.ErrUnknownOutcome, l.to.Name, err)
		case got.Type == wire.TypeConnected:
			return got, nil
		case got.ID != l.asked && got.ID != 0:
			continue // to one for which its caller didn't wait
		case got.Type != wire.TypeError:
			return got, nil
		case len(got.Fault) > 0:
			return nil, host.ToldError(l.to, got.Fault)
		}
		return nil, &host.Error{Code: got.Code, Message: got.Message}
	}
}

// next returns the next answer, also if the link has ended behind it.
func (l *link) next(ctx context.Context) (*wire.Response, error) {
	select {
	case got := <-l.answers:
		return got, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.ended:
	}
	select {
	case got := <-l.answers:
		return got, nil
	default:
		return nil, l.err
	}
}

// read takes what the other host sends, until the link ends.
func (l *link) read(c *client) {
	for {
		_, text, err := l.ws.Read(c.ctx)
		r := &wire.Response{}
		if err == nil {
			err = mediaCBOR.decode(text, r)
		}
		if err != nil {
			l.err = err
			close(l.ended)
			c.unlinked(l)
			return
		}
		if r.Type == wire.TypeEvent {
			c.Send(host.Event{Name: r.Event, Body: host.Raw(r.Body)})
			continue
		}
		select {
		case l.answers <- r:
		default: // one for which its caller didn't wait is still there
			select {
			case <-l.answers:
			default:
			}
			l.answers <- r
		}
	}
}

// unlinked goes on when a link has ended: the client is told if its connection is over, and else it is resumed.
func (c *client) unlinked(l *link) {
	c.mu.Lock()
	current := c.link == l
	c.mu.Unlock()
	if !current {
		return
	}
	var why websocket.CloseError
	if errors.As(l.err, &why) {
		switch why.Code {
		case wire.CloseGone:
			c.Close(why.Reason)
			return
		case wire.CloseSlow, wire.CloseRefused:
			c.finish(why.Code, why.Reason)
			return
		}
	}
	if !c.stays {
		c.Close("the actor has left its host")
		return
	}
	c.moved()
}

// moved resumes the connection where its actor is.
func (c *client) moved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return
	}
	c.pending = append(c.pending, wire.Request{Type: wire.TypeMoved})
	if !c.serving {
		c.serving = true
		c.active.Go(c.serve)
	}
}

// here makes sure that the connection is at this host.
func (c *client) here(ctx context.Context) error {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil {
		return nil
	}
	if _, err := c.front.host.Rejoin(ctx, c.actor, c.joined, c.socket); err != nil {
		return err
	}
	c.relink(nil)
	return nil
}

// there makes sure that the connection is at another host, and returns the link to it.
func (c *client) there(ctx context.Context, to *actorstore.HostInfo) (*link, error) {
	c.mu.Lock()
	old := c.link
	c.mu.Unlock()
	if old != nil && old.to.ID == to.ID {
		select {
		case <-old.ended:
		default:
			return old, nil
		}
	}
	if !c.stays {
		return nil, host.ErrNoConn
	}
	l, _, err := c.dial(ctx, to, &wire.Request{Type: wire.TypeResume, Conn: c.joined.ID, Token: c.front.resumeToken(c.actor, c.joined)})
	if err != nil {
		if errors.Is(err, host.ErrUnknownOutcome) { // it is only resumed once more
			err = fmt.Errorf("%w: %v", host.ErrUnreachable, err)
		}
		return nil, err
	}
	if old == nil {
		c.front.host.Release(c.actor, c.joined.ID, c.socket)
	}
	c.relink(l)
	return l, nil
}

// relink replaces the link, which ends.
func (c *client) relink(l *link) {
	c.mu.Lock()
	old := c.link
	c.link = l
	c.mu.Unlock()
	if old != nil && old != l {
		_ = old.ws.CloseNow() // the connection has another transport
	}
}

// follow does something with the connection where its actor is: near at this host, or far by a link.
func (c *client) follow(ctx context.Context, near func(ctx context.Context) error, far func(ctx context.Context, l *link) error) error {
	return c.front.host.Follow(ctx, c.actor, func(ctx context.Context) error {
		if err := c.here(ctx); err != nil {
			return err
		}
		return near(host.WithoutForwarding(ctx))
	}, func(ctx context.Context, to *actorstore.HostInfo) error {
		l, err := c.there(ctx, to)
		if err != nil {
			return err
		}
		return far(ctx, l)
	})
}

// resume resumes the connection where its actor is. If that can't be done the socket ends: its client may come back elsewhere.
func (c *client) resume() {
	ctx, cancel := context.WithTimeout(c.ctx, resumeFor)
	defer cancel()
	for {
		err := c.follow(ctx, func(ctx context.Context) error {
			_, err := c.front.host.Rejoin(ctx, c.actor, c.joined, c.socket) // which tells whether it is here
			return err
		}, func(context.Context, *link) error { return nil })
		if err == nil {
			return
		}
		if errors.Is(err, host.ErrNoConn) {
			c.Close("the connection is over")
			return
		}
		select {
		case <-time.After(resumePause):
		case <-ctx.Done():
			c.front.note(c.ctx, "resume", c.actor.String(), err)
			c.finish(websocket.StatusServiceRestart, "the actor's host is out of reach; come back")
			return
		}
	}
}
