package docstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
)

func hooked(t *testing.T, h docstore.Hook) *docstore.Store {
	return open(t, &docstore.Options{Hooks: []docstore.Hook{h}})
}

// TestHookDelete: a hook creates something in the container that is being deleted.
func TestHookDelete(t *testing.T) {
	ctx := t.Context()
	for _, in := range []docstore.Path{"/c/a", "/c/z"} {
		s := hooked(t, func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
			if e.Op == docstore.OpDelete && e.Label == "T" {
				return tx.Create(ctx, in, "Trace", nil)
			}
			return nil
		})
		update(t, s, func(tx *docstore.Tx) error {
			return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/m", "T", nil))
		})
		update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/c", true) })
		checked(t, s)
	}
}

func TestHookMove(t *testing.T) {
	ctx := t.Context()
	for _, in := range []docstore.Path{"/c/a", "/c/z"} {
		s := hooked(t, func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
			if e.Op == docstore.OpMove && e.Label == "T" {
				return tx.Create(ctx, in, "Trace", nil)
			}
			return nil
		})
		update(t, s, func(tx *docstore.Tx) error {
			return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/m", "T", nil))
		})
		update(t, s, func(tx *docstore.Tx) error { return tx.Move(ctx, "/c", "/d") })
		checked(t, s)
	}
}

// TestHookSibling: a hook deletes a sibling that is still to come.
func TestHookSibling(t *testing.T) {
	ctx := t.Context()
	for _, op := range []docstore.Op{docstore.OpMove, docstore.OpDelete} {
		for _, victim := range []docstore.Path{"/c/b", "/c/z"} {
			for _, compat := range []bool{false, true} {
				s := open(t, &docstore.Options{Compat: compat, Hooks: []docstore.Hook{func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
					if e.Op == op && e.Path.Name() == "a" {
						return tx.Delete(ctx, victim, false)
					}
					return nil
				}}})
				update(t, s, func(tx *docstore.Tx) error {
					return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/a", "T", nil), tx.Create(ctx, "/c/b", "T", nil), tx.Create(ctx, "/c/z", "T", nil))
				})
				err := s.Update(ctx, func(tx *docstore.Tx) error {
					if op == docstore.OpMove {
						return tx.Move(ctx, "/c", "/d")
					}
					return tx.Delete(ctx, "/c", true)
				})
				if err != nil {
					t.Errorf("%v %s %v: %v", op, victim, compat, err)
				}
				checked(t, s)
			}
		}
	}
}

// TestHookContainer: a hook deletes the container whose child is deleted.
func TestHookContainer(t *testing.T) {
	ctx := t.Context()
	n := 0
	s := hooked(t, func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
		if e.Op == docstore.OpDelete && e.Path == "/c" {
			n++
		}
		if e.Op == docstore.OpDelete && e.Label == "T" {
			return tx.Delete(ctx, "/c", true)
		}
		return nil
	})
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/m", "T", nil), tx.Create(ctx, "/c/n", "T", nil))
	})
	update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/c", true) })
	if n != 1 {
		t.Errorf("%d events", n)
	}
	checked(t, s)
}
