//go:build unix

package storeurl

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
)

func TestOpenPostgres(t *testing.T) {
	n := pgtest.Shared(t)
	name := n.URL("schema=" + n.Schema(t))
	for _, opts := range []*Options{nil, {ReadOnly: true}, {ReadOnly: true, Create: true}} {
		if _, err := Open(t.Context(), name, opts); !errors.Is(err, kv.ErrNoStore) {
			t.Errorf("%+v: got %v, want %v", opts, err, kv.ErrNoStore)
		}
	}
	write := open(t, name, &Options{Create: true})
	put(t, write)
	for _, opts := range []*Options{nil, {ReadOnly: true}} { // while the first one is open
		s := open(t, name, opts)
		view, err := s.View(t.Context(), actorstore.IDFromName("a"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := view.Get(t.Context(), actorstore.UserKey([]byte("k")), nil)
		if string(got) != "v" || err != nil {
			t.Errorf("Get = %q, %v, want %q", got, err, "v")
		}
		if err := errors.Join(view.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
	if err := write.Close(); err != nil {
		t.Error(err)
	}
}
