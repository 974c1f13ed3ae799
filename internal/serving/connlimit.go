package serving

import (
	fifo "container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// A connLimit is a listener that has a number of connections at most. When one more comes, it closes the one that has been without a
// request for longest; if all have one, the new connection waits until another one ends. So connections that ask for nothing keep
// none out that does.
type connLimit struct {
	net.Listener
	slots chan struct{}
	ctx   context.Context // ends with the listener
	close context.CancelFunc

	mu   sync.Mutex
	idle *fifo.List                 // connections without a request, the oldest first
	of   map[net.Conn]*fifo.Element // their elements
}

func newConnLimit(ln net.Listener, most int) *connLimit {
	l := &connLimit{Listener: ln, slots: make(chan struct{}, most), idle: fifo.New(), of: map[net.Conn]*fifo.Element{}}
	l.ctx, l.close = context.WithCancel(context.Background())
	return l
}

// Accept implements net.Listener.
func (l *connLimit) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: c, limit: l}, nil
		default:
		}
		if oldest := l.oldest(); oldest != nil {
			_ = oldest.Close() // its client comes again when it wants something
			continue
		}
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: c, limit: l}, nil
		case <-l.ctx.Done():
			_ = c.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *connLimit) Close() error {
	l.close()
	return l.Listener.Close()
}

// oldest takes the connection that has been without a request for longest, nil if all have one.
func (l *connLimit) oldest() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.idle.Front()
	if e == nil {
		return nil
	}
	c := l.idle.Remove(e).(net.Conn)
	delete(l.of, c)
	return c
}

// closeIdle closes the connections without a request. A server's Shutdown waits five seconds for those that have never had one.
func (l *connLimit) closeIdle() {
	for c := l.oldest(); c != nil; c = l.oldest() {
		_ = c.Close() // its client comes again when it wants something
	}
}

// watch is the ConnState of a server that listens at l.
func (l *connLimit) watch(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.of[c]; e != nil {
		l.idle.Remove(e)
		delete(l.of, c)
	}
	if state == http.StateNew || state == http.StateIdle {
		l.of[c] = l.idle.PushBack(c)
	}
}

// A limitedConn is a connection that a connLimit counts.
type limitedConn struct {
	net.Conn
	limit *connLimit
	once  sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.once.Do(func() { <-c.limit.slots })
	return c.Conn.Close()
}
