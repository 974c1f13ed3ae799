package actorstore

import (
	"context"
	"iter"
)

// A User reads and writes the user keys of an actor: a key here is what follows
// the byte of their namespace, so no key and no range reaches another namespace.
// Every key is allowed, the empty one too. It is safe for concurrent use.
//
// To write several user keys at once, put AppendUserKey into a batch.
type User struct {
	from Reader
	to   *Actor // nil: read-only
}

// Get appends the value of the user key to dst. See Reader.
func (u *User) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	return u.from.Get(ctx, UserKey(key), dst)
}

// List yields the entries that opts select, whose bounds and prefix are user keys,
// as the keys of the entries are. See Reader.
func (u *User) List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error] {
	opts.Prefix = UserKey(opts.Prefix)
	if opts.Start != nil {
		opts.Start = UserKey(opts.Start)
	}
	if opts.End != nil {
		opts.End = UserKey(opts.End)
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range u.from.List(ctx, opts) {
			if err == nil {
				e.Key = e.Key[1:]
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Put stores value under the user key, durably.
func (u *User) Put(ctx context.Context, key, value []byte) error {
	if u.to == nil {
		return ErrReadOnly
	}
	s := u.to.store.singles.take()
	s.key = AppendUserKey(s.key[:0], key)
	s.batch.Put(s.key, value)
	return u.to.alone(ctx, s)
}

// Delete removes the user key, durably; a missing one isn't an error.
func (u *User) Delete(ctx context.Context, key []byte) error {
	if u.to == nil {
		return ErrReadOnly
	}
	s := u.to.store.singles.take()
	s.key = AppendUserKey(s.key[:0], key)
	s.batch.Delete(s.key)
	return u.to.alone(ctx, s)
}

// DeleteRange removes the user keys in [start, end), durably; a nil end means all
// from start on.
func (u *User) DeleteRange(ctx context.Context, start, end []byte) error {
	if u.to == nil {
		return ErrReadOnly
	}
	_, last := LayoutGreenroom.Range(NamespaceUser) // as in any layout
	if end != nil {
		last = UserKey(end)
	}
	return u.to.DeleteRange(ctx, UserKey(start), last)
}
