package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/callrow"
	"github.com/greenroomdb/greenroom/kv"
)

const (
	// answeredFor is how long the result of a call with an idempotency key is stored.
	answeredFor = 24 * time.Hour
	// maxAnswered bounds the results of an actor that are stored.
	maxAnswered = 1000
	// answeredSwept is how many old results a call removes at most: more than one, so that they don't gather.
	answeredSwept = 8
)

// An idempotentCall is a call with an idempotency key. What it returns lands with its turn, and answers the same call when it is made again.
type idempotentCall struct {
	id       string
	digest   callrow.Digest
	fn       func(c *Context, args Raw) (Raw, error)
	replayed bool // it was answered from what is stored
}

// newIdempotentCall returns what calls fn at most once, nil for a call without an idempotency key.
func newIdempotentCall(ctx context.Context, call *Call, fn func(c *Context, args Raw) (Raw, error)) (*idempotentCall, error) {
	if call.IdempotencyKey == "" {
		return nil, nil
	}
	if !callrow.ValidID(call.IdempotencyKey) {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrIdempotencyKey, len(call.IdempotencyKey))
	}
	var caller string
	if c := CallerOf(ctx); c != nil {
		caller = c.ID
	}
	return &idempotentCall{id: call.IdempotencyKey, digest: callrow.DigestOf(call.Action, caller, call.Args), fn: fn}, nil
}

// or returns what the turn of the call calls: fn, which m is for, if m is nil.
func (m *idempotentCall) or(fn func(c *Context, args Raw) (Raw, error)) func(c *Context, args Raw) (Raw, error) {
	if m == nil {
		return fn
	}
	return m.run
}

// tell says where the result of a call that has landed comes from, if the caller wants to know.
func (m *idempotentCall) tell(call *Call) {
	if call.Replayed != nil {
		*call.Replayed = m != nil && m.replayed
	}
}

// recall answers a call of several actors whose turns can't be taken, for the reason refused: if it has landed before, the actor that is called
// has its result, wherever the others are.
func (m *idempotentCall) recall(ctx context.Context, h *Host, call *Call, refused error) (result Raw, err error) {
	if moved(refused) {
		return nil, refused
	}
	t := newTurn("actor.recall", func(c *Context) error {
		calls, err := m.index(c)
		if err == nil {
			if landed, known := calls.Find(m.id); known && landed.At > c.now.Add(-answeredFor).UnixMilli() {
				result, err = m.replay(c, landed)
			}
		}
		return err
	})
	err = h.turn(ctx, call.Actor, nil, t)
	if err == nil && m.replayed || errors.Is(err, ErrIdempotencyMismatch) {
		return result, err
	}
	return nil, refused
}

// run answers the call in its turn.
func (m *idempotentCall) run(c *Context, args Raw) (Raw, error) {
	calls, err := m.index(c)
	if err != nil {
		return nil, err
	}
	expired := c.now.Add(-answeredFor).UnixMilli()
	before, known := calls.Find(m.id)
	if known && before.At > expired {
		return m.replay(c, before)
	}
	result, err := m.fn(c, args)
	if err != nil {
		return nil, err
	}
	old := calls.Old(expired, maxAnswered, answeredSwept)
	if known && !slices.Contains(old, before) {
		old = append(old, before)
	}
	return result, m.stage(c, calls, old, result)
}

// index returns which calls with keys the actor has answered, and reads that the first time in its stay in memory.
func (m *idempotentCall) index(c *Context) (*callrow.Index, error) {
	l := c.life
	if l.answered != nil {
		return l.answered, nil
	}
	calls := &callrow.Index{}
	start, end := callrow.Range()
	for e, err := range l.actor.List(c, actorstore.ListOptions{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		call, _, _, err := callrow.Parse(e.Key, e.Value)
		if err != nil {
			return nil, err
		}
		calls.Add(call)
	}
	l.answered = calls
	return calls, nil
}

// replay returns the result of a call that has landed, if it was the same one.
func (m *idempotentCall) replay(c *Context, landed callrow.Call) (Raw, error) {
	value, err := m.get(c, landed.Key())
	if err != nil {
		return nil, err
	}
	_, digest, result, err := callrow.Parse(landed.Key(), value)
	if err != nil {
		return nil, err
	}
	if digest != m.digest {
		return nil, fmt.Errorf("%w: %q", ErrIdempotencyMismatch, m.id)
	}
	if landed.Apart {
		if value, err = m.get(c, landed.ResultKey()); err != nil {
			return nil, err
		}
		if result, err = callrow.ParseResult(value); err != nil {
			return nil, err
		}
	}
	m.replayed = true
	return result, nil
}

// get returns the value of a row that must be there.
func (m *idempotentCall) get(c *Context, key []byte) ([]byte, error) {
	value, err := c.life.actor.Get(c, key, nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return nil, fmt.Errorf("host: call with the idempotency key %q: %w: its row %x is gone", m.id, kv.ErrCorrupt, key)
	}
	return value, err
}

// stage stores what the call has returned with its turn, and removes old results.
func (m *idempotentCall) stage(c *Context, calls *callrow.Index, old []callrow.Call, result Raw) error {
	landed := callrow.New(calls.Next(c.now.UnixMilli()), m.id, result)
	key, value := landed.Key(), landed.Append(nil, m.digest, result)
	if landed.Apart {
		c.Batch().Put(key, value)
		key, value = landed.ResultKey(), callrow.AppendResult(nil, result)
	}
	if limit := c.life.actor.Limits().ValueSize; len(value) > limit {
		return fmt.Errorf("host: call with the idempotency key %q: %w", m.id,
			&batch.LimitError{Err: batch.ErrValueTooLarge, What: "bytes of the result and what is stored with it", Size: len(value), Limit: limit})
	}
	c.Batch().Put(key, value)
	for _, call := range old {
		c.Batch().Delete(call.Key())
		if call.Apart {
			c.Batch().Delete(call.ResultKey())
		}
	}
	c.Batch().OnCommit(func() {
		for _, call := range old {
			calls.Remove(call)
		}
		calls.Add(landed)
	})
	return nil
}
