package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
)

// A store of before has rows of the host's own that say which actors must be woken, and nothing beside the actors. The host
// wakes those actors, one after the other: when they sleep again the store says when they must be woken. An actor's
// row goes when the store has the actor's time, so that a host that ends in the middle is followed by one that goes on.

// adoptAlarms takes the rows over, in the background, until none of the host's types is left.
func (h *Host) adoptAlarms() {
	for failures := 0; ; failures++ {
		left, err := h.adoptAll()
		if err != nil && h.ctx.Err() == nil {
			h.log.Warn("host: take over when actors must be woken", slog.Any("error", err))
		}
		if left == 0 && err == nil {
			return
		}
		select {
		case <-time.After(backoff(failures + 1)):
		case <-h.ctx.Done():
			return
		}
	}
}

// oldPage is how many rows are read at once.
const oldPage = 256

// adoptAll takes over what it can, and returns how many rows of the host's types are left.
func (h *Host) adoptAll() (left int, err error) {
	start, end := oldAlarms.Range()
	for {
		var page []kv.Entry
		err := h.onEngine(func(e kv.Engine) error {
			for row, err := range e.Scan(h.ctx, kv.Range{Start: start, End: end, Limit: oldPage}) {
				if err != nil {
					return err
				}
				page = append(page, kv.Entry{Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
			}
			return nil
		})
		if err != nil {
			return left, err
		}
		for _, row := range page {
			done, err := h.adopt(row)
			if err != nil {
				return left, err
			}
			if !done {
				left++
			}
			start = append(row.Key, 0)
		}
		if len(page) < oldPage {
			return left, nil
		}
	}
}

// adopt takes one row over, and says whether that is done, or another program's to do.
func (h *Host) adopt(row kv.Entry) (done bool, err error) {
	name, err := parseOldAlarm(row.Key)
	if err != nil {
		return false, err
	}
	a, err := ParseAddress(name)
	if err != nil || h.types[a.Type] == nil {
		return true, nil
	}
	l, err := h.enter(h.ctx, a, nil, false)
	if err == nil {
		err = l.actor.SetWake(l.steady, actorstore.Wake{At: h.clock()}) // until it sleeps
		l.leave()
	}
	switch {
	case errors.Is(err, ErrClosed), h.ctx.Err() != nil:
		return false, context.Canceled
	case errors.Is(err, actorstore.ErrInUse):
		return false, nil
	case err != nil && !errors.Is(err, ErrNoActor):
		h.log.Error("host: take over when an actor must be woken", slog.String("actor", name), slog.Any("error", err))
		return false, nil
	}
	err = h.onEngine(func(e kv.Engine) error {
		return e.Commit(h.ctx, &kv.Commit{
			Checks: []kv.Check{{Key: row.Key, Value: row.Value}}, Ops: []kv.Op{kv.Clear(row.Key)}, Durability: kv.Applied,
		})
	})
	if errors.Is(err, kv.ErrConflict) { // by another host
		err = nil
	}
	return err == nil, err
}
