package host

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/tuple"
)

// clockThing schedules, and counts what came of it.
func clockThing(d *diary) *Type {
	kind := thing(
		NewAction("plan", func(c *Context, after time.Duration) (string, error) {
			return c.After(after, "ring", "bell")
		}),
		NewAction("ring", func(c *Context, what string) (int, error) {
			d.write(what)
			return 0, greenroom.Mutate(c, func(n *int) error { *n++; return nil })
		}),
		NewAction("rung", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) }),
		NewAction("plan other", func(c *Context, after time.Duration) (string, error) {
			return c.After(after, "other", 5)
		}),
		NewCommand("cancel", func(c *Context, id string) error { return c.Cancel(id) }),
	)
	kind.Alarm = func(c *Context, e persist.Event) error {
		d.write("alarm " + e.Action)
		return nil
	}
	return kind
}

func (r *rig) plan(action string, after time.Duration) string {
	r.Helper()
	id, err := invoke[string](r.ctx, r.Host, lobby, action, after)
	must(r, err)
	return id
}

func TestAlarmWakes(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		r.plan("plan", time.Hour)
		r.plan("plan other", 2*time.Hour)
		cancelled := r.plan("plan", 3*time.Hour)
		_, err := invoke[any](r.ctx, r.Host, lobby, "cancel", cancelled)
		must(t, err)
		pass(59 * time.Minute)
		r.wantAsleep(1)
		d.want(t)
		pass(2 * time.Minute)
		d.want(t, "bell")
		r.wantAsleep(1)
		r.reopen()
		pass(time.Hour)
		d.want(t, "bell", "alarm other")
		pass(2 * time.Hour)
		d.want(t, "bell", "alarm other")
		r.wantAsleep(0)
		if n := r.call(lobby, "rung", nil); n != 1 {
			t.Errorf("the state is %d, want 1", n)
		}
	}, clockThing(&d))
}

// wantAsleep looks whether all actors sleep, and how many of them are to be woken some time.
func (r *rig) wantAsleep(want int) {
	r.Helper()
	if s := r.Stats(); s.Awake != 0 || s.Alarms != 0 {
		r.Errorf("%+v, want nothing awake", s)
	}
	r.wantRows(want)
}

// wantRows looks how many rows the index has.
func (r *rig) wantRows(want int) {
	r.Helper()
	var names []string
	store, err := actorstore.Open(r.ctx, r.engine, &actorstore.Options{ReadOnly: true})
	must(r, err)
	for w, err := range store.Wakes(r.ctx, time.Now().Add(100*365*24*time.Hour), false) {
		must(r, err)
		names = append(names, w.Name)
	}
	must(r, store.Close())
	if len(names) != want {
		r.Errorf("the index has rows of %q, want %d", names, want)
	}
}

// crash leaves the host as it is, and opens another one on the same engine, which takes
// the actors over. It returns the old one, to be closed.
func (r *rig) crash() *Host {
	r.Helper()
	old := r.Host
	old.alarms.Close() // else it would take them back
	r.open()
	return old
}

// TestAlarmAfterCrash crashes the host with an actor awake that has scheduled something,
// at each commit that fails.
func TestAlarmAfterCrash(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeSync} {
		for skip, hit := 0, true; hit; skip++ {
			synctest.Test(t, func(t *testing.T) { hit = alarmAfterCrash(t, point, skip) })
		}
	}
}

func alarmAfterCrash(t *testing.T, point faultkv.Point, skip int) bool {
	var d diary
	r := newRig(t, Options{IdleTimeout: 10 * time.Hour}, clockThing(&d))
	fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip})
	_, err := invoke[string](r.ctx, r.Host, lobby, "plan", time.Hour)
	fault.Remove()
	hit := fault.Hits() > 0
	old := r.crash()
	planned := r.planned()
	if err == nil && !planned {
		t.Errorf("fault %d at %v: what was acknowledged isn't there", skip, point)
	}
	pass(2 * time.Hour)
	if rung := len(d.read()) == 1; rung != planned {
		t.Errorf("fault %d at %v: planned %v, rung %v", skip, point, planned, d.read())
	}
	if !planned && err == nil != !hit {
		t.Errorf("fault %d at %v: error %v, hit %v", skip, point, err, hit)
	}
	_ = old.Close(t.Context()) // its actors are fenced
	r.close()
	return hit
}

