package pgkv

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/kv"
)

// Get appends the newest value of key to dst, with one round trip. See kv.Reader.
func (db *DB) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if err := db.begin(ctx); err != nil {
		return dst, err
	}
	defer db.life.leave()
	if len(key) == 0 {
		return dst, kv.ErrNotFound
	}
	out, found := dst, false
	err := db.call(ctx, db.reads, func(ctx context.Context, c *conn) (err error) {
		out, found, err = db.get(ctx, c, key, dst)
		return err
	})
	return got(out, dst, found, err)
}

// get appends the value of key to dst.
func (db *DB) get(ctx context.Context, c *conn, key, dst []byte) (out []byte, found bool, err error) {
	if len(key) > prefixLen {
		key = appendSurrogate(nil, key)
	}
	out = dst
	err = c.query(ctx, db.sql.get, [][]byte{key}, func(col [][]byte) {
		out, found = append(dst, col[0]...), true
	})
	return out, found, err
}

// got is what Get returns.
func got(out, dst []byte, found bool, err error) ([]byte, error) {
	switch {
	case err != nil:
		return dst, wrap("get", err)
	case !found:
		return dst, kv.ErrNotFound
	}
	return out, nil
}

// Scan yields the entries of r in the state at the start of the iteration, with one
// round trip if they fit into a page. Else it holds a snapshot until it ends. See
// kv.Reader.
func (db *DB) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := db.scan(ctx, r, yield); err != nil {
			yield(kv.Entry{}, err)
		}
	}
}

// scan yields all but the error that ends it.
func (db *DB) scan(ctx context.Context, r kv.Range, yield func(kv.Entry, error) bool) error {
	s := newScan(db, r)
	if s.over() {
		// Nothing is asked of the server, but it is asked of a store that is open.
		if err := db.begin(ctx); err != nil {
			return err
		}
		db.life.leave()
		return nil
	}
	done, err := db.scanFirst(ctx, s)
	if err != nil {
		return wrap("scan", err)
	}
	if done {
		_, err := s.yieldPage(ctx, yield)
		return err
	}
	// There is more than fits: read it all from one state.
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close() // it was read; a late error doesn't matter
	s = newScan(db, r)
	s.pages = 1 // more than the first page's worth
	return snap.(*snapshot).scan(ctx, s, yield)
}

// scanFirst reads the first page, and says whether that is all.
func (db *DB) scanFirst(ctx context.Context, s *scan) (done bool, err error) {
	if err := db.begin(ctx); err != nil {
		return false, err
	}
	defer db.life.leave()
	err = db.call(ctx, db.reads, s.fetch)
	return s.over(), err
}
