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
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// A deployment is work that one version of a type leaves, a version that can't do it, and how
// often at most that looks at it in an hour.
type deployment struct {
	what  string
	begin func(c *Context) error
	bad   func(k *Type)
	looks int64
}

// doing is a workflow that takes a step, sleeps for an hour and takes another one.
func doing(d *diary) workflow.Func[int, int] {
	return func(c *workflow.Context, n int) (int, error) {
		first := workflow.Do(c, "first", func(context.Context) error { return nil })
		c.Sleep("nap", time.Hour)
		return n, errors.Join(first, workflow.Do(c, "second", func(context.Context) error { d.write("done"); return nil }))
	}
}

// rightType is the version that can do everything: each thing writes "done".
func rightType(d *diary) *Type {
	return &Type{
		Name: "thing",
		Actions: []AnyAction{
			NewCommand("begin", func(*Context, struct{}) error { return nil }),
			NewCommand("ring", func(*Context, struct{}) error { d.write("done"); return nil }),
		},
		Message:      func(*Context, *greenroom.Message) error { d.write("done"); return nil },
		MessageNames: []string{"word"},
		Workflow:     NewWorkflow(doing(d), nil),
	}
}

func startFlow(c *Context) error { return c.StartWorkflow(1) }

func sendWord(c *Context) error {
	_, err := c.Enqueue(queue.Send{Name: "word", Delay: time.Hour})
	return err
}

var deployments = []deployment{
	{"the workflow's code differs from its history", startFlow, func(k *Type) {
		k.Workflow = NewWorkflow(func(c *workflow.Context, n int) (int, error) { c.Sleep("first", 0); return n, nil }, nil)
	}, 13},
	{"the workflow's code makes no sense", startFlow, func(k *Type) {
		k.Workflow = NewWorkflow(func(c *workflow.Context, n int) (int, error) {
			_ = workflow.Do(c, "first", func(context.Context) error { return nil })
			c.Sleep("nap", 0)
			c.Sleep("nap", 0)
			return n, nil
		}, nil)
	}, 13},
	{"the workflow's history is full", startFlow, func(k *Type) {
		k.Workflow = NewWorkflow(doing(&diary{}), &greenroom.WorkflowOptions{MaxEntries: 2})
	}, 13},
	{"there is no workflow", startFlow, func(k *Type) { k.Workflow = nil }, 1},
	{"there is no handler of messages", sendWord, func(k *Type) { k.Message, k.MessageNames = nil, nil }, 1},
	{"messages of the name aren't wanted", sendWord, func(k *Type) { k.MessageNames = []string{"other"} }, 1},
	{"there is no action for the event", func(c *Context) error {
		_, err := c.After(time.Hour, "ring")
		return err
	}, func(k *Type) { k.Actions = k.Actions[:1] }, 1},
}

// deployed runs fn with a host of a type, with which it begins.
func deployed(t *testing.T, engine kv.Engine, k *Type, fn func(h *Host)) {
	t.Helper()
	h, err := Open(t.Context(), engine, []*Type{k}, &Options{Logger: quiet})
	must(t, err)
	fn(h)
	must(t, h.Close(t.Context()))
}

// counted has a type count how often its actors wake.
func counted(k *Type, n *atomic.Int64) *Type {
	k.Wake = func(*Context) error { n.Add(1); return nil }
	return k
}

// beginWork has the lobby begin what begin begins.
func beginWork(t *testing.T, engine kv.Engine, begin func(*Context) error) {
	t.Helper()
	k := rightType(&diary{})
	k.Actions[0] = NewCommand("begin", func(c *Context, _ struct{}) error { return begin(c) })
	deployed(t, engine, k, func(h *Host) {
		_, err := invoke[any](t.Context(), h, lobby, "begin", nil)
		must(t, err)
		pass(time.Minute)
	})
}

// TestDeployment has a version of a type that can't do what waits run for two hours, and then
// one that can: it looks once, and does it, without a call. The first one looks when it
// starts, and no more than it must, when it is started again, too.
func TestDeployment(t *testing.T) {
	for _, test := range deployments {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := memkv.New()
				beginWork(t, engine, test.begin)
				var looks, again atomic.Int64
				bad := rightType(&diary{})
				test.bad(bad)
				deployed(t, engine, counted(bad, &looks), func(h *Host) {
					pass(2*time.Hour + time.Minute) // it ends between two looks, which are minutes apart
					looks.Store(0)
					pass(time.Hour)
					if n := looks.Load(); n >= test.looks {
						t.Errorf("it has looked %d times in an hour", n)
					}
				})
				looks.Store(0)
				deployed(t, engine, bad, func(h *Host) { pass(time.Second) })
				if n := looks.Load(); n > 0 {
					t.Errorf("started again, it has looked %d times at once", n)
				}
				var d diary
				deployed(t, engine, counted(rightType(&d), &again), func(h *Host) {
					pass(time.Second)
					d.want(t, "done")
					pass(3 * time.Hour)
					if n := again.Load(); n != 1 {
						t.Errorf("it was woken %d times", n)
					}
					if s := h.Stats(); s.Awake != 0 || s.Alarms != 0 {
						t.Errorf("%+v is left", s)
					}
				})
				r := &rig{TB: t, ctx: t.Context(), engine: faultkv.New(engine)}
				r.wantRows(0)
			})
		})
	}
}

