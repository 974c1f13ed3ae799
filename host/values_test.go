package host

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/cbor/cbortest"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestValues: what an action takes, keeps as state and returns is read back equal, or refused.
func TestValues(t *testing.T) {
	if !testkit.InZones(t) {
		return
	}
	valuesOf[any](t)
	valuesOf[cbortest.Wide](t)
	valuesOf[[]cbortest.Tree](t)
	valuesOf[map[cbortest.Key]*time.Time](t)
	valuesOf[fmt.Stringer](t)
	valuesOf[error](t)
}

// valuesOf is TestValues for a type.
func valuesOf[T any](t *testing.T) {
	t.Helper()
	var v T
	same := func(what string, got T) {
		if !cbortest.Equal(&v, &got) {
			t.Fatalf("%s: %T %+v comes back as %+v", what, v, v, got)
		}
	}
	echo := NewAction("echo", func(c *Context, in T) (T, error) {
		same("argument", in)
		err := greenroom.SetState(c, in)
		return in, err
	})
	give := NewAction("give", func(c *Context, _ struct{}) (T, error) {
		got, err := greenroom.State[T](c)
		same("state", got)
		return v, err
	})
	back := NewAction("back", func(*Context, struct{}) (T, error) { return v, nil })
	r := newRig(t, Options{}, &Type{Name: "t", Actions: []AnyAction{echo, give, back}})
	defer r.close()
	for seed := range uint64(60) {
		v = *new(T)
		cbortest.New(seed).Fill(&v)
		_, refused := cbor.Marshal(&v)
		key := fmt.Sprint(seed)
		out, err := echo.Call(r.ctx, r.Host, key, v)
		result, err2 := back.Call(r.ctx, r.Host, key, struct{}{})
		if (err == nil) != (refused == nil) || (err2 == nil) != (refused == nil) {
			t.Fatalf("%T %+v: the encoder says %v, an argument %v, a result %v", v, v, refused, err, err2)
		}
		if refused != nil {
			if !errors.Is(err, cbor.ErrUnsupported) {
				t.Fatalf("%T: %v", v, err)
			}
			continue
		}
		same("result", out)
		same("result", result)
		out, err = give.Call(r.ctx, r.Host, key, struct{}{})
		must(t, err)
		same("result", out)
	}
}
