package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
)

// notes returns a type whose second migration is a function that fails where there is a note "odd", and calls during if that isn't nil. It counts how often its Wake was called.
func notes(n int, woken *atomic.Int64, during func()) *Type {
	all := greenroom.Migrations{
		{Version: 1, Name: "notes", SQL: "create table note(body text); insert into note values ('first')"},
		{Version: 2, Name: "runs", SQL: "create table run(n integer)", Func: func(tx *greenroom.Tx) error {
			if during != nil {
				during()
			}
			odd := 0
			if err := tx.QueryRow("select count(*) from note where body = 'odd'").Scan(&odd); err != nil || odd > 0 {
				return errors.Join(err, errOdd)
			}
			_, err := tx.Exec("insert into run values (1)")
			return err
		}},
	}[:n]
	return &Type{Name: "thing", Migrations: all, Wake: func(*Context) error { woken.Add(1); return nil }, Actions: []AnyAction{
		NewCommand("note", func(c *Context, body string) error {
			_, err := c.Exec("insert into note values (?)", body)
			return err
		}),
		NewAction("tables", func(c *Context, _ struct{}) (n int, err error) {
			return n, c.QueryRow("select count(*) from sqlite_schema").Scan(&n)
		}),
	}}
}

var errOdd = errors.New("odd")

// TestMigrateAll: the actors that sleep are brought up, each once and without their code; what fails is listed and stays as it is; run again it goes on with those that are left.
func TestMigrateAll(t *testing.T) {
	var woken atomic.Int64
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		for i := range 20 {
			r.call(Address{"thing", fmt.Sprint(i)}, "tables", nil)
		}
		_, err := invoke[struct{}](r.ctx, r.Host, Address{"thing", "odd"}, "note", "odd")
		must(t, err)
		r.close()
		r.types = []*Type{notes(2, &woken, nil)}
		r.open()
		r.call(Address{"thing", "3"}, "tables", nil) // which is awake
		before := woken.Load()
		migrate := func(o *MigrateOptions, want Migrated) {
			t.Helper()
			told := 0
			o.Progress = func(*Migrated) { told++ }
			got, err := r.Migrate(r.ctx, "thing", o)
			if wantErr := want.Failed != nil; (err != nil) != wantErr || wantErr && !errors.Is(err, errOdd) {
				t.Errorf("%+v: %v", o, err)
			}
			if got.Done != want.Done || got.Left != want.Left || got.Awake != want.Awake || len(got.Failed) != len(want.Failed) || got.Failed != nil && got.Failed[0].Actor != want.Failed[0].Actor {
				t.Errorf("%+v: got %+v, want %+v", o, got, want)
			}
			if all := got.Done + got.Awake + len(got.Failed); told != all {
				t.Errorf("told %d times of %d", told, all)
			}
		}
		odd := []MigrateFailure{{Actor: Address{"thing", "odd"}}}
		migrate(&MigrateOptions{DryRun: true}, Migrated{Left: 20})
		migrate(&MigrateOptions{Canary: 20, Parallel: 4}, Migrated{Done: 19, Failed: odd})
		migrate(&MigrateOptions{Parallel: 4}, Migrated{Failed: odd})
		if n := woken.Load() - before; n != 0 {
			t.Errorf("Wake was called %d times", n)
		}
		for i := range 20 {
			if n := r.call(Address{"thing", fmt.Sprint(i)}, "tables", nil); n != 2 {
				t.Errorf("%d has %d tables", i, n)
			}
			a, err := r.Store().Lower().View(r.ctx, idOf(Address{"thing", fmt.Sprint(i)}))
			must(t, err)
			if at := a.Info().Attributes.Schema; at != 2 {
				t.Errorf("%d has version %d", i, at)
			}
			must(t, a.Close())
		}
		v, err := r.Store().Lower().View(r.ctx, idOf(odd[0].Actor))
		must(t, err)
		if at := v.Info().Attributes.Schema; at != 1 {
			t.Errorf("the one that failed has version %d", at)
		}
		must(t, v.Close())
		_, err = r.Migrate(r.ctx, "none", nil)
		wantErr(t, err, ErrNoType)
	}, notes(1, &woken, nil))
}