// planned says whether an event of the lobby's schedule is stored.
func (r *rig) planned() bool {
	r.Helper()
	look, err := r.Store().Lower().View(r.ctx, actorstore.IDFromName(lobby.String()))
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return false
	}
	must(r, err)
	c, err := persist.Look(r.ctx, look.Snapshot)
	must(r, look.Close())
	if errors.Is(err, persist.ErrNoRecord) {
		return false
	}
	must(r, err)
	return len(c.Events) > 0
}

// TestAlarmAfterServerCrash has the engine's server crash before each commit and each wait
// for stable storage of a turn that schedules something, and the host's process end behind
// it: what is acknowledged is stored, and what is stored is done.
func TestAlarmAfterServerCrash(t *testing.T) {
	t.Parallel()
	step := testkit.Pick(3, 1, 1)
	for skip, hit := 0, true; hit; skip += step {
		synctest.Test(t, func(t *testing.T) {
			var d, later diary
			server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
			opts := Options{IdleTimeout: 10 * time.Hour}
			r := newRigOn(t, server, opts, clockThing(&d))
			n := 0
			hit = false
			r.engine.Hook(func(op faultkv.Op) error {
				if op.Point != faultkv.BeforeCommit && op.Point != faultkv.BeforeSync {
					return nil
				}
				if n++; n == skip+1 {
					hit = true
					server.Crash(0)
				}
				return nil
			})
			_, err := invoke[string](r.ctx, r.Host, lobby, "plan", time.Hour)
			r.engine.Hook(nil)
			r.engine.Tear(0) // the end of the process
			next := newRigOn(t, server, opts, clockThing(&later))
			planned := next.planned()
			if err == nil && !planned {
				t.Errorf("crash %d: what was acknowledged isn't there", skip)
			}
			pass(2 * time.Hour)
			if rung := len(later.read()) == 1; rung != planned {
				t.Errorf("crash %d: planned %v, rung %v", skip, planned, later.read())
			}
			next.close()
			_ = r.Host.Close(t.Context()) // nothing reaches the engine any more
		})
	}
}

// TestOldRows opens stores of before, whose rows of actors to be woken were the host's own: of an actor that waits for something,
// of one that doesn't, of one that doesn't exist, and of one that another program has.
func TestOldRows(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		r.plan("plan", time.Hour)
		other := Address{"thing", "other"}
		r.call(other, "rung", nil)
		r.close()
		r.forgetWakes()
		for _, name := range []string{lobby.String(), other.String(), "thing/nobody", "unknown/actor"} {
			r.putOldRow(name)
		}
		r.open()
		pass(10 * time.Second)
		r.reopen() // it goes on
		pass(time.Minute)
		r.wantOldRows("unknown/actor")
		r.wantRows(1)
		pass(time.Hour)
		d.want(t, "bell")
		r.wantRows(0)
	}, clockThing(&d))
}

// TestOldRowFails fails each commit of taking over a store of before, and has the host's process end there.
func TestOldRowFails(t *testing.T) {
	for skip, hit := 0, true; hit; skip++ {
		synctest.Test(t, func(t *testing.T) {
			var d diary
			r := newRig(t, Options{}, clockThing(&d))
			r.plan("plan", time.Hour)
			r.close()
			r.forgetWakes()
			r.putOldRow(lobby.String())
			fault := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: skip, Times: faultkv.Forever})
			r.open()
			pass(10 * time.Second)
			hit = fault.Hits() > 0
			fault.Remove()
			old := r.crash()
			pass(2 * time.Hour)
			if n := len(d.read()); n == 0 {
				t.Errorf("killed at commit %d, the alarm hasn't rung", skip)
			}
			r.wantOldRows()
			r.wantRows(0)
			_ = old.Close(t.Context()) // its actors are fenced
			r.close()
		})
	}
}

// forgetWakes makes the store one of before the index.
func (r *rig) forgetWakes() {
	r.Helper()
	var ops []kv.Op
	own := tuple.NewSubspace(tuple.Tuple{"greenroom", int64(1)})
	start, end := own.Range()
	for e, err := range r.engine.Scan(r.ctx, kv.Range{Start: start, End: end}) {
		must(r, err)
		key, err := own.Unpack(e.Key)
		must(r, err)
		if key[0] == int64(5) || key[0] == int64(1) && len(key) == 3 && key[2] == int64(5) {
			ops = append(ops, kv.Clear(bytes.Clone(e.Key)))
		}
	}
	if len(ops) == 0 {
		r.Fatal("no rows say when an actor must be woken")
	}
	must(r, r.engine.Commit(r.ctx, &kv.Commit{Ops: ops}))
}

