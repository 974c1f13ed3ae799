//go:build unix

package pgkv

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// A proxy stands between a DB and its server, and can keep back what one of them
// sends.
type proxy struct {
	t      testing.TB
	l      net.Listener
	server string

	mu    sync.Mutex
	links []*link // +checklocks:mu
	// What new and open links do with what comes from the client and from the server.
	up, down flow1 // +checklocks:mu
}

// A flow1 is what a link does with the bytes of one direction.
type flow1 int

const (
	pass flow1 = iota
	hold       // keep them until they are let go
)

// A link is one connection through a proxy.
type link struct {
	p              *proxy
	client, server net.Conn
	mu             sync.Mutex
	held           []byte // from the client  +checklocks:mu
	gotHeld        chan struct{}
	once           sync.Once
}

// newProxy returns a proxy to the server of an address, and the address to reach it
// by.
func newProxy(t testing.TB, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, l: l, server: u.Host}
	t.Cleanup(func() {
		l.Close()
		p.cut(true)
	})
	go p.serve()
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) serve() {
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
		k := &link{p: p, client: c, server: s, gotHeld: make(chan struct{})}
		p.mu.Lock()
		p.links = append(p.links, k)
		p.mu.Unlock()
		go k.upward()
		go k.downward()
	}
}

// set changes what is kept back.
func (p *proxy) set(up, down flow1) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
}

func (p *proxy) kept() (up, down flow1) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up, p.down
}

// cut breaks the clients' side of all links, and the servers' side too if asked.
func (p *proxy) cut(both bool) []*link {
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

// upward carries what the client sends.
func (k *link) upward() {
	buf := make([]byte, 64<<10)
	for {
		n, err := k.client.Read(buf)
		if n > 0 {
			if up, _ := k.p.kept(); up == hold {
				k.mu.Lock()
				k.held = append(k.held, buf[:n]...)
				k.mu.Unlock()
				k.once.Do(func() { close(k.gotHeld) })
			} else if _, err := k.server.Write(buf[:n]); err != nil {
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

// downward carries what the server sends; what it keeps back is lost.
func (k *link) downward() {
	buf := make([]byte, 64<<10)
	for {
		n, err := k.server.Read(buf)
		if n > 0 {
			if _, down := k.p.kept(); down == hold {
				k.once.Do(func() { close(k.gotHeld) })
			} else if _, err := k.client.Write(buf[:n]); err != nil && !errors.Is(err, net.ErrClosed) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// letGo sends what was kept back to the server, and reads all of its answer.
func (k *link) letGo() error {
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

// await waits until some link has kept something back.
func (p *proxy) await() {
	await(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, k := range p.links {
			select {
			case <-k.gotHeld:
				return true
			default:
			}
		}
		return false
	})
}
