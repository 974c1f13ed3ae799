package actordocs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/docstore/actordocs"
	"github.com/greenroomdb/greenroom/internal/beside/besidetest"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// seats are the seats of a course, with a category of those that Ada has. A text index would be looked after now and then, which
// may meet a fault that the update doesn't. It implements besidetest.Seats.
type seats struct{ *docstore.Store }

func newSeats(ctx context.Context, e kv.Engine) (*seats, error) {
	store, err := docstore.Open(ctx, e, "seats", nil)
	if err != nil {
		return nil, err
	}
	return &seats{store}, store.Update(ctx, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(ctx, "/math"), tx.CreateCategory(ctx, "/ada", "Seat", "holder == 'ada'"))
	})
}

func seatPath(n int) docstore.Path { return docstore.Join("math", fmt.Sprint(n)) }

func (s *seats) In(tx *greenroom.Tx, n int) (bool, error) {
	docs, err := actordocs.In(tx, s.Store)
	if err != nil {
		return false, err
	}
	return docs.Exists(tx, seatPath(n))
}

func (s *seats) Take(tx *greenroom.Tx, n int) error {
	docs, err := actordocs.In(tx, s.Store)
	if err != nil {
		return err
	}
	return docs.Create(tx, seatPath(n), "Seat", docstore.Properties{"holder": "ada"})
}

func (s *seats) TakeAlone(ctx context.Context, n int) error {
	return s.Update(ctx, func(tx *docstore.Tx) error {
		return tx.Create(ctx, seatPath(n), "Seat", docstore.Properties{"holder": "bo"})
	})
}

func (s *seats) Taken(ctx context.Context, n int) (taken bool, err error) {
	err = s.View(ctx, func(tx *docstore.Tx) (err error) {
		taken, err = tx.Exists(ctx, seatPath(n))
		return err
	})
	return taken, err
}

func (s *seats) Check(ctx context.Context) error {
	problems, err := s.Store.Check(ctx)
	if len(problems) > 0 {
		err = errors.Join(err, fmt.Errorf("%q", problems))
	}
	return err
}

// TestIn: documents pass the suite.
func TestIn(t *testing.T) {
	besidetest.Run(t, &besidetest.Model{
		Open: func(ctx context.Context, e kv.Engine) (besidetest.Seats, error) { return newSeats(ctx, e) },
	})
}

// TestUpkeep: a text index that gets many documents of actors is looked after, beside further commits.
func TestUpkeep(t *testing.T) {
	ctx, e := t.Context(), memkv.New()
	s, err := newSeats(ctx, e)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(ctx, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/holders", "Seat", "holder") }); err != nil {
		t.Fatal(err)
	}
	store, err := greenroom.New(ctx, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	actor, err := store.Actor(ctx, "ada", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer actor.Close()
	const commits, each = 30, 100
	for i := range commits {
		for again := true; again; {
			err := actor.Update(ctx, func(tx *greenroom.Tx) error {
				for n := range each {
					if err := s.Take(tx, i*each+n); err != nil {
						return err
					}
				}
				return nil
			})
			if again = errors.Is(err, greenroom.ErrConflict); err != nil && !again {
				t.Fatal(err)
			}
		}
	}
	err = s.View(ctx, func(tx *docstore.Tx) error {
		found, err := tx.Search(ctx, "/holders", "*ad*", nil)
		if len(found) != commits*each {
			t.Errorf("%d are found, want %d", len(found), commits*each)
		}
		return err
	})
	if err := errors.Join(err, s.Check(ctx)); err != nil {
		t.Error(err)
	}
}

// TestRefused: what a hook refuses doesn't land with the actor, even if the function passes over the error.
func TestRefused(t *testing.T) {
	ctx, e := t.Context(), memkv.New()
	refuse := errors.New("refused")
	docs, err := docstore.Open(ctx, e, "refused", &docstore.Options{Hooks: []docstore.Hook{
		func(context.Context, *docstore.Tx, *docstore.Event) error { return refuse },
	}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := greenroom.New(ctx, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	actor, err := store.Actor(ctx, "ada", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer actor.Close()
	err = actor.Update(ctx, func(tx *greenroom.Tx) error {
		d, err := actordocs.In(tx, docs)
		if err != nil {
			return err
		}
		_ = d.CreateContainer(tx, "/c")
		return tx.Put([]byte("key"), []byte("value"))
	})
	if !errors.Is(err, refuse) {
		t.Errorf("the update is %v", err)
	}
	err = docs.View(ctx, func(tx *docstore.Tx) error {
		if ok, err := tx.Exists(ctx, "/c"); ok || err != nil {
			t.Errorf("the container is there: %v, %v", ok, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
