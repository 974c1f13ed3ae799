package remotekv

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// maxIdle bounds the connections that wait for their next use.
const maxIdle = 4

// A Dial opens a connection to Serve.
type Dial func(ctx context.Context) (net.Conn, error)

// An Engine is an engine that another process has open. It implements kv.Engine and txn.Transactor, without
// Watching and Checkpoints, and is safe for concurrent use. What it can't tell, because the other process has
// gone, is kv.ErrUnknownOutcome.
//
// It isn't a kv.Sharer: the other process knows nothing of what is agreed on here.
type Engine struct {
	dial   Dial
	limits kv.Limits
	caps   txn.Caps

	mu     sync.Mutex
	closed bool    // +checklocks:mu
	idle   []*wire // +checklocks:mu
}

var (
	_ kv.Engine      = (*Engine)(nil)
	_ kv.Spacer      = (*Engine)(nil)
	_ txn.Transactor = (*Engine)(nil)
)

// Open returns the engine that dial leads to. The caller closes it.
func Open(ctx context.Context, dial Dial) (*Engine, error) {
	e := &Engine{dial: dial}
	a, err := e.call(ctx, &request{Verb: hello})
	if err != nil {
		return nil, err
	}
	e.limits, e.caps = a.Limits, a.Caps
	e.limits.Far = true // each read is a message to another process and back
	return e, nil
}

// errNotSent: no connection could be opened.
var errNotSent = errors.New("remotekv: the process that has the store can't be reached")

// A wire is one connection.
type wire struct {
	mu   sync.Mutex
	conn net.Conn
	in   *gob.Decoder
	out  *gob.Encoder
	used bool
	bad  bool // the other end is gone, or may be in the middle of something
}

// take returns a connection that is used by nothing else.
func (e *Engine) take(ctx context.Context) (*wire, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, kv.ErrClosed
	}
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle = e.idle[:n-1]
		e.mu.Unlock()
		return w, nil
	}
	e.mu.Unlock()
	conn, err := e.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return &wire{conn: conn, in: gob.NewDecoder(conn), out: gob.NewEncoder(conn)}, nil
}

// put takes a connection back, from which nothing is pinned.
func (e *Engine) put(w *wire) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.bad || e.closed || len(e.idle) >= maxIdle {
		_ = w.conn.Close() // nothing is on its way
		return
	}
	e.idle = append(e.idle, w)
}

// call makes one request on a connection of its own.
func (e *Engine) call(ctx context.Context, req *request) (*answer, error) {
	for {
		w, err := e.take(ctx)
		if err != nil {
			return nil, err
		}
		again := w.used // it may have waited for longer than the other end does
		var a *answer
		if again && req.Verb == commit { // which can't be sent twice
			_, err = w.call(ctx, &request{Verb: hello})
		}
		if err == nil {
			again = again && req.Verb != commit
			a, err = w.call(ctx, req)
		}
		bad := w.bad
		e.put(w)
		if again && bad && ctx.Err() == nil {
			continue
		}
		return a, err
	}
}

// call sends a request and returns its answer. When it isn't answered, the connection is of no use any more.
func (w *wire) call(ctx context.Context, req *request) (*answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.bad {
		return nil, lost(net.ErrClosed)
	}
	w.used = true
	stop := context.AfterFunc(ctx, func() { w.conn.Close() })
	err := w.out.Encode(req)
	a := &answer{}
	if err == nil {
		err = w.in.Decode(a)
	}
	if !stop() || err != nil {
		w.bad = true
		_ = w.conn.Close() // a second time does nothing
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, lost(err)
	}
	return a, a.Failed.err()
}

// A caller makes requests, each on a connection of its own, or all on one.
type caller interface {
	call(ctx context.Context, req *request) (*answer, error)
}

func readKey(ctx context.Context, c caller, key, dst []byte) ([]byte, error) {
	a, err := c.call(ctx, &request{Verb: get, Key: key})
	switch {
	case err != nil:
		return dst, err
	case !a.Found:
		return dst, kv.ErrNotFound
	}
	return append(dst, a.Value...), nil
}

// readRange yields the entries of r, page by page.
func readRange(ctx context.Context, c caller, r kv.Range, yield func(kv.Entry, error) bool) {
	req := &request{Verb: scan, Range: newSpan(slices.Clone(r.Start), slices.Clone(r.End)), Limit: r.Limit, Back: r.Reverse}
	req.Range.Open = r.End == nil
	for {
		a, err := c.call(ctx, req)
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		for _, e := range a.Entries {
			if e.Value == nil {
				e.Value = []byte{}
			}
			if err := ctx.Err(); err != nil {
				yield(kv.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if !a.More {
			return
		}
		last := a.Entries[len(a.Entries)-1].Key
		if req.Back {
			req.Range.End, req.Range.Open = last, false
		} else {
			req.Range.Start = append(slices.Clone(last), 0)
		}
		if req.Limit > 0 {
			req.Limit -= len(a.Entries)
		}
	}
}

// Get appends the newest value of key to dst. See kv.Reader.
func (e *Engine) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return readKey(ctx, e, key, dst)
}

// Scan yields the entries of r, of a state that is pinned when it begins. See kv.Reader.
func (e *Engine) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		s, err := e.Snapshot(ctx)
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		defer s.Close() // what was read stands, whatever it says
		for entry, err := range s.Scan(ctx, r) {
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// Snapshot pins the newest state, on a connection of its own. See kv.Engine.
func (e *Engine) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := e.pinned(ctx, &request{Verb: pin})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// pinned returns a connection on which something is pinned.
func (e *Engine) pinned(ctx context.Context, req *request) (*state, error) {
	for {
		w, err := e.take(ctx)
		if err != nil {
			return nil, err
		}
		again := w.used
		_, err = w.call(ctx, req)
		if err == nil {
			return &state{engine: e, wire: w}, nil
		}
		bad := w.bad
		e.put(w)
		if !again || !bad || ctx.Err() != nil {
			return nil, err
		}
	}
}

// A state is a snapshot, or an attempt at a transaction.
type state struct {
	engine *Engine
	wire   *wire
	closed atomic.Bool
}

func (s *state) call(ctx context.Context, req *request) (*answer, error) {
	if s.closed.Load() {
		return nil, kv.ErrClosed
	}
	return s.wire.call(ctx, req)
}

// Get appends the value that key has in the state to dst. See kv.Reader.
func (s *state) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return readKey(ctx, s, key, dst)
}

// Scan yields the entries that r has in the state. See kv.Reader.
func (s *state) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) { readRange(ctx, s, r, yield) }
}

