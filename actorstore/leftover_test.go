package actorstore_test

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// Actors that were closed, dropped, refused or never written to leave nothing in the
// memory of their Store.
func TestNothingLeftOver(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, batch.Limits{})
		for i := range 300 {
			a, err := s.Named(ctx, fmt.Sprint("room ", i), nil)
			must(t, err)
			switch i % 4 {
			case 0: // never written to
			case 1:
				must(t, a.Apply(ctx, new(batch.Batch)))
			case 2:
				must(t, a.Put(ctx, user("k"), nil))
				must(t, a.Drop(ctx))
			default:
				var b batch.Batch
				b.Put(user("k"), []byte("v"))
				must(t, a.Apply(ctx, &b))
				snap, err := a.Snapshot(ctx)
				must(t, err)
				_, err = s.Fork(ctx, snap, nil)
				must(t, err)
				must(t, snap.Close())
			}
			if _, err := s.Actor(ctx, a.ID(), &actorstore.ActorOptions{MustExist: true}); err == nil {
				t.Fatal("an actor could be opened twice, or where there is none")
			}
			must(t, a.Close())
		}
		if actors, flights := actorstore.Held(s); actors != 0 || flights > actorstore.MaxFree {
			t.Errorf("%d actors, %d flights", actors, flights)
		}
	})
}