// putOldRow puts a row as a host of before had it: at once, and a nonce.
func (r *rig) putOldRow(name string) {
	r.Helper()
	key := append([]byte("\x02greenroom.host\x00\x15\x01\x02"+name), 0)
	value := append([]byte("\x01\x00"+strings.Repeat("\x00", 8)), bytes.Repeat([]byte{0xab}, 16)...)
	must(r, r.engine.Commit(r.ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, value)}}))
}

// wantOldRows looks of which actors there are rows of before.
func (r *rig) wantOldRows(want ...string) {
	r.Helper()
	var names []string
	start, end := oldAlarms.Range()
	for e, err := range r.engine.Scan(r.ctx, kv.Range{Start: start, End: end}) {
		must(r, err)
		name, err := parseOldAlarm(e.Key)
		must(r, err)
		names = append(names, name)
	}
	if !slices.Equal(names, want) {
		r.Errorf("there are rows of %q, want %q", names, want)
	}
}

// TestWakeFails: the store fails when an actor must be woken.
func TestWakeFails(t *testing.T) {
	var d diary
	bubble(t, Options{}, func(r *rig) {
		r.plan("plan", time.Hour)
		pass(30 * time.Minute)
		fault := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Times: faultkv.Forever})
		pass(time.Hour)
		d.want(t)
		if fault.Hits() < 5 {
			t.Errorf("%d attempts in half an hour", fault.Hits())
		}
		fault.Remove()
		pass(10 * time.Minute)
		d.want(t, "bell")
	}, clockThing(&d))
}

// TestOtherHostsAlarms has one host look after what another one has left.
func TestOtherHostsAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := engines.Shared(memkv.New())
		var d [2]diary
		var hosts [2]*Host
		for i := range hosts {
			opts := Options{Logger: quiet, Store: &greenroom.Options{Host: actorstore.HostOptions{Name: strings.Repeat("h", i+1)}}}
			h, err := Open(t.Context(), engine, []*Type{clockThing(&d[i])}, &opts)
			must(t, err)
			hosts[i] = h
		}
		_, err := invoke[string](t.Context(), hosts[0], lobby, "plan", time.Hour)
		must(t, err)
		must(t, hosts[0].Close(t.Context()))
		pass(2 * time.Hour)
		d[0].want(t)
		d[1].want(t, "bell")
		must(t, hosts[1].Close(t.Context()))
	})
}

// TestManyHostsAlarms: of hosts that share an engine one does what is due, and then the
// actor sleeps. The hosts that found it in use don't wake it once more.
func TestManyHostsAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := engines.Shared(memkv.New())
		var looks atomic.Int64
		var d diary
		var hosts []*Host
		for range 5 {
			h, err := Open(t.Context(), engine, []*Type{counted(rightType(&d), &looks)}, &Options{Logger: quiet})
			must(t, err)
			hosts = append(hosts, h)
			pass(13 * time.Second) // they look at the index at different times
		}
		_, err := hosts[0].Send(t.Context(), lobby, queue.Send{Name: "word", Delay: 10 * time.Minute})
		must(t, err)
		pass(time.Hour)
		d.want(t, "done")
		looks.Store(0)
		pass(5 * time.Hour)
		if n := looks.Load(); n > 0 {
			t.Errorf("then it was woken %d times in five hours", n)
		}
		for _, h := range hosts {
			must(t, h.Close(t.Context()))
		}
	})
}

// TestAlarmOfLaterType: an event whose action is missing from one version of the type runs soon
// after a host opens with a version that includes the action.
func TestAlarmOfLaterType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, ran := memkv.New(), 0
		plan := NewCommand("plan", func(c *Context, _ struct{}) error { _, err := c.After(time.Minute, "later"); return err })
		later := NewCommand("later", func(c *Context, _ struct{}) error { ran++; return nil })
		for i, actions := range [][]AnyAction{{plan, later}, {plan}, {plan, later}} {
			h, err := Open(t.Context(), engine, []*Type{{Name: "thing", Actions: actions}}, &Options{Logger: quiet, IdleTimeout: time.Second})
			must(t, err)
			if i == 0 {
				must(t, plan.Call(t.Context(), h, "lobby", struct{}{}))
			} else {
				pass(time.Hour)
			}
			if want := i / 2; ran != want {
				t.Errorf("with version %d the event has run %d times, want %d", i, ran, want)
			}
			must(t, h.Close(t.Context()))
		}
	})
}