// Close lets go of the state.
func (s *state) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	_, err := s.wire.call(context.Background(), &request{Verb: unpin})
	if s.wire.bad {
		err = nil // it went with the connection
	}
	s.engine.put(s.wire)
	return err
}

// Commit ends the attempt. See txn.Attempt.
func (s *state) Commit(ctx context.Context, c *txn.Commit) (txn.Stamp, error) {
	a, err := s.engine.commit(ctx, s, &change{
		ID: c.ID, Ops: c.Ops, Reads: spans(c.Reads), Own: spans(c.Declared), Writes: spans(c.Writes),
	})
	if err != nil {
		return txn.Stamp{}, err
	}
	return a.Stamp, nil
}

// commit sends a commit. When it isn't answered it is not known what became of it.
func (e *Engine) commit(ctx context.Context, c caller, ch *change) (*answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, kv.NotApplied(err)
	}
	a, err := c.call(ctx, &request{Verb: commit, Commit: ch})
	switch {
	case a != nil || errors.Is(err, kv.ErrClosed) || errors.Is(err, errNotSent):
		return a, kv.NotApplied(err)
	}
	return nil, fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, err)
}

// Commit applies c. See kv.Engine.
func (e *Engine) Commit(ctx context.Context, c *kv.Commit) error {
	ch := &change{ID: c.ID, Checks: c.Checks, In: c.In, Applied: c.Durability == kv.Applied}
	for _, op := range c.Ops {
		ch.Ops = append(ch.Ops, txn.Op{Kind: op.Kind, Key: op.Key, Value: op.Value})
	}
	if _, err := e.commit(ctx, e, ch); err != nil {
		return err
	}
	if c.OnApply != nil {
		c.OnApply()
	}
	return nil
}

// Outcome tells what became of a commit. See kv.Engine.
func (e *Engine) Outcome(ctx context.Context, id kv.CommitID) (kv.Outcome, error) {
	a, err := e.call(ctx, &request{Verb: outcome, ID: id})
	if err != nil {
		return kv.OutcomeUnknown, err
	}
	return a.Outcome, nil
}

// Incarnation is 0: an engine in a process has one only.
func (e *Engine) Incarnation() kv.Incarnation { return 0 }

// Sync returns when what was applied is on stable storage. See kv.Engine.
func (e *Engine) Sync(ctx context.Context, _ kv.Incarnation) error {
	_, err := e.call(ctx, &request{Verb: durable})
	return err
}

// Limits returns those of the engine that is served, which is Far.
func (e *Engine) Limits() kv.Limits { return e.limits }

// FreeSpace returns what the engine that is served says. See kv.Spacer.
func (e *Engine) FreeSpace() (free int64, known bool, err error) {
	a, err := e.call(context.Background(), &request{Verb: space})
	if err != nil {
		return 0, false, err
	}
	return a.Size, a.Found, nil
}

// Close closes the connections. The engine that is served stays open.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, w := range e.idle {
		_ = w.conn.Close() // nothing is on its way
	}
	e.idle = nil
	return nil
}

// TxCaps returns those of the engine that is served, without Watching and Checkpoints. See txn.Transactor.
func (e *Engine) TxCaps() txn.Caps { return e.caps }

// Attempt begins an attempt at a transaction. See txn.Transactor.
func (e *Engine) Attempt(ctx context.Context, opts txn.AttemptOptions) (txn.Attempt, error) {
	s, err := e.pinned(ctx, &request{Verb: begin, ReadOnly: opts.ReadOnly, MaxAge: opts.MaxAge})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Watch returns kv.ErrUnsupported.
func (e *Engine) Watch([]byte) (<-chan struct{}, func(), error) {
	return nil, nil, fmt.Errorf("remotekv: watch: %w", kv.ErrUnsupported)
}

// EstimatedSize returns what the engine that is served says. See txn.Transactor.
func (e *Engine) EstimatedSize(ctx context.Context, start, end []byte) (int64, error) {
	a, err := e.call(ctx, &request{Verb: size, Range: newSpan(start, end)})
	if err != nil {
		return 0, err
	}
	return a.Size, nil
}

// Checkpoint returns kv.ErrUnsupported.
func (e *Engine) Checkpoint(context.Context, string) error {
	return fmt.Errorf("remotekv: checkpoint: %w", kv.ErrUnsupported)
}
