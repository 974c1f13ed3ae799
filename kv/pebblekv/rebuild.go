package pebblekv

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"
)

// Rebuild makes a store in the directory to/store from the tables and the log of one in dir that can't be opened, as its MANIFEST, which says which tables
// there are, is damaged or lost. It changes nothing in dir. The directory to must exist; it takes about three times the room of dir.
//
// What the tables have is put in the order in which it was committed. Tables that a crash has left although newer ones replace them are among
// them, so that a row may be there again that was removed. damage has what can't be read of the tables: what is behind that in its table is left out. A log that is lost, or damaged, is lost
// or damaged in the new store, too.
//
// Errors: kv.ErrStoreInUse, kv.ErrCorrupt if neither a table nor a log is there, those of ctx, and those of the disk.
func Rebuild(ctx context.Context, dir, to string) (damage []error, err error) {
	lock, err := pebble.LockDirectory(dir, workaround.SharedFS{FS: workaround.OnDisk})
	if err != nil {
		return nil, lockError(err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	tables, err := tablesIn(dir)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, logDir)
	if _, missing := os.Stat(log); missing != nil && len(tables) == 0 {
		return nil, fmt.Errorf("%w: there are neither tables nor a log in %s", kv.ErrCorrupt, dir)
	}
	sorted, err := pebble.Open(filepath.Join(to, "sorted"), &pebble.Options{DisableWAL: true, Logger: workaround.Logger{}})
	if err != nil {
		return nil, err
	}
	r := &rebuilding{ctx: ctx, sorted: sorted}
	for _, number := range tables {
		if err = r.table(filepath.Join(dir, fmt.Sprintf("%06d.sst", number)), number); err != nil {
			break
		}
	}
	store := filepath.Join(to, "store")
	if err == nil {
		err = r.write(store)
	}
	if err = errors.Join(err, sorted.Close()); err != nil {
		return nil, err
	}
	made := filepath.Join(store, logDir)
	if err := os.RemoveAll(made); err != nil {
		return nil, err
	}
	if err := os.CopyFS(made, os.DirFS(log)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return r.damage, nil
}

// tablesIn returns the numbers of the tables in a directory, in order.
func tablesIn(dir string) (numbers []uint64, err error) {
	all, err := os.ReadDir(dir)
	for _, e := range all {
		if digits, ok := strings.CutSuffix(e.Name(), ".sst"); ok {
			if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// A rebuilding is one run of Rebuild.
type rebuilding struct {
	ctx    context.Context
	sorted *pebble.DB // what the tables have: sequence number u64, number of the table u64, place in it u64 -> kind u8, key u32, value
	batch  *pebble.Batch
	damage []error
}

// rebuildBytes is how much is written at once.
const rebuildBytes = 4 << 20

// table sorts what a table has. What can't be read is damage, unless it is an error of its own.
func (r *rebuilding) table(path string, number uint64) error {
	place := uint64(0)
	r.batch = r.sorted.NewBatch()
	var failed error
	add := func(seq uint64, kind pebble.InternalKeyKind, key, value []byte) error {
		k := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seq), number), place)
		v := append(append(binary.BigEndian.AppendUint32([]byte{byte(kind)}, uint32(len(key))), key...), value...)
		place++
		failed = cmp.Or(r.ctx.Err(), r.batch.Set(k, v, nil))
		if failed == nil && r.batch.Len() > rebuildBytes {
			failed = errors.Join(r.sorted.Apply(r.batch, pebble.NoSync), r.batch.Close())
			r.batch = r.sorted.NewBatch()
		}
		return failed
	}
	if err := readTable(r.ctx, path, add); err != nil && failed == nil {
		r.damage = append(r.damage, fmt.Errorf("%w: the table %s: %w", kv.ErrCorrupt, path, err))
	}
	return errors.Join(failed, r.sorted.Apply(r.batch, pebble.NoSync), r.batch.Close())
}

// readTable hands what a table has to add, removals of ranges too, with the end as the value.
func readTable(ctx context.Context, path string, add func(seq uint64, kind pebble.InternalKeyKind, key, value []byte) error) (err error) {
	f, err := workaround.OnDisk.Open(path)
	if err != nil {
		return err
	}
	from, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	opts := sstable.ReaderOptions{Merger: workaround.Patches()}
	table, err := sstable.NewReader(ctx, from, opts)
	if err != nil {
		return err // it has closed the file
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	ranges, err := table.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil {
		return err
	}
	if ranges != nil {
		defer ranges.Close()
		span, err := ranges.First()
		for ; span != nil && err == nil; span, err = ranges.Next() {
			for _, k := range span.Keys {
				if err := add(uint64(k.SeqNum()), k.Kind(), span.Start, span.End); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return err
		}
	}
	points, err := table.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, points.Close()) }()
	for e := points.First(); e != nil; e = points.Next() {
		value, _, err := e.Value(nil)
		if err == nil {
			err = add(uint64(e.K.SeqNum()), e.K.Kind(), e.K.UserKey, value)
		}
		if err != nil {
			return err
		}
	}
	return points.Error()
}

// write makes the store of what was sorted.
func (r *rebuilding) write(dir string) (err error) {
	db, err := Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	it, err := r.sorted.NewIterWithContext(r.ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	b := db.store.db.NewIndexedBatch()
	for ok := it.First(); ok; ok = it.Next() {
		v := it.Value()
		n := 5 + int(binary.BigEndian.Uint32(v[1:]))
		key, value := v[5:n], v[n:]
		switch kind := pebble.InternalKeyKind(v[0]); kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
			err = b.Set(key, value, nil)
		case pebble.InternalKeyKindDelete, pebble.InternalKeyKindSingleDelete, pebble.InternalKeyKindDeleteSized:
			err = b.Delete(key, nil)
		case pebble.InternalKeyKindMerge:
			err = r.patch(b, key, value)
		case pebble.InternalKeyKindRangeDelete:
			err = b.DeleteRange(key, value, nil)
		default:
			err = fmt.Errorf("%w: a row of the kind %s", kv.ErrUnsupported, kind)
		}
		if err == nil && b.Len() > rebuildBytes {
			err = errors.Join(db.store.db.Apply(b, pebble.NoSync), b.Close())
			b = db.store.db.NewIndexedBatch()
		}
		if err = cmp.Or(err, r.ctx.Err()); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(it.Error(), db.store.db.Apply(b, pebble.NoSync), b.Close(), db.store.db.Flush())
}

// patch adds a change of a value. If the value isn't there, since its table is damaged, the row is left out.
func (r *rebuilding) patch(b *pebble.Batch, key, value []byte) error {
	err := b.Merge(key, value, nil)
	if err != nil || len(r.damage) == 0 {
		return err
	}
	_, done, err := b.Get(key)
	if err == nil {
		return done.Close()
	}
	return b.Delete(key, nil)
}
