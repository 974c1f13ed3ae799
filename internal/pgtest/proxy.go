//go:build unix

package pgtest

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pglocal"
)

// A Proxy stands between a client and its server, and can keep back what one of them
// sends. When one side ends a connection the other side's ends too, unless bytes of that
// direction are kept back.
type Proxy struct {
	t      testing.TB
	l      net.Listener
	server string

	mu    sync.Mutex
	links []*Link // +checklocks:mu
	// What new and open links do with what comes from the client and from the server.
	up, down Flow          // +checklocks:mu
	changed  chan struct{} // closed when up or down changes  +checklocks:mu
	passes   int           // bytes that go up before any are held  +checklocks:mu
	next     *cut          // of the next link, nil for none  +checklocks:mu
}

// A Flow is what a link does with the bytes of one direction.
type Flow int

// What a link does.
const (
	// Pass passes them on.
	Pass Flow = iota
	// Hold keeps what the client sends until it is let go, and loses what the server
	// does.
	Hold
	// Stall passes on what either side has sent, the end of a connection too, when the flow
	// changes, as a network does that loses every packet for a while.
	Stall
)

// A Link is one connection through a proxy.
type Link struct {
	p              *Proxy
	client, server net.Conn
	mu             sync.Mutex
	held           []byte // from the client  +checklocks:mu
	gotHeld        chan struct{}
	once           sync.Once
	cut            *cut // nil for a link that doesn't break by itself
}

// A cut is where a link breaks.
type cut struct {
	after int // bytes that come down before; only the link's goroutine looks
	done  atomic.Bool
}

// NewProxy returns a proxy to the server of an address, and the address to reach it
// by.
func NewProxy(t testing.TB, address string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, l: l, server: u.Host, changed: make(chan struct{})}
	t.Cleanup(func() {
		l.Close()
		p.Set(Pass, Pass)
		p.Cut(true)
	})
	go p.serve()
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *Proxy) serve() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.server)
		if err != nil {
			c.Close()
			continue
		}
		k := &Link{p: p, client: c, server: s, gotHeld: make(chan struct{})}
		p.mu.Lock()
		k.cut, p.next = p.next, nil
		p.links = append(p.links, k)
		p.mu.Unlock()
		go k.upward()
		go k.downward()
	}
}

// Set changes what is kept back.
func (p *Proxy) Set(up, down Flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(up, down, 0)
}

// change sets the flows, and how many bytes still go up. Called with the lock held.
func (p *Proxy) change(up, down Flow, passes int) {
	p.up, p.down, p.passes = up, down, passes
	close(p.changed)
	p.changed = make(chan struct{})
}

// HoldAfter lets n more bytes of what clients send through, and then holds.
func (p *Proxy) HoldAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(Hold, p.down, n)
}

// through returns how many of n bytes go up, and whether all that follows does.
func (p *Proxy) through(n int) (through int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up != Hold {
		return n, true
	}
	through = min(n, p.passes)
	p.passes -= through
	return through, false
}

// now returns what is done with what has come in a direction, &p.up or &p.down, when that
// isn't to stall.
func (p *Proxy) now(direction *Flow) Flow {
	for {
		p.mu.Lock()
		flow, changed := *direction, p.changed
		p.mu.Unlock()
		if flow != Stall {
			return flow
		}
		<-changed
	}
}

// CutAfter has the next link break when n bytes have come down and one more would, as if
// the server's machine went away: the client's side is reset. What it returns tells
// whether that has happened.
func (p *Proxy) CutAfter(n int) (done func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = &cut{after: n}
	return p.next.done.Load
}

// Cut breaks the clients' side of all links, and the servers' side too if asked, and
// returns them.
func (p *Proxy) Cut(both bool) []*Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := p.links
	p.links = nil
	for _, k := range links {
		k.client.Close()
		if both {
			k.server.Close()
		}
	}
	return links
}

// Reset breaks all links at once: both sides are told by a reset.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.links {
		k.reset()
	}
	p.links = nil
}

// upward carries what the client sends.
func (k *Link) upward() {
	buf := make([]byte, 64<<10)
	for {
		n, err := k.client.Read(buf)
		k.p.now(&k.p.up)
		if n > 0 {
			if k.take(buf[:n]) != nil {
				return
			}
		}
		if err != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			if len(k.held) == 0 {
				k.server.Close()
			}
			return
		}
	}
}

// take passes on what the client has sent, or keeps it.
func (k *Link) take(b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, all := k.p.through(len(b))
	if !all && n < len(b) || len(k.held) > 0 {
		defer k.once.Do(func() { close(k.gotHeld) })
	}
	if all || len(k.held) == 0 {
		k.held = append(k.held, b[:n]...)
		if err := k.flush(); err != nil {
			return err
		}
		b = b[n:]
	}
	k.held = append(k.held, b...)
	return nil
}

// flush sends what was kept back. Called with the lock held.
func (k *Link) flush() error {
	if len(k.held) == 0 {
		return nil // and the link may be closed
	}
	_, err := k.server.Write(k.held)
	k.held = k.held[:0]
	return err
}

// Resume lets everything through again, and what was kept back first.
func (p *Proxy) Resume() {
	p.mu.Lock()
	p.change(Pass, Pass, 0)
	links := append([]*Link(nil), p.links...)
	p.mu.Unlock()
	for _, k := range links {
		k.mu.Lock()
		if err := k.flush(); err != nil {
			p.t.Errorf("pgtest: what was kept back: %v", err)
		}
		k.mu.Unlock()
	}
}

// downward carries what the server sends; what it keeps back is lost.
func (k *Link) downward() {
	buf := make([]byte, 64<<10)
	for {
		n, err := k.server.Read(buf)
		flow := k.p.now(&k.p.down)
		b, breaks := k.until(buf[:n])
		if len(b) > 0 {
			if flow == Hold {
				k.once.Do(func() { close(k.gotHeld) })
			} else if _, err := k.client.Write(b); err != nil && !errors.Is(err, net.ErrClosed) {
				return
			}
		}
		if breaks {
			k.cut.done.Store(true)
			k.reset()
			return
		}
		if err != nil {
			if flow == Pass {
				k.client.Close()
			}
			return
		}
	}
}

// until returns what of b still comes down, and whether the link breaks then.
func (k *Link) until(b []byte) (comes []byte, breaks bool) {
	if k.cut == nil {
		return b, false
	}
	n := min(len(b), k.cut.after)
	k.cut.after -= n
	return b[:n], n < len(b)
}

// reset breaks the link.
func (k *Link) reset() {
	for _, side := range []net.Conn{k.client, k.server} {
		if err := side.(*net.TCPConn).SetLinger(0); err != nil && !errors.Is(err, net.ErrClosed) {
			k.p.t.Errorf("pgtest: %v", err)
		}
		side.Close()
	}
}

// LetGo sends what was kept back to the server, and reads all of its answer.
func (k *Link) LetGo() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) == 0 {
		return nil
	}
	if _, err := k.server.Write(k.held); err != nil {
		return err
	}
	k.held = nil
	if err := k.server.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, k.server)
	return err
}

// Await waits until some link has kept something back.
func (p *Proxy) Await() {
	p.t.Helper()
	must(p.t, pglocal.Poll(func() (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, k := range p.links {
			select {
			case <-k.gotHeld:
				return true, nil
			default:
			}
		}
		return false, nil
	}))
}
