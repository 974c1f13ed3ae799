package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// tenant is a type whose actors need a good input, and have written much when they find out
// that theirs isn't. show returns the input with which an actor was created.
func tenant(write func(c *Context) error) *Type {
	return &Type{
		Name: "thing", DB: greenroom.DBOptions{TxMemory: 1 << 20, Pragmas: []string{"cache_size=20"}},
		Actions: []AnyAction{NewAction("show", func(c *Context, _ struct{}) (string, error) {
			return greenroom.State[string](c)
		})},
		Create: func(c *Context) error {
			var in string
			if err := errors.Join(c.Input(&in), write(c)); err != nil {
				return err
			}
			if len(in) < 4 || in[:4] != "good" {
				return &Error{Code: "bad_input", Message: "the input is " + in}
			}
			return greenroom.SetState(c, in)
		},
		Message: func(*Context, *greenroom.Message) error { return nil }, MessageNames: []string{"x"},
		Workflow: NewWorkflow(func(*workflow.Context, int) (int, error) { return 0, nil }, nil),
	}
}

// writes is what a Create may do before it fails: from nothing, to more than one commit can hold,
// to writes outside its turn.
var writes = map[string]func(c *Context) error{
	"nothing": func(*Context) error { return nil },
	"everything": func(c *Context) error {
		_, sent := c.Enqueue(queue.Send{Name: "x"})
		_, planned := c.After(time.Hour, "show")
		_, wrote := c.Exec("create table t(x)")
		return errors.Join(sent, planned, wrote, c.Put([]byte("k"), nil), c.StartWorkflow(1),
			c.Send(Address{"other", "x"}, queue.Send{Name: "x"}))
	},
	"much": func(c *Context) error {
		_, err := c.Exec("create table t(x)")
		for range 3 {
			_, wrote := c.Exec("insert into t values (randomblob(1000000))")
			err = errors.Join(err, wrote)
		}
		return err
	},
	"a workflow": func(c *Context) error {
		w, err := c.Workflow()
		if err != nil {
			return err
		}
		return w.Cancel(c)
	},
}

// all are the keys of the engine.
func (r *rig) all() [][]byte {
	r.Helper()
	return r.rows(func([]byte) bool { return false })
}

// wantNothing looks whether the engine has the keys that it had.
func (r *rig) wantNothing(had [][]byte) {
	r.Helper()
	if has := r.all(); len(has) != len(had) {
		r.Errorf("the engine had %d rows, and has %d: %q", len(had), len(has), has)
	}
	for info, err := range r.Store().Actors(r.ctx, nil) {
		r.Errorf("there is the actor %+v, %v", info, err)
	}
}

// wantBad looks whether an error is that of a Create whose input was bad.
func wantBad(t testing.TB, err error, input string) {
	t.Helper()
	var own *Error
	if !errors.As(err, &own) || own.Code != "bad_input" || own.Message != "the input is "+input {
		t.Errorf("got the error %v", err)
	}
}

// TestCreateLeavesNothing: Create fails after each kind of write, with and without traces, for
// every way an actor can be created. No actor exists then, and nothing is stored.
func TestCreateLeavesNothing(t *testing.T) {
	for name, write := range writes {
		for _, traced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, traces %v", name, traced), func(t *testing.T) {
				opts := Options{}
				if traced {
					opts.Traces = &greenroom.TracesOptions{}
				}
				bubble(t, opts, func(r *rig) {
					had := r.all()
					wantBad(t, r.Create(r.ctx, lobby, "bad"), "bad")
					r.wantNothing(had)
					_, err := invoke[string](r.ctx, r.Host, lobby, "show", nil)
					wantBad(t, err, "")
					_, err = r.Send(r.ctx, lobby, queue.Send{Name: "x"})
					wantBad(t, err, "")
					_, err = r.Join(r.ctx, &Join{Actor: lobby, Transport: &sink{}, Hibernate: true})
					wantBad(t, err, "")
					wantErr(t, r.Destroy(r.ctx, lobby), ErrNoActor)
					r.wantNothing(had)
					pass(time.Minute)
					if s := r.Stats(); s != (Stats{}) {
						t.Errorf("%+v is left", s)
					}
					must(t, r.Create(r.ctx, lobby, "good"))
					if in, err := invoke[string](r.ctx, r.Host, lobby, "show", nil); err != nil || in != "good" {
						t.Errorf("the actor was created with %q, %v", in, err)
					}
					r.reopen()
					must(t, r.Create(r.ctx, lobby, "good, and too late"))
					if in, err := invoke[string](r.ctx, r.Host, lobby, "show", nil); err != nil || in != "good" {
						t.Errorf("the actor has %q, %v", in, err)
					}
				}, tenant(write), &Type{Name: "other"})
			})
		}
	}
}

