package itemstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/big"
	"slices"
)

// List is Tx.List without a transaction: it reads page by page, each of the state that is the
// newest one then, so that it may go on for as long as it takes.
func (s *Store) List(ctx context.Context, prefix Path, opts *ListOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		left := 0 // without a limit it is below 0 from the first item on
		if opts != nil {
			left = opts.Limit
		}
		page, err := s.first(ctx, prefix, opts, false)
		for ; err == nil; page, err = s.NextPage(ctx, page.Token, nil) {
			for _, item := range page.Items {
				if left--; !yield(item, nil) || left == 0 {
					return
				}
			}
			if !page.More {
				return
			}
		}
		yield(Item{}, err)
	}
}

// Page returns the first items of a list, of one state; see Tx.List. Without a limit it has about a
// megabyte of items at most. If few items of a long list are wanted, a page may be shorter, and even empty, though
// More is set.
func (s *Store) Page(ctx context.Context, prefix Path, opts *ListOptions) (*Page, error) {
	return s.first(ctx, prefix, opts, true)
}

// first returns the first page of a list; sync says whether its token is for Sync, too.
func (s *Store) first(ctx context.Context, prefix Path, opts *ListOptions, sync bool) (page *Page, err error) {
	err = s.View(ctx, func(tx *Tx) error {
		q, err := tx.p.types.query(s.env, prefix, opts)
		if err != nil {
			return err
		}
		t := &token{Nonce: tx.p.types.head.nonce[:], Schema: s.schema, Prefix: prefix, ListOptions: q.opts}
		if sync && q.syncable() {
			if t.Seen, err = tx.p.logEnd(ctx, q.at.key[:q.at.group]); err != nil {
				return err
			}
		}
		page, err = q.page(ctx, &tx.p.view, t, q.start, q.end, q.opts.Reverse)
		return err
	})
	return page, err
}

// NextPage returns the items behind a token, with the limit that the list began with, of the state that
// is the newest one now: what was put there since is in it. Going backward doesn't change what Sync
// tells of. A token of another store or of another version of the schema is ErrToken.
func (s *Store) NextPage(ctx context.Context, at Token, opts *NextOptions) (page *Page, err error) {
	err = s.View(ctx, func(tx *Tx) error {
		t, err := tx.p.token(at)
		if err != nil {
			return err
		}
		if t.Schema != s.schema {
			return fmt.Errorf("%w: it is of version %d of the schema, and this is %d", ErrToken, t.Schema, s.schema)
		}
		q, err := tx.p.types.query(s.env, t.Prefix, &t.ListOptions)
		if err != nil {
			return err
		}
		backward := opts != nil && opts.Backward
		start, end := q.beyond(s.env, t, backward)
		page, err = q.page(ctx, &tx.p.view, t, start, end, q.opts.Reverse != backward)
		if err == nil && backward {
			slices.Reverse(page.Items)
		}
		return err
	})
	return page, err
}

// Sync returns what has changed, since the token was made, among the items up to the place that the list
// has come to, in the order of the commits; further pages are for NextPage. A client that applies
// them to what it has, and what follows as long as More is set, has what a new list would
// give it. Changes at key paths with the option nosync aren't told.
//
// The token is of a list below a group, and not of an index. It must not be used again
// once the client has applied what it gave.
func (s *Store) Sync(ctx context.Context, at Token) (changes *Changes, err error) {
	err = s.View(ctx, func(tx *Tx) error {
		t, err := tx.p.token(at)
		if err != nil {
			return err
		}
		q, err := tx.p.types.query(s.env, t.Prefix, &t.ListOptions)
		if err != nil {
			return err
		}
		if !q.syncable() {
			return fmt.Errorf("%w: a list of %q can't be synced, as it isn't below a group", ErrToken, clip(string(t.Prefix)))
		}
		group := q.at.key[:q.at.group]
		forgot, err := tx.p.forgot(ctx, group)
		if err != nil {
			return err
		}
		reset := t.Schema != s.schema || bytes.Compare(t.Seen, seenAll(forgot)) < 0
		if reset {
			t.Schema, t.Filling, t.First, t.Last = s.schema, true, nil, nil
			if t.Seen, err = tx.p.logEnd(ctx, group); err != nil {
				return err
			}
		}
		if t.Filling {
			changes, err = q.fill(ctx, &tx.p.view, t)
		} else {
			changes, err = q.changes(ctx, &tx.p.view, t, group)
		}
		if err != nil {
			return err
		}
		changes.Reset = reset
		changes.Token, err = t.pack()
		return err
	})
	return changes, err
}

