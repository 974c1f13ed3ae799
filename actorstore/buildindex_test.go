package actorstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestBuildIndexResumes: a build that was interrupted goes on behind the last page, one that another store has ended meanwhile doesn't take
// that back, and one that is asked for again begins at the first actor and leaves the index whole for searches.
func TestBuildIndexResumes(t *testing.T) {
	mem := memkv.New()
	s, all := population(t, mem, 300)
	if whole, err := s.Indexed(ctx); !whole || err != nil {
		t.Fatalf("a new store: %v, %v", whole, err)
	}
	must(t, mem.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(layout.BuiltKey())}}))
	one, other := openStore(t, mem, batch.Limits{}), openStore(t, mem, batch.Limits{})
	stop := errors.New("stop")
	visits := func(s *actorstore.Store, again bool, at func(n int) error) (n int, err error) {
		err = s.BuildIndex(ctx, again, func(context.Context, actorstore.ID) error {
			n++
			return at(n)
		})
		return n, err
	}
	none := func(int) error { return nil }
	if n, err := visits(one, false, func(n int) error {
		if n == 280 {
			return stop
		}
		return nil
	}); n != 280 || !errors.Is(err, stop) {
		t.Errorf("interrupted after %d, %v", n, err)
	}
	if whole, err := other.Indexed(ctx); whole || err != nil {
		t.Errorf("interrupted: whole is %v, %v", whole, err)
	}
	n, err := visits(one, false, func(n int) error {
		if n > 1 {
			return nil
		}
		m, err := visits(other, false, none) // which ends before
		if left := len(all) - 256; m != left {
			t.Errorf("the other one has visited %d, want %d", m, left)
		}
		return err
	})
	if left := len(all) - 256; n != left || err != nil {
		t.Errorf("resumed for %d, want %d, %v", n, left, err)
	}
	if n, err := visits(openStore(t, mem, batch.Limits{}), false, none); n != 0 || err != nil {
		t.Errorf("whole, and visited %d, %v", n, err)
	}
	third := openStore(t, mem, batch.Limits{})
	if n, err := visits(third, true, func(n int) error {
		if n < 270 {
			return nil
		}
		if whole, err := openStore(t, mem, batch.Limits{}).Indexed(ctx); !whole || err != nil {
			t.Errorf("while it is built again: whole is %v, %v", whole, err)
		}
		return stop
	}); n != 270 || !errors.Is(err, stop) {
		t.Errorf("again: %d, %v", n, err)
	}
	if whole, err := openStore(t, mem, batch.Limits{}).Indexed(ctx); !whole || err != nil {
		t.Errorf("a build that was to be made again, and was interrupted: whole is %v, %v", whole, err)
	}
}
