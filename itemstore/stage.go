package itemstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/greenroomdb/greenroom/internal/overlay"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A stage is what a transaction changes. The rows of items hold the stamp of the commit, which is
// known when it lands. So a stage keeps what changes to itself, where reads see it, and flush
// writes all of it at the end.
type stage struct {
	view
	last map[string]uint64 // numbers of sequences and groups, by the keys of their rows
	size int               // about what flush writes, and what was read for it, in bytes; not less
}

// A change is what a transaction does to an item.
type change struct {
	key      []byte // the packed primary path
	old, new *record
	payload  []byte // of new, whole; nil as long as new is old
	alias    bool   // there is a row of another item at the path
}

// change returns what the transaction does to the item of a primary path: nothing so far, unless it did.
func (s *stage) change(ctx context.Context, primary []byte) (*change, error) {
	if ch := s.items[string(primary)]; ch != nil {
		return ch, nil
	}
	r, err := s.row(ctx, s.keys.key(partItem, primary))
	if err != nil {
		return nil, err
	}
	ch := &change{key: bytes.Clone(primary)}
	if ch.alias = r != nil && r.kind != rowPrimary; r != nil && !ch.alias {
		ch.old, ch.new = r, r
	}
	return ch, nil
}

// replace makes r what an item becomes, nil for none, for the reads of the transaction.
func (s *stage) replace(ch *change, r *record, payload []byte) error {
	if r != nil {
		r.whole = payload
	}
	before, err := s.places(ch.key, ch.new)
	if err != nil {
		return err
	}
	after, err := s.places(ch.key, r)
	if err != nil {
		return err
	}
	stage := func(key []byte, r *record) {
		s.rows.Put(overlay.Point[*record]{Key: key, Pending: r, Kind: overlay.Pending})
	}
	for _, p := range before {
		s.size += keyCopies * len(p.key)
		// Another item may have taken the path over in the same call.
		if o, ok := s.rows.Get(p.key); !ok || o.Pending != nil && bytes.Equal(o.Pending.owner(p.path), ch.key) {
			stage(p.key, nil)
		}
	}
	for _, p := range after {
		row := p.row(r, ch.key)
		s.size += keyCopies*len(p.key) + recordSize + len(row.payload) + len(ch.key)
		stage(p.key, row)
	}
	s.size += len(payload)
	ch.new, ch.payload = r, payload
	if s.items == nil {
		s.items = map[string]*change{}
	}
	s.items[string(ch.key)] = ch
	return nil
}

// delete deletes the item at a packed path. A free path is fine.
func (s *stage) delete(ctx context.Context, path []byte) error {
	r, err := s.row(ctx, s.keys.key(partItem, path))
	if err != nil || r == nil {
		return err
	}
	primary := bytes.Clone(r.owner(path))
	ch, err := s.change(ctx, primary)
	if err != nil {
		return err
	}
	if ch.new == nil {
		return fmt.Errorf("itemstore: no item %s, to which an alias leads: %w", s.name(primary), ErrCorrupt)
	}
	return s.replace(ch, nil, nil)
}

// next returns the next number of the row of a key, which counts from 1.
func (s *stage) next(ctx context.Context, key []byte) (uint64, error) {
	n, ok := s.last[string(key)]
	if !ok {
		b, ok, err := find(ctx, s.tx, key)
		if err != nil {
			return 0, err
		}
		if ok && len(b) != 8 {
			return 0, fmt.Errorf("itemstore: row of a number: %d bytes: %w", len(b), ErrCorrupt)
		}
		if ok {
			n = binary.BigEndian.Uint64(b)
		}
	}
	if s.last == nil {
		s.last = map[string]uint64{}
	}
	s.last[string(key)] = n + 1
	return n + 1, nil
}

// flush writes what the transaction changes.
func (s *stage) flush(ctx context.Context) error {
	type changed struct {
		*change
		before, after []place
	}
	var list []changed
	for _, k := range slices.Sorted(maps.Keys(s.items)) {
		ch := s.items[k]
		if ch.old == ch.new {
			continue
		}
		before, err := s.places(ch.key, ch.old)
		if err != nil {
			return err
		}
		after, err := s.places(ch.key, ch.new)
		if err != nil {
			return err
		}
		list = append(list, changed{ch, before, after})
	}
	counted := map[string]bool{}
	for _, step := range []func(*change, []place, []place) error{
		func(ch *change, before, after []place) error { return s.count(ctx, counted, before, after) },
		s.remove,
		s.write,
	} {
		for _, ch := range list {
			if err := step(ch.change, ch.before, ch.after); err != nil {
				return err
			}
		}
	}
	for key, n := range s.last {
		if err := s.tx.Set([]byte(key), binary.BigEndian.AppendUint64(nil, n)); err != nil {
			return err
		}
	}
	return nil
}

