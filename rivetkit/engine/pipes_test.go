package engine_test

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// servePipes serves a handler over pipes in memory, so that it works in a bubble of testing/synctest. It returns a client
// of the handler, and what ends it.
func servePipes(h http.Handler) (*http.Client, func()) {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(p) }() // until it is closed
	t := &http.Transport{DialContext: p.dial}
	return &http.Client{Transport: t}, func() {
		_ = server.Close()
		t.CloseIdleConnections()
	}
}

// pipes is a net.Listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
