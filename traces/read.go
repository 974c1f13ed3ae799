package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Read returns the spans that q selects of those that are stored: of an actor with
// another owner (actorstore.View has a Snapshot), or of an earlier state. maxRead is
// Options.MaxRead, with the same default.
func Read(ctx context.Context, s *actorstore.Snapshot, q Query, maxRead int) (*Result, error) {
	return read(ctx, s, q, cmp.Or(maxRead, defaultMaxRead), nil)
}

func read(ctx context.Context, snap *actorstore.Snapshot, q Query, maxRead int, memory []keyed) (*Result, error) {
	rd, err := newReader(ctx, snap, q, maxRead, memory)
	if err != nil {
		return nil, fmt.Errorf("traces: read: %w", err)
	}
	spans := rd.result()
	if (rd.pruned || rd.lossy) && len(spans) < rd.limit {
		// Some that were wanted at first are not, because of what was recorded late, and
		// others were forgotten for them.
		rd.keepAll = true
		if err := rd.gather(ctx); err != nil {
			return nil, fmt.Errorf("traces: read: %w", err)
		}
		spans = rd.result()
	}
	return &Result{spans, rd.last, rd.limit, rd.clamped, rd.damaged, rd.read}, nil
}

// Read returns the spans that q selects, also those that are not written yet.
//
// Errors are those of reading the store, and ErrClosed; damage is in the Result. An End
// that is not behind Start, or a negative Limit, selects nothing.
func (t *Traces) Read(ctx context.Context, q Query) (res *Result, err error) {
	err = t.reading(ctx, func(snap *actorstore.Snapshot, memory []keyed) error {
		res, err = read(ctx, snap, q, t.store.opts.MaxRead, memory)
		return err
	})
	return res, err
}

// reading calls fn with what is stored, and what is not known to be.
func (t *Traces) reading(ctx context.Context, fn func(snap *actorstore.Snapshot, memory []keyed) error) error {
	// What waits to be written is looked at before what is stored: in between it may get
	// there, and is then met twice and not never.
	memory, err := t.store.unwritten(ctx)
	if err != nil {
		return fmt.Errorf("traces: read: %w", err)
	}
	if t.betweenLooks != nil {
		t.betweenLooks()
	}
	snap, err := t.store.actor.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("traces: read: %w", err)
	}
	return errors.Join(fn(snap, memory), snap.Close())
}