// count counts the commit in each versioned group that an item is, or was, in.
func (s *stage) count(ctx context.Context, counted map[string]bool, before, after []place) error {
	for _, p := range slices.Concat(before, after) {
		if !p.Versioned {
			continue
		}
		key := s.keys.key(partCount, group(p.path))
		if counted[string(key)] {
			continue
		}
		counted[string(key)] = true
		if _, err := s.next(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// version returns the version that this commit is in the group of a place.
func (s *stage) version(p place) Version {
	if p.Versioned {
		return versionOf(s.last[string(s.keys.key(partCount, group(p.path)))])
	}
	return pendingVersion
}

// remove removes what the store has of an item that changes, and logs where it isn't any more.
func (s *stage) remove(ch *change, before, _ []place) error {
	k := s.keys
	for _, p := range before {
		if !p.NoSync {
			if err := s.tx.Clear(k.logKey(p.path, ch.old.version(*p.pathVersions))); err != nil {
				return err
			}
		}
		o, _ := s.rows.Get(p.key)
		stays := o.Pending != nil && bytes.Equal(o.Pending.owner(p.path), ch.key)
		switch {
		case o.Pending == nil:
			if err := s.tx.Clear(p.key); err != nil {
				return err
			}
		case !stays: // another item is there
			others, err := s.places(o.Pending.owner(p.path), s.items[string(o.Pending.owner(p.path))].new)
			if err != nil {
				return err
			}
			stays = slices.ContainsFunc(others, func(q place) bool { return !q.NoSync && bytes.Equal(q.key, p.key) })
		}
		if stays || p.NoSync {
			continue
		}
		v := s.version(p)
		if err := s.log(p.path, v, true); err != nil {
			return err
		}
		forget := k.dueLog(s.now.Add(s.opts.TombstoneAge).Unix(), v, p.path)
		if err := s.set(forget, len(forget)-len(p.path)-stampSize, v, nil); err != nil {
			return err
		}
	}
	if ch.old == nil {
		return nil
	}
	if ch.old.expires != 0 {
		if err := s.tx.Clear(k.dueItem(ch.old.expires, ch.key)); err != nil {
			return err
		}
	}
	if ch.old.chunked {
		return keys.Delete(k.in(s.tx), chunkKey{ch.key})
	}
	return nil
}

// write writes the rows of an item, and its changes to the log.
func (s *stage) write(ch *change, _, after []place) error {
	for _, p := range after {
		if p.count = 0; p.Versioned {
			p.count = s.version(p).Count()
		}
	}
	for _, p := range after {
		if len(p.path) > s.maxPath {
			return fmt.Errorf("itemstore: path of %d packed bytes, %d are allowed: %w", len(p.path), s.maxPath, txn.ErrKeyTooLarge)
		}
		ch.new.stamp = pendingVersion
		value := p.row(ch.new, ch.key).append(nil)
		if err := s.tx.SetVersionstampedValue(p.key, binary.LittleEndian.AppendUint32(value, stampOffset)); err != nil {
			return err
		}
		if p.NoSync {
			continue
		}
		if err := s.log(p.path, s.version(p), false); err != nil {
			return err
		}
	}
	if ch.new == nil {
		return nil
	}
	if ch.new.expires != 0 {
		if err := s.tx.Set(s.keys.dueItem(ch.new.expires, ch.key), nil); err != nil {
			return err
		}
	}
	if ch.new.chunked {
		return keys.Put(s.keys.in(s.tx), chunkKey{ch.key}, ch.payload)
	}
	return nil
}

// log notes that the item at a path was changed, or deleted.
func (s *stage) log(path []byte, v Version, deleted bool) error {
	value := []byte(nil)
	if deleted {
		value = []byte{1}
	}
	key := s.keys.logKey(path, v)
	return s.set(key, len(key)-len(path)+len(group(path))-stampSize, v, value)
}

// set stores value under a key that has a version's element at offset.
func (s *stage) set(key []byte, offset int, v Version, value []byte) error {
	if v != pendingVersion {
		return s.tx.Set(key, value)
	}
	return s.tx.SetVersionstampedKey(binary.LittleEndian.AppendUint32(key, uint32(offset+1)), value)
}

// deleteBatch is how many rows DeletePrefix and Sweep look at in one transaction.
const deleteBatch = 200

// batchBytes is after how many bytes a transaction of DeletePrefix, Sweep and Build ends, so that those of
// large items are not too large.
const batchBytes = 4 << 20

// keyCopies is how often the key of a row counts in a transaction that moves it, with the log and with what conflicts, at most.
const keyCopies = 16
