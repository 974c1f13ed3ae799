package actorstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// smallLimits make small batches meet every limit.
var smallLimits = batch.Limits{KeySize: 64, ValueSize: 30_000, Entries: 4, Payload: 60_000, Storage: 200_000}

func TestOpenFormat(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		for range 2 { // a new store, and one that is there
			s, err := actorstore.Open(ctx, eng, &actorstore.Options{Now: clock})
			must(t, err)
			must(t, s.Close())
		}
		row, err := eng.Get(ctx, layout.FormatKey(), nil)
		if err != nil || string(row) != string(layout.AppendFormat(nil, clock().UnixMilli())) {
			t.Errorf("the format row is %x, %v", row, err)
		}
	})
}

func TestOpenDoesNotWait(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Apply(ctx, put("k", "v")))
	must(t, a.Close())
	openActor(t, s) // takes it over
	if c := eng.Counts(); c.Durable != 0 || c.Syncs != 0 || c.Commits != 3 {
		t.Errorf("opening store and actors took %+v, want no wait for stable storage", c)
	}
}

func TestOpenErrors(t *testing.T) {
	tests := []struct {
		name string
		ops  []kv.Op
		want error
	}{
		{"something else", []kv.Op{kv.Set([]byte("k"), nil)}, kv.ErrNotAStore},
		{"actors without a format", []kv.Op{kv.Set(layout.RecordKey(layout.ID(testID), layout.PartHead), (&layout.Head{Epoch: 1, Seq: 1}).Append(nil))}, kv.ErrNotAStore},
		{"newer", []kv.Op{kv.Set(layout.FormatKey(), []byte{2, 0, 1})}, actorstore.ErrNewerFormat},
		{"damaged", []kv.Op{kv.Set(layout.FormatKey(), []byte{1})}, actorstore.ErrCorrupt},
	}
	for _, tt := range tests {
		eng := memkv.New()
		must(t, eng.Commit(ctx, &kv.Commit{Ops: tt.ops}))
		if _, err := actorstore.Open(ctx, eng, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestOpenRace: of two that open an empty engine at once, one writes the format,
// and both succeed.
func TestOpenRace(t *testing.T) {
	eng := faultkv.New(memkv.New())
	raced := false
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit && !raced {
			raced = true
			_, err := actorstore.Open(ctx, eng, nil)
			return err
		}
		return nil
	})
	_, err := actorstore.Open(ctx, eng, nil)
	must(t, err)
	if !raced {
		t.Error("the other one didn't open")
	}
}

func TestReadOnlyStore(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{ReadOnly: true})
	must(t, err)
	if _, err := s.Actor(ctx, testID, nil); !errors.Is(err, actorstore.ErrReadOnly) {
		t.Errorf("Actor: got %v, want %v", err, actorstore.ErrReadOnly)
	}
	if _, err := s.View(ctx, testID); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("View: got %v, want %v", err, actorstore.ErrUnknownActor)
	}
	if n := eng.Counts().Commits; n != 0 {
		t.Errorf("a read-only store made %d commits", n)
	}
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	must(t, a.Put(ctx, user("k"), []byte("v")))
	v, err := s.View(ctx, testID)
	must(t, err)
	if got, _ := get(t, v, user("k")); got != "v" {
		t.Errorf("the view of a read-only store shows %q", got)
	}
	must(t, v.Close())
	must(t, s.Close())
}

func TestInUse(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	if _, err := s.Actor(ctx, testID, nil); !errors.Is(err, actorstore.ErrInUse) {
		t.Errorf("got %v, want %v", err, actorstore.ErrInUse)
	}
	if other, err := s.Actor(ctx, actorstore.NewID(), nil); err != nil || other.Close() != nil {
		t.Errorf("another actor: %v", err)
	}
	must(t, a.Close())
	openActor(t, s)
}

// TestWait: a second handle waits until the first is closed, the context ends, or
// the store is closed. In a synctest bubble, a call that polls would never be idle.
func TestWait(t *testing.T) {
	ends := []struct {
		name string
		end  func(t *testing.T, s *actorstore.Store, a *actorstore.Actor, cancel context.CancelFunc)
		want error
	}{
		{"close", func(t *testing.T, _ *actorstore.Store, a *actorstore.Actor, _ context.CancelFunc) { must(t, a.Close()) }, nil},
		{"drop", func(t *testing.T, _ *actorstore.Store, a *actorstore.Actor, _ context.CancelFunc) {
			must(t, a.Drop(ctx))
		}, nil},
		{"cancel", func(_ *testing.T, _ *actorstore.Store, _ *actorstore.Actor, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"cancel is in use too", func(_ *testing.T, _ *actorstore.Store, _ *actorstore.Actor, cancel context.CancelFunc) { cancel() }, actorstore.ErrInUse},
		{"store", func(t *testing.T, s *actorstore.Store, _ *actorstore.Actor, _ context.CancelFunc) { must(t, s.Close()) }, actorstore.ErrClosed},
	}
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := actorstore.Open(ctx, memkv.New(), nil)
				must(t, err)
				a, err := s.Actor(ctx, testID, nil)
				must(t, err)
				must(t, a.Put(ctx, user("k"), nil))
				waiting, cancel := context.WithCancel(ctx)
				defer cancel()
				got := make(chan error, 1)
				go func() {
					_, err := s.Actor(waiting, testID, &actorstore.ActorOptions{Wait: true})
					got <- err
				}()
				synctest.Wait()
				select {
				case err := <-got:
					t.Fatalf("it didn't wait: %v", err)
				default:
				}
				tt.end(t, s, a, cancel)
				if err := <-got; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				must(t, s.Close())
			})
		})
	}
}

func TestStoreClose(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	v, err := s.View(ctx, testID)
	must(t, err)
	must(t, s.Close())
	must(t, s.Close())
	for name, err := range map[string]error{
		"put":    a.Put(ctx, user("k"), nil),
		"actor":  testkit.Second(s.Actor(ctx, testID, nil)),
		"view":   testkit.Second(s.View(ctx, testID)),
		"lookup": testkit.Second(s.Lookup(ctx, "n")),
	} {
		if !errors.Is(err, actorstore.ErrClosed) {
			t.Errorf("%s: got %v, want %v", name, err, actorstore.ErrClosed)
		}
	}
	for _, err := range s.Actors(ctx, nil) {
		if !errors.Is(err, actorstore.ErrClosed) {
			t.Errorf("actors: got %v, want %v", err, actorstore.ErrClosed)
		}
	}
	if got, _ := get(t, v, user("k")); got != "v" {
		t.Errorf("the view lost its state: %q", got)
	}
	must(t, v.Close())
}

// TestStoreCloseWhileOpening: an actor that is being taken over when the Store is
// closed gets no handle.
func TestStoreCloseWhileOpening(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeScan {
			return s.Close()
		}
		return nil
	})
	if _, err := s.Actor(ctx, testID, nil); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("got %v, want %v", err, actorstore.ErrClosed)
	}
}