// TestDeploymentKilled kills the host before each commit of the first look of code that can do
// what waits: the next one does it, exactly once as far as the actor's own data goes.
func TestDeploymentKilled(t *testing.T) {
	for _, test := range deployments {
		for skip, hit := 0, true; hit; skip++ {
			synctest.Test(t, func(t *testing.T) {
				engine := memkv.New()
				beginWork(t, engine, test.begin)
				bad := rightType(&diary{})
				test.bad(bad)
				deployed(t, engine, bad, func(h *Host) { pass(2 * time.Hour) })

				hit = false
				dying := faultkv.New(engine)
				var mu sync.Mutex
				n := 0
				dying.Hook(func(op faultkv.Op) error {
					mu.Lock()
					defer mu.Unlock()
					if op.Point != faultkv.BeforeCommit {
						return nil
					}
					if n++; n <= skip {
						return nil
					}
					hit = true
					return errKilled
				})
				var d diary
				opts := &Options{Logger: quiet}
				killed, err := Open(t.Context(), dying, []*Type{rightType(&d)}, opts)
				if err == nil {
					pass(10 * time.Second)
					killed.alarms.Close()
				}
				deployed(t, engine, rightType(&d), func(h *Host) { pass(time.Minute) })
				if lines := d.read(); len(lines) == 0 || len(lines) > 2 {
					t.Errorf("%s, killed at commit %d: got %q", test.what, skip, lines)
				}
				if killed != nil {
					_ = killed.Close(context.WithoutCancel(t.Context())) // its store is dead
				}
			})
		}
	}
}

// TestDeploymentUnseen: code that is better, and of which nothing can be seen, goes on with a
// workflow within some five minutes.
func TestDeploymentUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var bad atomic.Bool
		bad.Store(true)
		k := rightType(&d)
		k.Workflow = NewWorkflow(func(c *workflow.Context, n int) (int, error) {
			if bad.Load() {
				c.Sleep("first", 0)
			}
			return doing(&d)(c, n)
		}, nil)
		engine := memkv.New()
		beginWork(t, engine, startFlow)
		deployed(t, engine, k, func(h *Host) {
			pass(2 * time.Hour)
			bad.Store(false)
			pass(6 * time.Minute)
			d.want(t, "done")
		})
	})
}

