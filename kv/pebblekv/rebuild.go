package pebblekv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
// them, so that a row may be there again that was removed, or an older value of it. damage has what can't be read of the tables: what is behind that in its table is left out, and so
// are the rows of which that has taken away what the rest of their values is made of. A log that is lost, or damaged, is lost
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
	r := &rebuilding{ctx: ctx, sorted: sorted, doubtful: map[string]error{}}
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
	// doubtful are the rows whose newest patch doesn't belong to the value that is there, with the error that says so.
	doubtful map[string]error
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
		if err = r.add(b, pebble.InternalKeyKind(v[0]), v[5:n], v[n:]); err == nil && b.Len() > rebuildBytes {
			err = errors.Join(db.store.db.Apply(b, pebble.NoSync), b.Close())
			b = db.store.db.NewIndexedBatch()
		}
		if err = cmp.Or(err, r.ctx.Err()); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.doubtful)) {
		r.damage = append(r.damage, fmt.Errorf("%w: row %q: %w", kv.ErrCorrupt, key, r.doubtful[key]))
		err = errors.Join(err, b.Delete([]byte(key), nil))
	}
	return errors.Join(err, it.Error(), db.store.db.Apply(b, pebble.NoSync), b.Close(), db.store.db.Flush())
}

// add adds one thing that the tables have to a batch of the store.
func (r *rebuilding) add(b *pebble.Batch, kind pebble.InternalKeyKind, key, value []byte) error {
	switch kind {
	case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete:
		delete(r.doubtful, string(key))
		return b.Set(key, value, nil)
	case pebble.InternalKeyKindDelete, pebble.InternalKeyKindSingleDelete, pebble.InternalKeyKindDeleteSized:
		delete(r.doubtful, string(key))
		return b.Delete(key, nil)
	case pebble.InternalKeyKindMerge:
		return r.patch(b, key, value)
	case pebble.InternalKeyKindRangeDelete:
		maps.DeleteFunc(r.doubtful, func(k string, _ error) bool { return string(key) <= k && k < string(value) })
		return b.DeleteRange(key, value, nil)
	}
	return fmt.Errorf("%w: a row of the kind %s", kv.ErrUnsupported, kind)
}

// patch adds patches of a value, which is written whole: a patch that doesn't belong to the value that is there would
// fail each flush of the store. The value of a table that replaces others, which a crash has left, has some of theirs
// already.
func (r *rebuilding) patch(b *pebble.Batch, key, patches []byte) error {
	old, done, err := b.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		r.doubtful[string(key)] = workaround.NoBase()
		return nil
	}
	if err != nil {
		return err
	}
	value, doubt := workaround.Repatch(bytes.Clone(old), patches, r.doubtful[string(key)])
	if err := done.Close(); err != nil {
		return err
	}
	if doubt != nil {
		r.doubtful[string(key)] = doubt
	} else {
		delete(r.doubtful, string(key))
	}
	return b.Set(key, value, nil)
}
