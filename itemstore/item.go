package itemstore

import (
	"context"
	"fmt"
)

// An Item is an item that was read at one of its paths.
type Item struct {
	Path Path
	Type string
	Meta
	Value any // a pointer to the type's struct; the caller's
}

// A Reader reads items: a Store or a Tx.
type Reader interface {
	// Items returns the items at the paths, in their order; paths without an item are left out. A type that the
	// schema lacks is ErrUnknownType.
	Items(ctx context.Context, paths ...Path) ([]Item, error)
}

// Get returns the item at a path, the primary one or another. Without one the error is
// ErrNotFound; an item of another type is ErrUnknownType.
func Get[T any](ctx context.Context, r Reader, path Path) (*T, error) {
	items, err := r.Items(ctx, path)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, clip(string(path)))
	}
	v, ok := items[0].Value.(*T)
	if !ok {
		return nil, fmt.Errorf("%w: %s is a %s", ErrUnknownType, clip(string(path)), items[0].Type)
	}
	return v, nil
}

// A Page is some items of a list, in its order.
type Page struct {
	Items []Item
	// Token is the place behind the page, for NextPage and Sync.
	Token Token
	// More says that the list may go on in the direction that was read.
	More bool

	first, last []byte // the rows at its ends, as they were read; nil if it is empty
}

// A ChangeKind says what a Change tells.
type ChangeKind uint8

const (
	// Changed: the item at the path is Item now, whether the client had one there or not.
	Changed ChangeKind = iota
	// Deleted: the path is free.
	Deleted
	// Outside: the list lacks the item at the path now, by its type or by a
	// filter. A client removes it, if it has it.
	Outside
)

// String returns the name in lower case.
func (k ChangeKind) String() string {
	switch k {
	case Changed:
		return "changed"
	case Deleted:
		return "deleted"
	case Outside:
		return "outside"
	}
	return fmt.Sprintf("ChangeKind(%d)", uint8(k))
}

// A Change is one of Changes.
type Change struct {
	Kind ChangeKind
	Path Path
	Item *Item // of Changed
}

// Changes are what has changed in the part of a list that a token has seen.
type Changes struct {
	// Reset says that the token is too old, or of another version of the schema: the
	// client forgets all that it has of the list before it applies Changes.
	Reset   bool
	Changes []Change
	Token   Token
	// More says that there are more changes already: Sync goes on with Token.
	More bool
}