// DeletePrefix deletes the items whose paths begin with prefix, in transactions of at most
// some hundred, and returns how many it deleted. What comes meanwhile may be left. If it ends early, by an error or
// with ctx, what was deleted stays so; called again it goes on.
func (s *Store) DeletePrefix(ctx context.Context, prefix Path) (deleted int, err error) {
	for {
		n := 0
		err := s.Update(ctx, func(tx *Tx) error {
			n = 0
			q, err := tx.p.types.query(s.env, prefix, nil)
			if err != nil {
				return err
			}
			var primaries [][]byte
			for row, err := range tx.p.scan(ctx, q.start, q.end, false) {
				if err != nil {
					return err
				}
				key, _, err := q.place(s.env, row)
				if err != nil {
					return err
				}
				primaries = append(primaries, bytes.Clone(row.rec.owner(key)))
				if len(primaries) == deleteBatch {
					break
				}
			}
			slices.SortFunc(primaries, bytes.Compare)
			primaries = slices.CompactFunc(primaries, bytes.Equal)
			for _, p := range primaries {
				if tx.p.size > batchBytes {
					break
				}
				if err := tx.p.delete(ctx, p); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil || n == 0 {
			return deleted, err
		}
		deleted += n
	}
}

// Segments cuts the store into n parts, so that n workers can list all of it at the same time. The
// parts are about equally large where the engine can tell sizes. They stay what they are whatever
// is put and deleted meanwhile.
func (s *Store) Segments(ctx context.Context, n int) ([]Segment, error) {
	n = max(n, 1)
	whole := s.keys.key(partItem)
	var cuts [][]byte
	err := s.View(ctx, func(tx *Tx) error {
		cuts = nil
		first, last, err := tx.p.ends(ctx)
		if err != nil || first == nil {
			return err
		}
		total, err := tx.p.tx.EstimatedSize(ctx, whole, after(whole))
		sizes := err == nil && total > 0
		for i := 1; i < n; i++ {
			lo, hi := number(first), number(last)
			for range 8 * keyDigits {
				mid := new(big.Int).Rsh(new(big.Int).Add(lo, hi), 1)
				if !sizes {
					step := new(big.Int).Mul(new(big.Int).Sub(hi, lo), big.NewInt(int64(i)))
					lo = lo.Add(lo, step.Div(step, big.NewInt(int64(n))))
					break
				}
				size, err := tx.p.tx.EstimatedSize(ctx, whole, append(bytes.Clone(whole), digits(mid)...))
				if err != nil {
					return err
				}
				if size*int64(n) < total*int64(i) {
					lo = mid
				} else {
					hi = mid
				}
			}
			cuts = append(cuts, digits(lo))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := []Segment{{}}
	for _, c := range cuts {
		list[len(list)-1].End = c
		list = append(list, Segment{Start: c})
	}
	list[len(list)-1].End = []byte{0xff}
	return list, nil
}

// keyDigits is how many bytes of a key a cut has.
const keyDigits = 24

// number returns the first bytes of a key as a number.
func number(key []byte) *big.Int {
	return new(big.Int).SetBytes(append(bytes.Clone(key), make([]byte, keyDigits)...)[:keyDigits])
}

// digits is its inverse.
func digits(n *big.Int) []byte { return n.FillBytes(make([]byte, keyDigits)) }
