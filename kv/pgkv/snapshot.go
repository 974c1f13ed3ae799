package pgkv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// A snapshot is a transaction at REPEATABLE READ on a connection of its own, which its
// readers take turns at. If the connection breaks the state is gone, and reads say so.
type snapshot struct {
	db *DB
	// turn holds the token of the goroutine that may use the connection.
	turn chan struct{}

	mu     sync.Mutex
	c      *conn // nil when the snapshot is closed  +checklocks:mu
	closed bool  // +checklocks:mu
}

// Snapshot pins the newest state, with one round trip. It takes one of Options.Pins
// until it is closed. See kv.Engine.
func (db *DB) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	if err := db.begin(ctx); err != nil {
		return nil, err
	}
	defer db.life.leave()
	s, err := db.pin(ctx)
	if err != nil {
		return nil, wrap("snapshot", err)
	}
	return s, nil
}

// pin takes a connection and begins a transaction that reads.
func (db *DB) pin(ctx context.Context) (*snapshot, error) {
	r := db.retry()
	timer := time.NewTimer(db.opts.PinWait)
	defer timer.Stop()
	for {
		c, err := db.pinOnce(ctx, timer.C)
		if err == nil {
			s := &snapshot{db: db, turn: make(chan struct{}, 1), c: c}
			s.turn <- struct{}{}
			return s, nil
		}
		if errors.Is(err, errWait) {
			return nil, fmt.Errorf("%w: %d are open", ErrBusy, db.opts.Pins)
		}
		if !worth(ctx, err) {
			return nil, err
		}
		if err := r.again(ctx, err); err != nil {
			return nil, err
		}
	}
}

func (db *DB) pinOnce(ctx context.Context, wait <-chan time.Time) (*conn, error) {
	c, err := db.pins.take(ctx, wait)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, db.opts.Timeout)
	defer cancel()
	db.trips.Add(1)
	if err := verdict(ctx, c, c.simple(limited, db.sql.beginRead)); err != nil {
		c.bad = true
		db.pins.give(c)
		return nil, err
	}
	return c, nil
}

// use runs fn with the connection. A reader whose context ends doesn't wait for fn, but
// fn goes on: to break it off would break the snapshot, for all its readers. What fn
// writes to is its own until use has returned nil.
func (s *snapshot) use(ctx context.Context, fn func(context.Context, *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.db.life.enter(); err != nil {
		return err
	}
	select {
	case <-s.turn:
	default:
		select {
		case <-s.turn:
		case <-ctx.Done():
			s.db.life.leave()
			return ctx.Err()
		}
	}
	done := make(chan error, 1)
	run := func() {
		err := s.run(fn)
		s.turn <- struct{}{}
		s.db.life.leave()
		done <- err
	}
	if ctx.Done() == nil {
		run()
		return <-done
	}
	go run()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run runs fn, whose turn it is.
func (s *snapshot) run(fn func(context.Context, *conn) error) error {
	s.mu.Lock()
	c, closed := s.c, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return kv.ErrClosed
	case c.bad:
		return errSnapshotLost
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.db.opts.Timeout)
	defer cancel()
	s.db.trips.Add(1)
	err := fn(ctx, c)
	switch {
	case err == nil:
		return nil
	case c.bad:
		return fmt.Errorf("%w: %w", errSnapshotLost, &lostError{err})
	case c.pg.TxStatus() != 'T':
		// The server has given up the transaction, whatever for.
		c.bad = true
		return fmt.Errorf("%w: %w", errSnapshotLost, clean(err))
	}
	return err
}

// Get appends the value of key to dst. See kv.Reader.
func (s *snapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	var value []byte
	found := false
	if len(key) > 0 {
		// The caller may go on before fn has ended.
		if ctx.Done() != nil {
			key = append([]byte(nil), key...)
		}
		var v []byte
		var ok bool
		err := s.use(ctx, func(ctx context.Context, c *conn) (err error) {
			v, ok, err = s.db.get(ctx, c, key, nil)
			return err
		})
		if err != nil {
			return dst, wrap("get", err)
		}
		value, found = v, ok
	} else if err := s.check(ctx); err != nil {
		return dst, err
	}
	if !found {
		return dst, kv.ErrNotFound
	}
	return append(dst, value...), nil
}

// check says why no read may go on.
func (s *snapshot) check(ctx context.Context) error {
	if err := s.db.begin(ctx); err != nil {
		return err
	}
	s.db.life.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return kv.ErrClosed
	}
	return nil
}

// Scan yields the entries of r. See kv.Reader.
func (s *snapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := s.scan(ctx, newScan(s.db, r), yield); err != nil {
			yield(kv.Entry{}, err)
		}
	}
}

// scan yields all but the error that ends it. Between two pages the connection is free
// for other readers.
func (s *snapshot) scan(ctx context.Context, sc *scan, yield func(kv.Entry, error) bool) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	for !sc.over() {
		err := s.use(ctx, sc.fetch)
		if err != nil {
			return wrap("scan", err)
		}
		if more, err := sc.yieldPage(ctx, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// release hands the connection over, whose transaction is still open; the caller gives
// it back. It returns nil when the snapshot is closed. No read may be running.
func (s *snapshot) release() *conn {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.c
}

// Close ends the transaction, after the read that is running if any. See kv.Snapshot.
func (s *snapshot) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	<-s.turn
	c := s.c
	if !c.bad {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		s.db.trips.Add(1)
		if c.exec(ctx, s.db.sql.rollback) != nil {
			c.bad = true
		}
	}
	s.db.pins.give(c)
	s.turn <- struct{}{} // a caller that still waits finds it closed
	return nil
}
