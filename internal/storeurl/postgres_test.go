//go:build unix

package storeurl

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
)

func TestOpenPostgres(t *testing.T) {
	n := pgtest.Shared(t)
	name := n.URL("schema=" + n.Schema())
	for _, opts := range []greenroom.Options{{MustExist: true}, {ReadOnly: true}} {
		if _, err := Open(t.Context(), name, opts); !errors.Is(err, kv.ErrNoStore) {
			t.Errorf("%+v: got %v, want %v", opts, err, kv.ErrNoStore)
		}
	}
	write := open(t, name, greenroom.Options{})
	put(t, write)
	for _, opts := range []greenroom.Options{{MustExist: true}, {ReadOnly: true}} { // while the first one is open
		s := open(t, name, opts)
		holds(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := write.Close(); err != nil {
		t.Error(err)
	}
}
