package docstore

import (
	"context"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Small bounds what transactions of s do, so that few documents reach the bounds.
func Small(s *Store) { s.bounds = bounds{explode: 5, segment: 3, inline: 4, build: 3, delete: 4} }

// Raw stores a row in s as it is.
func Raw(ctx context.Context, s *Store, key string, value []byte) error {
	return s.db.Update(ctx, func(t *txn.Tx) error { return newRows(t, s.sub, false, &s.bounds).w.Set([]byte(key), value) })
}

// Keys returns the keys of all rows of s.
func Keys(ctx context.Context, s *Store) (keys []string, err error) {
	err = s.db.View(ctx, func(t *txn.Tx) error {
		keys = nil
		r := newRows(t, s.sub, false, &s.bounds)
		for key := range r.scan(ctx, kv.Range{}) {
			keys = append(keys, key)
		}
		return r.err
	})
	return keys, err
}
