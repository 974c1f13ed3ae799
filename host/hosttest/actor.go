package hosttest

import (
	"context"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// An Actor is how a test reaches an actor, which needn't exist. It stays good after Restart and Crash.
type Actor struct {
	// Address is where the actor is.
	Address host.Address
	// Caller is in whose name calls and connections are made; nil is in none. See host.WithCaller.
	Caller *host.Caller

	e *Env
}

// Actor returns the actor of a type with a key.
func (e *Env) Actor(kind, key string) *Actor {
	return &Actor{Address: host.Address{Type: kind, Key: key}, e: e}
}

// As returns the same actor, for calls in the name of a caller.
func (a *Actor) As(c *host.Caller) *Actor {
	as := *a
	as.Caller = c
	return &as
}

func (a *Actor) context() (context.Context, context.CancelFunc) {
	ctx, cancel := a.e.context()
	if a.Caller != nil {
		ctx = host.WithCaller(ctx, a.Caller)
	}
	return ctx, cancel
}

func (a *Actor) env() *Env { return a.e }

func (a *Actor) must(what string, err error) {
	a.e.t.Helper()
	a.e.must(a.Address.String()+": "+what, err)
}

// A Caller calls actions by their names: an Actor, or a Client over its connection.
type Caller interface {
	// Do returns the result of an action, which may be decoded, or its error. See host.Host.Do.
	Do(action string, in any) (host.Raw, error)
	must(what string, err error)
	env() *Env
}

// Call returns the result of an action, and ends the test if there is an error. An in that is nil stands for no
// argument. In Go, an action that is declared calls itself as well:
//
//	total, err := add.Call(t.Context(), e.Host, "lobby", 2)
func Call[Out any](c Caller, action string, in any) (out Out) {
	c.env().t.Helper()
	r, err := c.Do(action, in)
	c.must(action, err)
	c.must("result of "+action, r.Decode(&out))
	return out
}

// Do calls an action. See Caller.
func (a *Actor) Do(action string, in any) (host.Raw, error) {
	return a.do(&host.Call{Action: action}, in)
}

func (a *Actor) do(call *host.Call, in any) (host.Raw, error) {
	ctx, cancel := a.context()
	defer cancel()
	var err error
	if call.Args, err = host.Encode(in); err != nil {
		return nil, err
	}
	call.Actor = a.Address
	return a.e.Host.Do(ctx, call)
}

// Send puts a message into the actor's queue.
func (a *Actor) Send(name string, body any) {
	a.e.t.Helper()
	ctx, cancel := a.context()
	defer cancel()
	_, err := a.e.Host.Send(ctx, a.Address, queue.Send{Name: name, Body: body})
	a.must("send "+name, err)
}

// StartWorkflow starts the actor's workflow, unless it was started before.
func (a *Actor) StartWorkflow(input any) {
	a.e.t.Helper()
	ctx, cancel := a.context()
	defer cancel()
	_, err := a.e.Host.StartWorkflow(ctx, a.Address, input)
	a.must("start the workflow", err)
}

// Sleep puts the actor to sleep, and returns when it has left memory; at once if it sleeps. What
// comes next, or is due, wakes it.
func (a *Actor) Sleep() {
	a.e.t.Helper()
	ctx, cancel := a.context()
	defer cancel()
	a.must("sleep", a.e.Host.Sleep(ctx, actorstore.IDFromName(a.Address.String())))
}

// View runs fn with what the actor stores, without waking it: to look at its tables, state, messages and what it has
// scheduled.
func (a *Actor) View(fn func(v *greenroom.View) error) {
	a.e.t.Helper()
	ctx, cancel := a.context()
	defer cancel()
	a.must("view", a.e.Host.Store().View(ctx, a.Address.String(), fn))
}

// Messages returns what is in the actor's queue under a name. Dead letters are under that of
// the message and queue.Options.DeadLetter, which is ".dlq".
func (a *Actor) Messages(name string) (all []queue.Stored) {
	a.e.t.Helper()
	a.View(func(v *greenroom.View) error {
		for m, err := range v.Messages(nil) {
			if err != nil {
				return err
			}
			if m.Name == name {
				all = append(all, m)
			}
		}
		return nil
	})
	return all
}

// Result returns the result of the actor's workflow, and ends the test unless it is completed: with why it has failed, or what it waits for. The codec is that of workflow.CBOR.
func Result[Out any](a *Actor) (out Out) {
	a.e.t.Helper()
	a.View(func(v *greenroom.View) error {
		s, _, err := v.Workflow()
		if err != nil {
			return err
		}
		switch s.State {
		case workflow.Completed:
			return workflow.CBOR().Decode(s.Output, &out)
		case workflow.Failed, workflow.RollingBack:
			return fmt.Errorf("the workflow is %s: %w", s.State, s.Error)
		}
		var waits []string
		for _, w := range s.Waits() {
			waits = append(waits, w.String())
		}
		return fmt.Errorf("the workflow is %s, and waits for %s", s.State, strings.Join(waits, " and "))
	})
	return out
}

// A Failure is how a commit fails.
type Failure uint8

// The failures of commits.
const (
	// NotApplied: the store refuses the commit, and says so: nothing of its turn lands.
	NotApplied Failure = iota
	// DiskFull is NotApplied for want of room: of the kind greenroom.ErrNoSpace.
	DiskFull
	// Unanswered: the store doesn't answer, and the commit was not applied. The caller
	// gets host.ErrUnknownOutcome, and the actor wakes anew.
	Unanswered
	// UnansweredApplied is Unanswered of a commit that was applied.
	UnansweredApplied
)

// Fail has the next n commits of the actor fail, 1 or more, or all of them if n is negative: those of turns, and also those that the
// host makes for it, as when it hands out a message or is woken. The Fault says how many have failed, and
// takes the rule back (Remove).
func (a *Actor) Fail(f Failure, n int) *faultkv.Fault {
	r := faultkv.Rule{Point: faultkv.BeforeCommit, Times: n, Match: a.writes}
	switch f {
	case NotApplied:
		r.Err = kv.NotApplied(faultkv.ErrInjected)
	case DiskFull:
		r.Err = kv.NotApplied(greenroom.ErrNoSpace)
	case Unanswered:
		r.Err = kv.ErrUnknownOutcome
	case UnansweredApplied:
		r.Point, r.Err = faultkv.AfterApply, kv.ErrUnknownOutcome
	}
	return a.e.disk.Fail(r)
}

// writes says whether a commit writes rows of the actor.
func (a *Actor) writes(op faultkv.Op) bool {
	id := actorstore.IDFromName(a.Address.String())
	for i := range op.Commit.Ops {
		o := &op.Commit.Ops[i]
		if o.Kind == kv.OpClearRange {
			if actorstore.RowsOverlap(id, kv.Range{Start: o.Key, End: o.Value}) {
				return true
			}
		} else if of, _, ok := actorstore.RowOwner(o.Key); ok && of == id {
			return true
		}
	}
	return false
}
