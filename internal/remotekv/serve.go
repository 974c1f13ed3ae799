package remotekv

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// idle is how long a client may ask for nothing before its connection is closed, and what it has pinned is
// let go of.
const idle = time.Hour

// errRefused: the process that has the store doesn't let others write there.
var errRefused = errkind.New("remotekv: only the process that has the store may write that", errkind.ErrReadOnly)

// Guard says whether a client may write a key, or into a range. The end is nil for a key alone.
type Guard func(start, end []byte) bool

// Serve answers the requests of the client at the other end of conn until that closes it or ctx ends, and
// closes conn. It returns when nothing uses the engine any more. A commit that writes what guard, if it isn't
// nil, doesn't allow is errRefused.
func Serve(ctx context.Context, conn net.Conn, engine kv.Engine, guard Guard) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := &server{engine: engine, guard: guard}
	defer s.unpin()
	defer conn.Close()
	in, out := gob.NewDecoder(conn), gob.NewEncoder(conn)
	for {
		if conn.SetReadDeadline(time.Now().Add(idle)) != nil {
			return
		}
		var req request
		if in.Decode(&req) != nil {
			return
		}
		a := s.answer(ctx, &req)
		if out.Encode(a) != nil {
			return
		}
	}
}

// A server is one connection.
type server struct {
	engine  kv.Engine
	guard   Guard
	pinned  kv.Snapshot
	attempt txn.Attempt
}

// reader returns what is read.
func (s *server) reader() kv.Reader {
	switch {
	case s.attempt != nil:
		return s.attempt
	case s.pinned != nil:
		return s.pinned
	}
	return s.engine
}

// answer does what req asks for.
func (s *server) answer(ctx context.Context, req *request) *answer {
	a := &answer{}
	var err error
	switch req.Verb {
	case hello:
		a.Limits = s.engine.Limits()
		if t := txn.TransactorOf(s.engine); t != nil {
			// A watch and a copy of the files are for the process itself.
			a.Caps = t.TxCaps() &^ (txn.Watching | txn.Checkpoints)
		}
	case get:
		a.Value, err = s.reader().Get(ctx, req.Key, nil)
		if a.Found = err == nil; errors.Is(err, kv.ErrNotFound) {
			err = nil
		}
	case scan:
		err = s.scan(ctx, req, a)
	case pin, begin:
		err = s.pin(ctx, req)
	case unpin:
		err = s.unpin()
	case commit:
		err = s.commit(ctx, req.Commit, a)
	case outcome:
		a.Outcome, err = s.engine.Outcome(ctx, req.ID)
	case durable:
		err = s.engine.Sync(ctx, s.engine.Incarnation())
	case size:
		start, end := req.Range.bounds()
		if t := txn.TransactorOf(s.engine); t != nil {
			a.Size, err = t.EstimatedSize(ctx, start, end)
		} else {
			err = kv.ErrUnsupported
		}
	case space:
		a.Size, a.Found, err = kv.FreeSpace(s.engine)
	default:
		err = fmt.Errorf("remotekv: request %d: %w", req.Verb, kv.ErrUnsupported)
	}
	a.Failed = newFailure(err)
	return a
}

// scan reads a page.
func (s *server) scan(ctx context.Context, req *request, a *answer) error {
	start, end := req.Range.bounds()
	n := 0
	for e, err := range s.reader().Scan(ctx, kv.Range{Start: start, End: end, Limit: req.Limit, Reverse: req.Back}) {
		if err != nil {
			return err
		}
		if n += len(e.Key) + len(e.Value); n > pageBytes && len(a.Entries) > 0 {
			a.More = true
			return nil
		}
		a.Entries = append(a.Entries, kv.Entry{Key: append([]byte(nil), e.Key...), Value: append([]byte(nil), e.Value...)})
	}
	return nil
}

// pin has what follows read one state.
func (s *server) pin(ctx context.Context, req *request) (err error) {
	if err := s.unpin(); err != nil {
		return err
	}
	if req.Verb == pin {
		s.pinned, err = s.engine.Snapshot(ctx)
		return err
	}
	t := txn.TransactorOf(s.engine)
	if t == nil {
		return kv.ErrUnsupported
	}
	s.attempt, err = t.Attempt(ctx, txn.AttemptOptions{ReadOnly: req.ReadOnly, MaxAge: req.MaxAge, Now: time.Now})
	return err
}

// unpin lets go of what is pinned.
func (s *server) unpin() (err error) {
	if s.pinned != nil {
		err = s.pinned.Close()
	}
	if s.attempt != nil {
		err = errors.Join(err, s.attempt.Close())
	}
	s.pinned, s.attempt = nil, nil
	return err
}

// commit commits to the engine, or ends the attempt.
func (s *server) commit(ctx context.Context, c *change, a *answer) (err error) {
	if c == nil {
		return kv.NotApplied(kv.ErrInvalid)
	}
	if err := s.allowed(c); err != nil {
		return kv.NotApplied(err)
	}
	// What has begun is not given up because its client has gone: it would not know what became of it.
	ctx = context.WithoutCancel(ctx)
	if s.attempt != nil {
		a.Stamp, err = s.attempt.Commit(ctx, &txn.Commit{
			ID: c.ID, Reads: unsent(c.Reads), Declared: unsent(c.Own), Writes: unsent(c.Writes), Ops: c.Ops,
		})
		return err
	}
	k := &kv.Commit{ID: c.ID, Checks: c.Checks, In: c.In}
	if c.Applied {
		k.Durability = kv.Applied
	}
	for _, op := range c.Ops {
		k.Ops = append(k.Ops, kv.Op{Kind: op.Kind, Key: op.Key, Value: op.Value})
	}
	return s.engine.Commit(ctx, k)
}

// allowed asks the guard for all that c writes.
func (s *server) allowed(c *change) error {
	if s.guard == nil {
		return nil
	}
	for _, op := range c.Ops {
		var end []byte
		if op.Kind == kv.OpClearRange {
			end = op.Value
		}
		// The place of a stamp in a key is filled in later: what stands before it decides.
		if op.Kind == txn.OpStampKey && op.Offset < 1 || !s.guard(op.Key, end) {
			return errRefused
		}
	}
	return nil
}