// TestCreateKilled kills the host before each commit of a Create that fails, and of one that
// succeeds: there is the actor with its input, or nothing, and then it can be created anew.
func TestCreateKilled(t *testing.T) {
	step := testkit.Pick(3, 1, 1)
	for name, write := range writes {
		for _, input := range []string{"bad", "good"} {
			for _, traced := range []bool{false, true} {
				for skip, hit := 0, true; hit; skip += step {
					synctest.Test(t, func(t *testing.T) {
						opts := Options{}
						if traced {
							opts.Traces = &greenroom.TracesOptions{}
						}
						what := fmt.Sprintf("%s, %s, traces %v, commit %d", name, input, traced, skip)
						hit = createKilled(t, what, opts, write, input, skip)
					})
				}
			}
		}
	}
}

var errKilled = errors.New("killed")

func createKilled(t *testing.T, what string, opts Options, write func(*Context) error, input string, skip int) (hit bool) {
	below := memkv.New()
	types := []*Type{tenant(write), {Name: "other"}}
	r := newRigOn(t, below, opts, types...)
	had := r.all()
	var mu sync.Mutex
	n := 0
	r.engine.Hook(func(op faultkv.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Point != faultkv.BeforeCommit {
			return nil
		}
		if n++; n > skip {
			hit = true
			return errKilled
		}
		return nil
	})
	first := r.Create(r.ctx, lobby, input)
	old := r.Host
	old.alarms.Close()

	r = newRigOn(t, below, opts, types...)
	pass(2 * time.Minute)
	_, err := r.Do(r.ctx, &Call{Actor: lobby, Action: "show", Args: undefined, Existing: true})
	if there := err == nil; !there {
		wantErr(t, err, ErrNoActor)
		if first == nil {
			t.Errorf("%s: what was acknowledged isn't there", what)
		}
		if input == "bad" {
			r.wantNothing(had)
		}
	} else if input == "bad" {
		t.Errorf("%s: there is an actor", what)
	}
	wantThere := err == nil
	must(t, r.Create(r.ctx, lobby, "good anew"))
	want := "good anew"
	if wantThere {
		want = input
	}
	if in, err := invoke[string](r.ctx, r.Host, lobby, "show", nil); err != nil || in != want {
		t.Errorf("%s: the actor was created with %q, %v, want %q", what, in, err, want)
	}
	r.close()
	_ = old.Close(context.WithoutCancel(t.Context())) // its store is dead
	return hit
}

// TestCreateFault has each commit of a Create fail once, in a host that goes on: what is told
// is what is so, and the next Create brings its input.
func TestCreateFault(t *testing.T) {
	step := testkit.Pick(3, 1, 1)
	for name, write := range writes {
		for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeSync} {
			for _, input := range []string{"bad", "good"} {
				for skip, hit := 0, true; hit; skip += step {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, Options{}, tenant(write), &Type{Name: "other"})
						fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
						err := r.Create(r.ctx, lobby, input)
						fault.Remove()
						hit = fault.Hits() > 0
						if err == nil == (input == "bad") && !hit {
							t.Errorf("%s, %s: %v", name, input, err)
						}
						pass(2 * time.Minute)
						must(t, r.Create(r.ctx, lobby, "good anew"))
						in, shown := invoke[string](r.ctx, r.Host, lobby, "show", nil)
						known := !errors.Is(err, ErrUnknownOutcome)
						if ok := in == "good anew"; shown != nil || known && ok != (err != nil) || !ok && in != "good" {
							t.Errorf("%s, %s, fault %d at %v: Create said %v, the actor has %q, %v", name, input, skip, point, err, in, shown)
						}
						r.close()
					})
				}
			}
		}
	}
}

