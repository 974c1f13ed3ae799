package wake

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// A store of before has rows of its hosts' own that say which actors must be woken, and nothing beside the actors.
// A row goes when the store says it beside its actor, so that a process that ends in the middle is followed by one that goes on.

// Old are the rows of before that one program has written.
type Old struct {
	Engine     kv.Engine
	Start, End []byte // their range, [Start, End)
	// Adopt has the store say beside the actor what the row says. It returns false if it can't yet, or if the row is
	// another program's. row is valid during the call.
	Adopt  func(ctx context.Context, row kv.Entry) (done bool)
	Logger *slog.Logger
}

// oldPage is how many rows are read at once.
const oldPage = 256

// oldPause is after how long Run looks again: for rows that could not be adopted, and for those that a host of before writes, which
// runs beside this one for a while.
const oldPause = time.Minute

// Run adopts the rows, one after the other, again and again until ctx ends.
func (o *Old) Run(ctx context.Context) {
	for {
		if err := o.all(ctx); err != nil && ctx.Err() == nil {
			o.Logger.Warn("wake: take over when actors must be woken", slog.Any("error", err))
		}
		select {
		case <-time.After(oldPause):
		case <-ctx.Done():
			return
		}
	}
}

// all adopts what it can.
func (o *Old) all(ctx context.Context) error {
	for start := o.Start; ; {
		page, err := o.page(ctx, start)
		if err != nil {
			return err
		}
		for _, row := range page {
			if o.Adopt(ctx, row) {
				if err := o.remove(ctx, row); err != nil {
					return err
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			start = append(row.Key, 0)
		}
		if len(page) < oldPage {
			return nil
		}
	}
}

func (o *Old) page(ctx context.Context, start []byte) (page []kv.Entry, err error) {
	for row, err := range o.Engine.Scan(ctx, kv.Range{Start: start, End: o.End, Limit: oldPage}) {
		if err != nil {
			return nil, err
		}
		page = append(page, kv.Entry{Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
	}
	return page, nil
}

// remove removes a row, unless it has changed.
func (o *Old) remove(ctx context.Context, row kv.Entry) error {
	err := o.Engine.Commit(ctx, &kv.Commit{
		Checks: []kv.Check{{Key: row.Key, Value: row.Value}}, Ops: []kv.Op{kv.Clear(row.Key)}, Durability: kv.Applied,
	})
	if errors.Is(err, kv.ErrConflict) { // another process removed it
		return nil
	}
	return err
}