// TestDeploymentBack has the version that can do what waits follow upon one that can't, once
// more: a message that came too early for it has had it leave a row before. What came or
// was due under the other version it does without a call.
func TestDeploymentBack(t *testing.T) {
	early := func(c *Context) error {
		_, err := c.Enqueue(queue.Send{Name: "early"})
		return err
	}
	for _, test := range deployments {
		synctest.Test(t, func(t *testing.T) {
			engine := memkv.New()
			beginWork(t, engine, func(c *Context) error { return errors.Join(early(c), test.begin(c)) })
			bad := rightType(&diary{})
			test.bad(bad)
			deployed(t, engine, bad, func(h *Host) { pass(2 * time.Hour) })
			var d diary
			var looks atomic.Int64
			deployed(t, engine, counted(rightType(&d), &looks), func(h *Host) {
				pass(10 * time.Minute)
				if lines := d.read(); len(lines) != 1 {
					t.Errorf("%s: got %q", test.what, lines)
				}
				looks.Store(0)
				pass(3 * time.Hour)
				if n := looks.Load(); n > 0 {
					t.Errorf("%s: and then it was woken %d times", test.what, n)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		engine := memkv.New()
		beginWork(t, engine, early)
		bad := rightType(&diary{})
		bad.Message, bad.MessageNames = nil, nil
		deployed(t, engine, bad, func(h *Host) {
			pass(time.Minute)
			_, err := h.Send(t.Context(), lobby, queue.Send{Name: "word"})
			must(t, err)
			pass(time.Minute)
		})
		var d diary
		deployed(t, engine, rightType(&d), func(h *Host) {
			pass(time.Second)
			d.want(t, "done")
		})
	})
}

// TestDeploymentStart: a version without the workflow doesn't take the event that starts it
// for one of its own, whatever it does with events whose action it doesn't have.
func TestDeploymentStart(t *testing.T) {
	for what, bad := range map[string]func(k *Type){
		"no handler": func(*Type) {},
		"Alarm":      func(k *Type) { k.Alarm = func(*Context, persist.Event) error { return nil } },
		"Other":      func(k *Type) { k.Other = func(*Context, string, Raw) (Raw, error) { return nil, nil } },
	} {
		synctest.Test(t, func(t *testing.T) {
			engine := memkv.New()
			k := rightType(&diary{})
			k.Actions[0] = NewCommand("begin", func(c *Context, _ struct{}) error { return c.StartWorkflow(1) })
			deployed(t, engine, k, func(h *Host) { // which is closed before the workflow has started
				_, err := invoke[any](t.Context(), h, lobby, "begin", nil)
				must(t, err)
			})
			other := rightType(&diary{})
			other.Workflow = nil
			bad(other)
			deployed(t, engine, other, func(h *Host) { pass(time.Hour) })
			var d diary
			deployed(t, engine, rightType(&d), func(h *Host) { pass(2 * time.Hour) })
			if lines := d.read(); len(lines) != 1 {
				t.Errorf("%s: got %q", what, lines)
			}
		})
	}
}

// TestDeploymentLetter: a message that comes from another actor while its receiver's type has
// no handler is taken by the version that has one.
func TestDeploymentLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		engine := memkv.New()
		talker := &Type{Name: "talker", Actions: []AnyAction{
			NewCommand("tell", func(c *Context, name string) error { return c.Send(lobby, queue.Send{Name: name}) }),
		}}
		for i, kinds := range [][]*Type{{thing(add), talker}, {rightType(&d), talker}} {
			h, err := Open(t.Context(), engine, kinds, &Options{Logger: quiet})
			must(t, err)
			if i == 0 {
				_, err = invoke[any](t.Context(), h, Address{"talker", "x"}, "tell", "word")
				must(t, err)
			}
			pass(time.Minute)
			must(t, h.Close(t.Context()))
		}
		d.want(t, "done")
	})
}

// TestDeploymentsBeside: of two hosts with different versions, neither of which can do what
// waits, each looks once; the one that can takes it over.
func TestDeploymentsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := engines.Shared(memkv.New())
		beginWork(t, engine, sendWord)
		var d diary
		var looks [3]atomic.Int64
		var hosts []*Host
		for i := range looks {
			k := rightType(&d)
			if i < 2 {
				k.MessageNames = []string{fmt.Sprint("other", i)}
			}
			opts := &Options{Logger: quiet}
			opts.Store = &greenroom.Options{}
			opts.Store.Host.Name = fmt.Sprint("host", i)
			h, err := Open(t.Context(), engine, []*Type{counted(k, &looks[i])}, opts)
			must(t, err)
			hosts = append(hosts, h)
			pass(5 * time.Hour)
			if i < 2 {
				d.want(t)
			}
		}
		d.want(t, "done")
		if a, b := looks[0].Load(), looks[1].Load(); a > 2 || b > 2 || a+b > 3 {
			t.Errorf("they have looked %d and %d times", a, b)
		}
		for _, h := range hosts {
			must(t, h.Close(t.Context()))
		}
	})
}

// TestFingerprint: what a version of a type can do decides over its fingerprint, and nothing
// else.
func TestFingerprint(t *testing.T) {
	of := func(change func(k *Type)) uint64 {
		t.Helper()
		k := rightType(&diary{})
		change(k)
		kind, err := newKind(k)
		must(t, err)
		return kind.fingerprint()
	}
	same := of(func(*Type) {})
	if of(func(k *Type) {
		k.Sleep, k.Actions = func(*Context) error { return nil }, append([]AnyAction{k.Actions[1]}, k.Actions[0])
	}) != same {
		t.Error("the order of actions, or a hook that has no work, changes it")
	}
	seen := map[uint64]bool{same: true}
	for i, test := range append(deployments[:len(deployments):len(deployments)],
		deployment{bad: func(k *Type) { k.Name = "other" }},
		deployment{bad: func(k *Type) { k.Other = func(*Context, string, Raw) (Raw, error) { return nil, nil } }},
		deployment{bad: func(k *Type) { k.MessageNames = append(k.MessageNames, "more") }},
		deployment{bad: func(k *Type) { k.Wake = func(*Context) error { return nil } }},
		deployment{bad: func(k *Type) { k.Run = func(context.Context) error { return nil } }},
	) {
		if f := of(test.bad); seen[f] {
			t.Errorf("version %d has the fingerprint of another one", i)
		} else {
			seen[f] = true
		}
	}
}

// TestTried: no more than the newest versions are remembered.
func TestTried(t *testing.T) {
	var all []uint64
	for i := range 9 {
		k := thing()
		k.Name = fmt.Sprint(i)
		kind, err := newKind(k)
		must(t, err)
		all = kind.tried(kind.tried(all))
		if len(all) != min(i+1, actorstore.MaxTried) || all[len(all)-1] != kind.fingerprint() {
			t.Errorf("version %d: %x", i, all)
		}
	}
}
