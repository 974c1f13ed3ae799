package pebblekv

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// Erase removes the rows of some ranges, with bounds, from the store in a directory, and everything that its files have of them, as if they had never
// been written. The number of the last commit stays the same. Nothing may have the store open.
//
// Errors: those of Open; kv.ErrInvalid for a range without bounds.
func Erase(ctx context.Context, dir string, ranges []kv.Range) error {
	return erase(ctx, dir, ranges, workaround.OnDisk)
}

// erase is Erase on any file system. The store that it opens may use all of the disk, and compacts nothing else: Pebble tries
// compactions that leave room alone for ever, and automatic ones before those of Erase.
func erase(ctx context.Context, dir string, ranges []kv.Range, disk vfs.FS) (err error) {
	d, err := open(dir, &Options{MustExist: true, PatchBytes: -1, MinFree: -1, onDemand: true}, disk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b := d.store.db.NewBatch()
	defer b.Close() // it was applied, or isn't
	for _, r := range ranges {
		if len(r.Start) == 0 || len(r.End) == 0 || coversOwn(r.Start, r.End) {
			return kv.ErrInvalid
		}
		if err := b.DeleteRange(r.Start, r.End, nil); err != nil {
			return wrap(err)
		}
	}
	err = d.store.fault.Guard(func() error { return errors.Join(d.store.db.Apply(b, pebble.NoSync), d.store.db.Flush()) })
	for _, r := range ranges {
		if err == nil {
			err = d.store.fault.Guard(func() error { return d.store.db.Compact(ctx, r.Start, r.End, false) })
		}
	}
	return d.store.verdict(workaround.Full(err))
}