// TestMigrateBeside: while an actor is brought up a call waits for it, at every host, and sees what is new; an actor that another host has awake is left alone.
func TestMigrateBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int64
		entered, let := make(chan struct{}), make(chan struct{})
		version, during := 1, func() {}
		f := newPeers(t, func() []*Type { return []*Type{notes(version, &woken, func() { during() })} })
		ctx := t.Context()
		a := f.open("a:1")
		asleep, other := Address{"thing", "asleep"}, Address{"thing", "other"}
		for _, at := range []Address{asleep, other} {
			_, err := invoke[int](ctx, a, at, "tables", nil)
			must(t, err)
		}
		must(t, a.Sleep(ctx, idOf(asleep)))
		version, during = 2, func() { entered <- struct{}{}; <-let }
		b := f.open("b:1")
		time.Sleep(10 * time.Second)
		result := make(chan *Migrated, 1)
		go func() {
			got, err := b.Migrate(ctx, "thing", nil)
			must(t, err)
			result <- got
		}()
		<-entered
		answers := make(chan int, 2)
		for _, h := range []*Host{a, b} {
			go func() {
				brief, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				n, err := invoke[int](brief, h, asleep, "tables", nil)
				if err != nil {
					t.Errorf("at %s: %v", h.opts.Peers.Address, err)
				}
				answers <- n
			}()
		}
		time.Sleep(time.Second)
		if len(answers) > 0 {
			t.Error("an actor answers while it is brought up")
		}
		close(let)
		for range cap(answers) {
			if n := <-answers; n != 2 {
				t.Errorf("it has %d tables", n)
			}
		}
		if got := <-result; got.Done != 1 || got.Awake != 1 {
			t.Errorf("got %+v", got)
		}
		f.close()
	})
}

// TestMigrateAwake: actors that are awake are no failures, neither as canaries, nor the one in whose turn Migrate is called.
func TestMigrateAwake(t *testing.T) {
	var woken atomic.Int64
	var h *Host
	got := &Migrated{}
	one := notes(1, &woken, nil)
	one.Actions = append(one.Actions, NewCommand("migrate", func(c *Context, _ struct{}) (err error) {
		got, err = h.Migrate(c, "thing", &MigrateOptions{Canary: 2, MaxFailures: 1})
		return err
	}))
	bubble(t, Options{IdleTimeout: time.Hour}, func(r *rig) {
		h = r.Host
		for i := range 6 {
			a := Address{"thing", fmt.Sprint(i)}
			r.call(a, "tables", nil)
			if i > 1 {
				must(t, r.Sleep(r.ctx, idOf(a)))
			}
		}
		replaced := make(chan error, 1)
		go func() { replaced <- replace(r.ctx, r.Host, notes(2, &woken, nil), time.Minute) }()
		pass(time.Second)
		_, err := invoke[struct{}](r.ctx, r.Host, Address{"thing", "0"}, "migrate", nil)
		must(t, err)
		if got.Done != 4 || got.Awake != 2 || got.Left != 0 {
			t.Errorf("got %+v", got)
		}
		must(t, <-replaced)
	}, one)
}

// TestMigrateMissing: a migration that lacks something has failed.
func TestMigrateMissing(t *testing.T) {
	var woken atomic.Int64
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		r.call(lobby, "tables", nil)
		pass(time.Minute)
		two := notes(2, &woken, nil)
		two.Migrations[1].Func = func(*greenroom.Tx) error { return fmt.Errorf("a key: %w", greenroom.ErrNotFound) }
		must(t, replace(r.ctx, r.Host, two, 0))
		got, err := r.Migrate(r.ctx, "thing", nil)
		if wantErr(t, err, greenroom.ErrNotFound); len(got.Failed) != 1 {
			t.Errorf("got %+v", got)
		}
	}, notes(1, &woken, nil))
}