// TestCreateByOthers: a Host.Create that comes while the actor is being created for a call,
// which fails, tries with its own input.
func TestCreateByOthers(t *testing.T) {
	begin := make(chan bool)
	kind := tenant(func(*Context) error { <-begin; return nil })
	synctest.Test(t, func(t *testing.T) {
		begin = make(chan bool)
		r := newRig(t, Options{}, kind)
		called, created, looked := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := invoke[string](r.ctx, r.Host, lobby, "show", nil)
			called <- err
		}()
		synctest.Wait()
		go func() { created <- r.Create(r.ctx, lobby, "good") }()
		go func() {
			_, err := r.Do(r.ctx, &Call{Actor: lobby, Action: "show", Args: undefined, Existing: true})
			looked <- err
		}()
		synctest.Wait()
		close(begin)
		wantBad(t, <-called, "")
		must(t, <-created)
		if err := <-looked; err != nil && !errors.Is(err, ErrNoActor) {
			t.Errorf("a call to an existing actor: %v", err)
		}
		r.close()
	})
}

// TestVarsFail: what fails before an actor is created leaves nothing, without a Create, too.
func TestVarsFail(t *testing.T) {
	for _, opts := range []Options{{}, {Traces: &greenroom.TracesOptions{}}} {
		bad := true
		kind := thing(NewAction("input", func(c *Context, _ struct{}) (in string, err error) { return in, c.Input(&in) }))
		kind.Vars = func(context.Context, Address) (any, error) {
			if bad {
				return nil, errRefused
			}
			return nil, nil
		}
		bubble(t, opts, func(r *rig) {
			had := r.all()
			wantErr(t, r.Create(r.ctx, lobby, "bad"), errRefused)
			r.wantNothing(had)
			bad = false
			must(t, r.Create(r.ctx, lobby, "good"))
			if in, err := invoke[string](r.ctx, r.Host, lobby, "input", nil); err != nil || in != "good" {
				t.Errorf("the input is %q, %v", in, err)
			}
		}, kind)
	}
}

// TestCreateOfOld: a Create that fails removes nothing of an actor that was there before: one
// that another program has made, or whose type had no Create.
func TestCreateOfOld(t *testing.T) {
	var good atomic.Bool // a host that opens the store again may create in its own time
	kind := tenant(writes["much"])
	create := kind.Create
	kind.Create = func(c *Context) error {
		if err := create(c); !good.Load() {
			return err
		}
		return nil
	}
	for _, record := range []bool{false, true} {
		bubble(t, Options{}, func(r *rig) {
			good.Store(false)
			a, err := r.Store().Actor(r.ctx, lobby.String(), nil)
			must(t, err)
			must(t, a.Update(r.ctx, func(tx *greenroom.Tx) error {
				if record {
					must(t, greenroom.SetState(tx, "good, and old"))
				}
				return tx.Put([]byte("k"), []byte("old"))
			}))
			must(t, a.Close())
			had := r.all()
			_, err = invoke[string](r.ctx, r.Host, lobby, "show", nil)
			wantBad(t, err, "")
			r.reopen()
			if has := r.all(); !covers(has, had) {
				t.Errorf("there was %q, and is %q", had, has)
			}
			good.Store(true)
			var value []byte
			must(t, r.Do0(func(c *Context) (err error) { value, err = c.Get([]byte("k")); return err }))
			if string(value) != "old" {
				t.Errorf("the actor has %q", value)
			}
		}, kind)
	}
}

// covers says whether all of had are in has.
func covers(has, had [][]byte) bool {
	in := map[string]bool{}
	for _, k := range has {
		in[string(k)] = true
	}
	for _, k := range had {
		if !in[string(k)] {
			return false
		}
	}
	return true
}

