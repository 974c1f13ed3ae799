package actoritems_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/beside/besidetest"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/itemstore/actoritems"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A Seat is one of a course; it has a version.
type Seat struct {
	_       struct{} `path:"/course-:Course/seat-:N, /holder-:Holder/course-:Course/seat-:N"`
	Course  string
	N       int
	Holder  string
	Version itemstore.Version `item:"modifiedversion"`
}

// seats are the seats of a course. It implements besidetest.Seats.
type seats struct{ *itemstore.Store }

func newSeats(ctx context.Context, e kv.Engine) (*seats, error) {
	schema, err := itemstore.NewSchema(1, itemstore.TypeOf[Seat](nil))
	if err != nil {
		return nil, err
	}
	store, err := itemstore.Open(ctx, e, "seats", schema, nil)
	return &seats{store}, err
}

func (s *seats) In(tx *greenroom.Tx, n int) (bool, error) {
	items, err := actoritems.In(tx, s.Store)
	if err != nil {
		return false, err
	}
	list, err := items.Items(tx, itemstore.At("course", "math", "seat", n))
	return len(list) > 0, err
}

func (s *seats) Take(tx *greenroom.Tx, n int) error {
	return s.put(tx, &Seat{Course: "math", N: n, Holder: "ada"})
}

func (s *seats) put(tx *greenroom.Tx, seat *Seat) error {
	items, err := actoritems.In(tx, s.Store)
	if err != nil {
		return err
	}
	return items.Put(tx, seat, nil)
}

func (s *seats) TakeAlone(ctx context.Context, n int) error {
	return s.Put(ctx, &Seat{Course: "math", N: n, Holder: "bo"}, nil)
}

func (s *seats) Taken(ctx context.Context, n int) (bool, error) {
	list, err := s.Items(ctx, itemstore.At("course", "math", "seat", n))
	return len(list) == 1, err
}

func (s *seats) Check(ctx context.Context) error {
	problems, err := s.Store.Check(ctx)
	if len(problems) > 0 {
		err = errors.Join(err, fmt.Errorf("%v", problems))
	}
	return err
}

// TestIn: items pass the suite.
func TestIn(t *testing.T) {
	besidetest.Run(t, &besidetest.Model{
		Open: func(ctx context.Context, e kv.Engine) (besidetest.Seats, error) { return newSeats(ctx, e) },
		Held: true,
	})
}

// TestVersion: an item has its version when Update returns.
func TestVersion(t *testing.T) {
	ctx, e := t.Context(), memkv.New()
	s, err := newSeats(ctx, e)
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
	seat := &Seat{Course: "math", N: 1, Holder: "ada"}
	if err := actor.Update(ctx, func(tx *greenroom.Tx) error { return s.put(tx, seat) }); err != nil {
		t.Fatal(err)
	}
	if seat.Version == (itemstore.Version{}) {
		t.Error("the item has no version")
	}
}
