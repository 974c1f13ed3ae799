package reads

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore/internal/rows"
	"github.com/greenroomdb/greenroom/kv"
)

// Preload reads ranges of rows from sp with one read of the engine, and calls each, unless it is nil, with
// every entry. An error of each ends it.
func Preload(ctx context.Context, sp *rows.Space, ranges []kv.Range, each func(rows.Entry) error) (err error) {
	if len(ranges) == 0 {
		return nil
	}
	found, snap, err := askRanges(ctx, sp.Source, ranges)
	if snap != nil {
		defer func() { err = errors.Join(err, snap.Close()) }()
	}
	if err == nil {
		err = sp.Entries(found, 0, false, func(e rows.Entry) error {
			if each == nil {
				return nil
			}
			return each(e)
		})
	}
	if err != nil {
		return fmt.Errorf("actorstore: preload: %w", err)
	}
	return nil
}

// askRanges returns the rows of the ranges, and the engine's snapshot that they are read
// from, if it had to be made: a decorator may keep it from an Engine that it can read
// several ranges, and not from its snapshots.
func askRanges(ctx context.Context, src kv.Reader, ranges []kv.Range) (iter.Seq2[kv.Entry, error], kv.Snapshot, error) {
	if len(ranges) == 1 {
		return src.Scan(ctx, ranges[0]), nil, nil
	}
	if found := kv.ScanRanges(ctx, src, ranges); found != nil {
		return found, nil, nil
	}
	eng, isEngine := src.(kv.Engine)
	if !isEngine {
		return src.Scan(ctx, ranges[0]), nil, nil
	}
	snap, err := eng.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	found := kv.ScanRanges(ctx, snap, ranges)
	if found == nil {
		found = snap.Scan(ctx, ranges[0])
	}
	return found, snap, nil
}
