package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
)

// A firstItem is an item of a schema.
type firstItem struct {
	_    struct{} `path:"/first-:Name"`
	Name string
}

// firstWrites are the first things that the packages with rows of their own write to an engine.
var firstWrites = map[string]func(ctx context.Context, e kv.Engine) error{
	"a secret": func(ctx context.Context, e kv.Engine) error {
		_, err := front.StoredSecret(ctx, e)
		return err
	},
	"documents": func(ctx context.Context, e kv.Engine) error {
		s, err := docstore.Open(ctx, e, "d", nil)
		if err != nil {
			return err
		}
		return s.Update(ctx, func(tx *docstore.Tx) error { return tx.CreateContainer(ctx, "/a") })
	},
	"items": func(ctx context.Context, e kv.Engine) error {
		schema, err := itemstore.NewSchema(1, itemstore.TypeOf[firstItem](nil))
		if err != nil {
			return err
		}
		s, err := itemstore.Open(ctx, e, "i", schema, nil)
		if err != nil {
			return err
		}
		return s.Put(ctx, &firstItem{Name: "a"}, nil)
	},
	"a host": func(ctx context.Context, e kv.Engine) error {
		h, err := host.Open(ctx, e, []*host.Type{{Name: "t"}}, nil)
		if err != nil {
			return err
		}
		return errors.Join(h.Create(ctx, host.Address{Type: "t", Key: "k"}, 1), h.Close(ctx))
	},
	"RivetKit's engine": func(ctx context.Context, e kv.Engine) error {
		r, err := engine.Open(ctx, e, nil)
		if err != nil {
			return err
		}
		return r.Close()
	},
}

// succeed fails the test if there is an error.
func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFirstWrite: whatever package is the first to write to an empty engine, a store can be opened there, and so can the others'.
func TestFirstWrite(t *testing.T) {
	for name, first := range firstWrites {
		t.Run(name, func(t *testing.T) {
			e := memkv.New()
			defer e.Close()
			succeed(t, first(t.Context(), e))
			s, err := greenroom.New(t.Context(), e, nil)
			succeed(t, err)
			a, err := s.Actor(t.Context(), "a", nil)
			succeed(t, err)
			succeed(t, errors.Join(a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), nil) }), s.Close()))
			for other, write := range firstWrites {
				if err := write(t.Context(), e); err != nil && other != name {
					t.Errorf("then %s: %v", other, err)
				}
			}
		})
	}
}

// TestSecretWithoutStore: a secret that an earlier version has written to an empty engine keeps no store out, and stays.
func TestSecretWithoutStore(t *testing.T) {
	e := memkv.New()
	defer e.Close()
	secret, err := front.StoredSecret(t.Context(), e)
	succeed(t, err)
	var format []byte
	for entry, err := range e.Scan(t.Context(), kv.Range{}) {
		succeed(t, err)
		if !bytes.Contains(entry.Key, []byte("front")) {
			format = bytes.Clone(entry.Key)
		}
	}
	succeed(t, e.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Clear(format)}}))
	_, err = greenroom.New(t.Context(), e, nil)
	succeed(t, err)
	again, err := front.StoredSecret(t.Context(), e)
	succeed(t, err)
	if !bytes.Equal(again, secret) {
		t.Error("the secret is another one")
	}
}

// TestSecretElsewhere: an engine that holds something else gets no secret.
func TestSecretElsewhere(t *testing.T) {
	e := faultkv.New(memkv.New())
	defer e.Close()
	succeed(t, e.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set([]byte("x"), nil)}}))
	e.Reset()
	if _, err := front.StoredSecret(t.Context(), e); !errors.Is(err, kv.ErrNotAStore) {
		t.Errorf("got %v", err)
	}
	if c := e.Counts(); c.Commits != 0 {
		t.Errorf("%d commits", c.Commits)
	}
}
