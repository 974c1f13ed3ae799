package pgkv

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// A pool is a bounded number of connections, opened when they are needed.
type pool struct {
	db *DB
	// free has one token for each connection that may be taken.
	free chan struct{}

	mu     sync.Mutex
	idle   []*conn // the one that was used last is taken first  +checklocks:mu
	closed bool    // +checklocks:mu
}

func newPool(db *DB, size int) *pool {
	p := &pool{db: db, free: make(chan struct{}, size)}
	for range size {
		p.free <- struct{}{}
	}
	return p
}

// errWait says that no connection became free in time.
var errWait = errors.New("no connection is free")

// take returns a connection, a new one if none is idle; give must follow. It waits for
// one to be free until ctx ends, or wait is over, if that isn't nil.
func (p *pool) take(ctx context.Context, wait <-chan time.Time) (*conn, error) {
	select {
	case <-p.free:
	default:
		select {
		case <-p.free:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.db.life.closing:
			return nil, kv.ErrClosed
		case <-wait:
			return nil, errWait
		}
	}
	for {
		c := p.pop()
		if c == nil {
			break
		}
		// What is begun in an incarnation doesn't go to the server of an earlier one.
		if c.in == p.db.Incarnation() && c.alive(p.db.broke()) {
			return c, nil
		}
		c.kill()
	}
	c, err := p.connect(ctx)
	if err != nil {
		p.free <- struct{}{}
	}
	return c, err
}

// connect opens and prepares a connection, and finds out what is at its other end.
func (p *pool) connect(ctx context.Context) (*conn, error) {
	c, err := p.db.dial(ctx)
	if err != nil {
		return nil, err
	}
	if c, err = c.begun(ctx, c.prepare(ctx)); err != nil {
		return nil, err
	}
	return c.begun(ctx, p.db.identify(ctx, c))
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return c
}

// give takes a connection back. One that isn't at rest, between two transactions, is
// closed.
func (p *pool) give(c *conn) {
	defer func() { p.free <- struct{}{} }()
	if !c.bad && c.pg.TxStatus() != 'I' {
		c.bad = true
	}
	p.mu.Lock()
	bad := c.bad
	keep := !bad && !p.closed
	if keep { // it may be another's from here on
		c.used = time.Now()
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if bad {
		p.db.broken.Store(time.Now().UnixNano())
	}
	if !keep {
		c.close()
	}
}

// broke returns when a connection last had to be given up.
func (db *DB) broke() time.Time { return time.Unix(0, db.broken.Load()) }

// drop closes the connections that have been idle since before t.
func (p *pool) drop(t time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && p.idle[n].used.Before(t) {
		n++
	}
	old := append([]*conn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// close closes the idle connections at once, and each other one when it is given back.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop(time.Now().Add(time.Hour))
}

// sweep closes idle connections until the DB is closed.
func (db *DB) sweep() {
	tick := time.NewTicker(db.opts.IdleFor/2 + 1)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, p := range []*pool{db.writes, db.reads, db.pins} {
				p.drop(now.Add(-db.opts.IdleFor))
			}
		case <-db.life.closing:
			return
		}
	}
}
