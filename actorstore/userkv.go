package actorstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// A UserEntry is a user key with its value.
type UserEntry struct{ Key, Value []byte }

// GetText returns the value of a user key as a text, each byte that is not part of UTF-8
// being replaced by U+FFFD. A missing key is ErrNotFound; an empty value is one.
func (u *User) GetText(ctx context.Context, key string) (string, error) {
	value, err := u.Get(ctx, []byte(key), nil)
	if err != nil {
		return "", err
	}
	return string([]rune(string(value))), nil
}

// PutText stores a text under a user key, durably.
func (u *User) PutText(ctx context.Context, key, value string) error {
	return u.Put(ctx, []byte(key), []byte(value))
}

// DeleteText removes a user key, durably; a missing one is no error.
func (u *User) DeleteText(ctx context.Context, key string) error {
	return u.Delete(ctx, []byte(key))
}

// GetBatch returns the values of user keys, all of one state, in the order of keys: nil for
// a key that is not there, never nil for one that is. The values are the caller's. More
// keys than Limits.Entries are refused with a *batch.LimitError, which says how many there
// may be.
func (u *User) GetBatch(ctx context.Context, keys [][]byte) ([][]byte, error) {
	if err := u.checkCount(len(keys)); err != nil {
		return nil, fmt.Errorf("actorstore: get user keys: %w", err)
	}
	whole := make([][]byte, len(keys))
	for i, key := range keys {
		whole[i] = UserKey(key)
	}
	if a, ok := u.from.(*Actor); ok {
		return a.GetMany(ctx, whole)
	}
	for i, key := range whole { // of a snapshot, which is one state
		value, err := u.from.Get(ctx, key, []byte{})
		switch {
		case err == nil:
			whole[i] = value
		case errors.Is(err, ErrNotFound):
			whole[i] = nil
		default:
			return nil, err
		}
	}
	return whole, nil
}

// PutBatch stores entries durably, all or none. Of two with the same key the later one
// stays. More entries than Limits.Entries, or more bytes than Limits.Payload, are refused
// with a *batch.LimitError, which says how much there may be, and nothing is written: a
// batch of a user's is never split. PutMany takes any number.
func (u *User) PutBatch(ctx context.Context, entries []UserEntry) error {
	var b batch.Batch
	for _, e := range entries {
		b.Put(UserKey(e.Key), e.Value)
	}
	if err := u.commitBatch(ctx, &b); err != nil {
		return fmt.Errorf("actorstore: put user keys: %w", err)
	}
	return nil
}

// DeleteBatch removes user keys durably, all or none; those that are missing are no error.
// The limits are those of PutBatch.
func (u *User) DeleteBatch(ctx context.Context, keys [][]byte) error {
	var b batch.Batch
	for _, key := range keys {
		b.Delete(UserKey(key))
	}
	if err := u.commitBatch(ctx, &b); err != nil {
		return fmt.Errorf("actorstore: delete user keys: %w", err)
	}
	return nil
}

// commitBatch commits what must be one sub-batch.
func (u *User) commitBatch(ctx context.Context, b *batch.Batch) error {
	if u.to == nil {
		return ErrReadOnly
	}
	if err := u.checkCount(b.Len()); err != nil {
		return err
	}
	limits := u.to.Limits()
	subs, err := b.Split(limits, nil)
	if err != nil {
		return err
	}
	if len(subs) > 1 {
		n := 0
		for _, s := range subs {
			n += s.Payload
		}
		return &batch.LimitError{Err: batch.ErrTooLarge, What: "bytes of a user's batch", Size: n, Limit: limits.Payload}
	}
	return u.to.Commit(ctx, b)
}

// checkCount refuses more entries than a batch may have. A snapshot has no limits of its
// own: those of its store count.
func (u *User) checkCount(n int) error {
	limit := batch.DefaultLimits().Entries
	switch from := u.from.(type) {
	case *Actor:
		limit = from.Limits().Entries
	case *Snapshot:
		limit = from.space.store.limits.Entries
	}
	if n > limit {
		return &batch.LimitError{Err: batch.ErrTooLarge, What: "entries of a user's batch", Size: n, Limit: limit}
	}
	return nil
}

// PutMany stores any number of entries in their order, as many at a time as a batch takes,
// and returns how many are stored for good: all, or on an error those before a batch that
// was refused. It is not atomic: others may read, and write, in between. What can't fit
// by itself is refused with a *batch.LimitError before anything is written. If the actor
// is lost half way, the number is of those that were applied, and may not survive.
func (u *User) PutMany(ctx context.Context, entries []UserEntry) (n int, err error) {
	if u.to == nil {
		return 0, fmt.Errorf("actorstore: put user keys: %w", ErrReadOnly)
	}
	var all batch.Batch
	for _, e := range entries {
		all.Put(UserKey(e.Key), e.Value)
	}
	subs, err := all.Split(u.to.Limits(), nil)
	for i := 0; i < len(subs) && err == nil; i++ {
		var b batch.Batch
		for _, op := range subs[i].Ops {
			b.Put(op.Key, op.Value)
		}
		// Only the last one waits for stable storage, which is a wait for all.
		commit := u.to.Apply
		if i == len(subs)-1 {
			commit = u.to.Commit
		}
		if err = commit(ctx, &b); err == nil {
			n += len(subs[i].Ops)
		}
	}
	if err == nil {
		return n, nil
	}
	if n > 0 && u.to.Err() == nil {
		err = errors.Join(err, u.to.Sync(context.WithoutCancel(ctx)))
	}
	return n, fmt.Errorf("actorstore: put user keys: %w", err)
}

// UserPage is how many entries ListPage returns if nothing else is said.
const UserPage = 1000

// ListPage returns the first opts.Limit entries that opts select, UserPage if that is 0,
// and the options that select those behind them: nil when there are none. The entries are
// the caller's. Every page is of the newest state when it is read: what is written
// meanwhile behind the last entry is on the next one, and nothing comes twice.
func (u *User) ListPage(ctx context.Context, opts ListOptions) (page []Entry, next *ListOptions, err error) {
	size := opts.Limit
	if size <= 0 {
		size = UserPage
	}
	opts.Limit = size + 1 // to know whether there are more
	for e, err := range u.List(ctx, opts) {
		if err != nil {
			return nil, nil, err
		}
		if len(page) == size {
			return page, opts.behind(page[size-1].Key, size), nil
		}
		e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
		page = append(page, e)
	}
	return page, nil, nil
}

// behind returns the options for what comes after key.
func (o ListOptions) behind(key []byte, limit int) *ListOptions {
	o.Limit = limit
	if o.Reverse {
		o.End = bytes.Clone(key)
	} else {
		o.Start = append(slices.Clip(key), 0) // no key is between the two
	}
	return &o
}
