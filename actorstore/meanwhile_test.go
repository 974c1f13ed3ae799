package actorstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestOthersMeanwhile: nothing that a Store remembers of an actor is answered once others have written, also if the
// actor was dropped, and begun anew by as many owners as it had before, with as many commits or more.
func TestOthersMeanwhile(t *testing.T) {
	ctx := t.Context()
	key, gone := actorstore.UserKey([]byte("k")), actorstore.UserKey([]byte("gone"))
	for _, tt := range []struct {
		name    string
		dropped bool
		owners  int // of the other Store, one after the other
		commits int // of each
	}{
		{"written", false, 1, 1},
		{"written by many", false, 3, 2},
		{"begun anew by one", true, 1, 6},
		{"begun anew by two", true, 2, 3},
		{"begun anew by three", true, 3, 2},
	} {
		for before := 1; before <= 3; before++ {
			t.Run(fmt.Sprintf("%s, %d before", tt.name, before), func(t *testing.T) {
				eng := engines.Far(memkv.New())
				open := func() *actorstore.Store {
					s, err := actorstore.Open(ctx, eng, nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { s.Close() })
					return s
				}
				mine, others := open(), open()
				id := actorstore.NewID()
				// as has a Store own the actor, and closes it.
				as := func(s *actorstore.Store, do func(a *actorstore.Actor) error) {
					t.Helper()
					a, err := s.Actor(ctx, id, nil)
					if err == nil {
						err = errors.Join(do(a), a.Close())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				for range before {
					as(mine, func(a *actorstore.Actor) error {
						return errors.Join(a.Put(ctx, key, []byte("old")), a.Put(ctx, gone, []byte("old")))
					})
				}
				want := ""
				if tt.dropped {
					as(others, func(a *actorstore.Actor) error { return a.Drop(ctx) })
				}
				for o := range tt.owners {
					as(others, func(a *actorstore.Actor) (err error) {
						for c := range tt.commits {
							want = fmt.Sprint("new ", o, c)
							err = errors.Join(err, a.Put(ctx, key, []byte(want)))
						}
						return err
					})
				}
				as(mine, func(a *actorstore.Actor) error {
					for _, r := range []struct {
						key  []byte
						want string
					}{{key, want}, {gone, map[bool]string{false: "old"}[tt.dropped]}} {
						for what, read := range map[string]func() ([]byte, error){
							"Get":  func() ([]byte, error) { return a.Get(ctx, r.key, nil) },
							"Page": func() ([]byte, error) { return a.Page(ctx, r.key, nil) },
						} {
							got, err := read()
							if err != nil && !errors.Is(err, actorstore.ErrNotFound) {
								t.Error(err)
							}
							if string(got) != r.want {
								t.Errorf("%s of %s: %q, want %q", what, actorstore.Describe(r.key), got, r.want)
							}
						}
					}
					return nil
				})
			})
		}
	}
}