// TestMustCreate: only Host.Create creates an actor. Any other request for one that doesn't exist
// fails, and writes nothing.
func TestMustCreate(t *testing.T) {
	came := 0
	closed := &Type{
		Name: "thing", MustCreate: true, Actions: []AnyAction{add},
		Message: func(*Context, *greenroom.Message) error { came++; return nil },
	}
	talker := &Type{Name: "talker", Actions: []AnyAction{
		NewCommand("tell", func(c *Context, name string) error { return c.Send(lobby, queue.Send{Name: name}) }),
	}}
	tell := func(r *rig) error {
		_, err := invoke[any](r.ctx, r.Host, Address{"talker", "x"}, "tell", "word")
		return err
	}
	bubble(t, Options{}, func(r *rig) {
		ask := func() error {
			_, called := invoke[int](r.ctx, r.Host, lobby, "add", 1)
			_, typed := add.Call(r.ctx, r.Host, lobby.Key, 1)
			_, sent := r.Send(r.ctx, lobby, queue.Send{Name: "word"})
			_, joined := r.Join(r.ctx, &Join{Actor: lobby, Transport: &sink{}, Hibernate: true})
			for _, err := range []error{called, typed, sent, joined} {
				if !errors.Is(err, called) && err != called {
					return fmt.Errorf("%w, %w, %w, %w", called, typed, sent, joined)
				}
			}
			return called
		}
		had := r.all()
		wantErr(t, ask(), ErrNoActor)
		r.wantNothing(had)
		wantErr(t, tell(r), ErrNoActor)
		must(t, r.Create(r.ctx, lobby, nil))
		must(t, ask())
		must(t, tell(r))
		pass(time.Minute)
		if came != 2 {
			t.Errorf("%d messages have come, want 2", came)
		}
		must(t, tell(r)) // it sleeps
		r.reopen()
		must(t, ask())
		must(t, r.Destroy(r.ctx, lobby))
		wantErr(t, ask(), ErrNoActor)
		wantErr(t, tell(r), ErrNoActor)
	}, closed, talker)
}

// TestMustCreateUnborn: to a sender an actor doesn't exist before its Create lands.
func TestMustCreateUnborn(t *testing.T) {
	kind := tenant(func(*Context) error { <-time.After(time.Second); return nil })
	kind.MustCreate = true
	talker := &Type{Name: "talker", Actions: []AnyAction{
		NewCommand("tell", func(c *Context, name string) error { return c.Send(lobby, queue.Send{Name: name}) }),
	}}
	bubble(t, Options{}, func(r *rig) {
		tell := func() error {
			_, err := invoke[any](r.ctx, r.Host, Address{"talker", "x"}, "tell", "x")
			return err
		}
		created := make(chan error, 1)
		go func() { created <- r.Create(r.ctx, lobby, "bad") }()
		synctest.Wait()
		wantErr(t, tell(), ErrNoActor)
		wantBad(t, <-created, "bad")
		wantErr(t, tell(), ErrNoActor)
		must(t, r.Create(r.ctx, lobby, "good"))
		must(t, tell())
	}, kind, talker)
}

// TestMustCreateLetters: a letter that was sent when actors of its receiver's type were made
// by messages doesn't make one any more, and doesn't wait for ever.
func TestMustCreateLetters(t *testing.T) {
	closed := &Type{Name: "thing", Message: func(*Context, *greenroom.Message) error { return nil }}
	block := true
	closed.Create = func(*Context) error {
		if block {
			return errRefused
		}
		return nil
	}
	talker := &Type{Name: "talker", Actions: []AnyAction{
		NewCommand("tell", func(c *Context, name string) error { return c.Send(lobby, queue.Send{Name: name}) }),
	}}
	bubble(t, Options{}, func(r *rig) {
		_, err := invoke[any](r.ctx, r.Host, Address{"talker", "x"}, "tell", "word")
		must(t, err)
		pass(time.Minute)
		r.close()
		must := *closed
		must.MustCreate = true
		r.types = []*Type{&must, talker}
		block = false
		r.open()
		pass(3 * time.Minute)
		if s := r.Stats(); s.Senders != 0 || s.Alarms != 0 {
			t.Errorf("%+v is under way", s)
		}
		for info := range r.Store().Actors(r.ctx, nil) {
			if info.Name == lobby.String() {
				t.Errorf("there is %+v", info)
			}
		}
	}, closed, talker)
}
