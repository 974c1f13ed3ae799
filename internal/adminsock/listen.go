package adminsock

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// patience is how long a client may take to say its token.
const patience = 5 * time.Second

// A Listener accepts the connections of those that may come. It is a net.Listener.
type Listener struct {
	base    net.Listener
	place   place
	own     string // a folder that Close removes, "" for none
	dir     string // of the store
	refused func(error)

	ready chan net.Conn
	done  chan struct{}
	once  sync.Once
	err   error
	all   sync.WaitGroup
}

// Listen opens the socket of the store in the directory dir, which this process must have open: a socket that is
// there is of a process that has ended, and is removed. refused, if it isn't nil, is told of each connection
// that was turned away, from a goroutine of its own. The caller closes the Listener.
func Listen(ctx context.Context, dir string, refused func(error)) (*Listener, error) {
	network := "unix"
	if !hasPeers {
		network = "tcp"
	}
	return listen(ctx, dir, network, refused)
}

func listen(ctx context.Context, dir, network string, refused func(error)) (_ *Listener, err error) {
	dir, err = realDir(dir)
	if err != nil {
		return nil, err
	}
	if err := removeAll(dir); err != nil {
		return nil, err
	}
	l := &Listener{dir: dir, refused: refused, ready: make(chan net.Conn), done: make(chan struct{})}
	if l.refused == nil {
		l.refused = func(error) {}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("adminsock: listen at the store %s: %w", dir, errors.Join(err, l.remove()))
		}
	}()
	l.place = place{Network: network, Address: filepath.Join(dir, socketName)}
	switch {
	case network == "tcp":
		l.place.Address, l.place.Token = "127.0.0.1:0", rand.Text()+rand.Text()
	case len(l.place.Address) > MaxPath:
		if l.own, err = shortDir(); err != nil {
			return nil, err
		}
		l.place.Address = filepath.Join(l.own, "s")
	}
	if l.base, err = new(net.ListenConfig).Listen(ctx, network, l.place.Address); err != nil {
		return nil, err
	}
	if network == "tcp" {
		l.place.Address = l.base.Addr().String()
	} else if err := os.Chmod(l.place.Address, 0o600); err != nil { // until then the look at the peer keeps others out
		return nil, errors.Join(err, l.base.Close())
	}
	if network == "tcp" || l.own != "" {
		if err := l.place.write(dir); err != nil {
			return nil, errors.Join(err, l.base.Close())
		}
	}
	l.all.Go(l.accept)
	return l, nil
}

// accept looks at each that comes, on a goroutine of its own: one that says nothing keeps no other waiting.
func (l *Listener) accept() {
	for {
		c, err := l.base.Accept()
		if err != nil {
			l.once.Do(func() { l.err = err; close(l.done) })
			return
		}
		l.all.Go(func() {
			if err := l.check(c); err != nil {
				_ = c.Close() // it never was one
				l.refused(err)
				return
			}
			select {
			case l.ready <- c:
			case <-l.done:
				_ = c.Close()
			}
		})
	}
}

// check returns nil if c is of a client that may come.
func (l *Listener) check(c net.Conn) error {
	if l.place.Token == "" {
		uid, err := peer(c)
		if err != nil {
			return err
		}
		return allowed(uid, -1)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	said := make([]byte, len(l.place.Token))
	if _, err := io.ReadFull(c, said); err != nil {
		return fmt.Errorf("adminsock: read the token: %w", err)
	}
	if subtle.ConstantTimeCompare(said, []byte(l.place.Token)) != 1 {
		return fmt.Errorf("%w: it has another token", ErrUser)
	}
	return c.SetReadDeadline(time.Time{})
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.done:
		return nil, l.err
	}
}

// Addr returns where the socket is.
func (l *Listener) Addr() net.Addr { return l.base.Addr() }

// Close ends the Listener and removes the socket. Connections that were accepted stay open.
func (l *Listener) Close() error {
	first := false
	l.once.Do(func() { first = true; l.err = net.ErrClosed; close(l.done) })
	if !first && l.err == net.ErrClosed {
		return nil
	}
	err := l.base.Close()
	l.all.Wait()
	return errors.Join(err, l.remove())
}

// remove removes the files.
func (l *Listener) remove() error {
	err := removeAll(l.dir)
	if l.own != "" {
		err = errors.Join(err, os.RemoveAll(l.own))
	}
	return err
}
