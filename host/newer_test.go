package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
)

// schemas returns a function that returns a type whose databases have so many versions of their schema, and says at which host its actors are.
func schemas(n int) func() []*Type {
	return func() []*Type {
		k := &Type{Name: "thing", Alarm: func(*Context, persist.Event) error { return nil }, Actions: []AnyAction{
			NewAction("host", func(c *Context, _ struct{}) (string, error) { return c.life.host.opts.Peers.Address, nil }),
			NewCommand("plan", func(c *Context, in time.Duration) error { _, err := c.After(in, "ring", nil); return err }),
		}}
		for i := range n {
			k.Migrations = append(k.Migrations, greenroom.Migration{Version: uint64(i + 1), SQL: fmt.Sprintf("create table t%d(x)", i)})
		}
		return []*Type{k}
	}
}

// TestForwardSchema: an actor whose database is newer than the asked host knows goes to a host that knows it. Without one it is ErrNewerSchema, and no older host takes the actor, for an alarm
// neither.
func TestForwardSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		f := newPeers(t, schemas(2))
		b := f.open("b:1")
		all := make([]Address, 12)
		for i := range all {
			all[i] = Address{"thing", fmt.Sprint(i)}
			_, err := invoke[struct{}](ctx, b, all[i], "plan", time.Hour)
			must(t, err)
		}
		f.types = schemas(1)
		old := []*Host{f.open("a:1"), f.open("c:1")}
		time.Sleep(10 * time.Second) // all know of each other
		sleep := func() {
			t.Helper()
			for _, a := range all {
				if b.life(a.String()) != nil {
					must(t, b.Sleep(ctx, idOf(a)))
				}
			}
		}
		everywhere := func(hosts ...*Host) {
			t.Helper()
			for _, h := range hosts {
				sleep()
				for _, a := range all {
					if at, err := invoke[string](ctx, h, a, "host", nil); at != "b:1" || err != nil {
						t.Errorf("%s, asked for at %s, is at %q, %v", a, h.opts.Peers.Address, at, err)
					}
				}
			}
		}
		everywhere(old[0], b, old[1])
		sleep()
		epoch := func(h *Host, a Address) uint64 {
			v, err := h.Store().Lower().View(ctx, idOf(a))
			must(t, err)
			defer func() { must(t, v.Close()) }()
			return v.Info().Epoch
		}
		before := map[Address]uint64{}
		for _, a := range all {
			before[a] = epoch(b, a)
		}
		must(t, b.Close(ctx))
		delete(f.hosts, "b:1")
		time.Sleep(2 * time.Hour) // their alarms are over
		for _, h := range old {
			for _, a := range all {
				_, err := invoke[string](ctx, h, a, "host", nil)
				wantErr(t, err, greenroom.ErrNewerSchema)
				if Code(err) != "newer_schema" {
					t.Errorf("the code is %s", Code(err))
				}
			}
		}
		for _, a := range all {
			if got := epoch(old[0], a); got != before[a] {
				t.Errorf("%s was taken over %d times", a, got-before[a])
			}
		}
		f.types = schemas(2)
		b = f.open("b:1")
		time.Sleep(time.Second) // the others look for one that knows it
		everywhere(old...)
		f.close()
	})
}

// TestHandOverSchema: a host that is about to end keeps the actors that no other host can open.
func TestHandOverSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		f := newPeers(t, schemas(2))
		b := f.open("b:1")
		a := Address{"thing", "1"}
		_, err := invoke[string](ctx, b, a, "host", nil)
		must(t, err)
		f.types = schemas(1)
		f.open("a:1")
		time.Sleep(10 * time.Second)
		brief, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		must(t, b.HandOver(brief))
		if b.life(a.String()) == nil {
			t.Error("it has left, and no host can open it")
		}
		f.close()
	})
}

// TestForwardFirstSchema: a host whose type has no migrations takes no actor for which another host has the first one, or had it, not for an alarm either.
func TestForwardFirstSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		f := newPeers(t, schemas(1))
		b := f.open("b:1")
		all := make([]Address, 12)
		for i := range all {
			all[i] = Address{"thing", fmt.Sprint(i)}
			_, err := invoke[struct{}](ctx, b, all[i], "plan", time.Minute)
			must(t, err)
			must(t, b.Sleep(ctx, idOf(all[i])))
		}
		f.types = schemas(0)
		a := f.open("a:1")
		time.Sleep(2 * time.Minute) // their alarms are over
		for _, x := range all {
			if a.life(x.String()) != nil {
				t.Errorf("%s was taken for an alarm", x)
			}
			if at, err := invoke[string](ctx, a, x, "host", nil); at != "b:1" || err != nil {
				t.Errorf("%s is at %q, %v", x, at, err)
			}
		}
		must(t, b.Close(ctx))
		delete(f.hosts, "b:1")
		time.Sleep(time.Minute)
		for _, x := range all {
			_, err := invoke[string](ctx, a, x, "host", nil)
			wantErr(t, err, greenroom.ErrNewerSchema)
		}
		if at, err := invoke[string](ctx, a, Address{"thing", "new"}, "host", nil); at != "a:1" || err != nil {
			t.Errorf("one without a version is at %q, %v", at, err)
		}
		f.close()
	})
}

// TestOwnVersion: a type that never had migrations sets the versions of its databases itself; from the first migration on it can't, in a store of one host too, or after a Replace.
func TestOwnVersion(t *testing.T) {
	pragma := NewCommand("version", func(c *Context, n int) error {
		_, err := c.Exec(fmt.Sprintf("pragma user_version = %d", n))
		return err
	})
	kind := func(all greenroom.Migrations) *Type {
		return &Type{Name: "thing", Actions: []AnyAction{pragma}, Migrations: all}
	}
	first := greenroom.Migrations{{Version: 7, SQL: "create table t(x)"}}
	for _, replaced := range []bool{false, true} {
		bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
			next := func(k *Type) {
				r.close()
				r.types = []*Type{k}
				r.open()
			}
			own := Address{"thing", "own"}
			for range 2 {
				r.call(own, "version", 7)
				next(kind(nil))
			}
			if replaced {
				_, err := r.Replace(r.ctx, kind(first), 0)
				must(t, err)
			} else {
				next(kind(first))
			}
			next(kind(nil))
			_, err := invoke[struct{}](r.ctx, r.Host, own, "version", 8)
			wantErr(t, err, greenroom.ErrNewerSchema)
			next(kind(first))
			r.call(own, "version", 7)
		}, kind(nil))
	}
}

// TestVersionedRow: a row that can't be read is said to be damaged, or of a newer version, and no actor is taken for it.
func TestVersionedRow(t *testing.T) {
	for row, want := range map[string]error{"\x01": kv.ErrCorrupt, "\x01\x00x": kv.ErrCorrupt, "\x00\x00": kv.ErrCorrupt, "\x02\x00": kv.ErrNewerFormat} {
		e := memkv.New()
		must(t, e.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(versionedKey("thing"), []byte(row))}}))
		if _, err := versionedType(t.Context(), e, "thing"); !errors.Is(err, want) {
			t.Errorf("%x: %v, want %v", row, err, want)
		}
		if has, err := versionedType(t.Context(), e, "other"); has || err != nil {
			t.Errorf("another type: %v, %v", has, err)
		}
		must(t, e.Close())
	}
}
