package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

func TestRestore(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	must(t, c.SetState(map[string]int{"counter": 7}))
	must(t, c.Subscribe("tick"))
	must(t, c.Subscribe("tock"))
	must(t, c.Subscribe("tick"))
	if _, err := c.Received(3, 10); err != nil {
		t.Fatal(err)
	}
	if i, err := c.Sent(); err != nil || i != 1 {
		t.Fatalf("the first message that went out is %d, %v, want 1", i, err)
	}
	r.create(2)
	r.save()
	want := r.set.Conns()
	r.crash()
	got := r.set.Conns()
	if len(got) != 2 || r.set.Len() != 2 {
		t.Fatalf("%d connections, Len %d, want 2", len(got), r.set.Len())
	}
	for i := range got {
		if g, w := got[i].Record(), want[i].Record(); !reflect.DeepEqual(g, w) {
			t.Errorf("restored %+v, want %+v", g, w)
		}
		if got[i].Transport() != nil || got[i].Ephemeral() || got[i].Gone() {
			t.Errorf("restored with transport %v, ephemeral %v, gone %v", got[i].Transport(), got[i].Ephemeral(), got[i].Gone())
		}
	}
	c, ok := r.set.Get(c.ID())
	if !ok {
		t.Fatal("Get doesn't know the connection")
	}
	if g := c.Subscriptions(); !slices.Equal(g, []string{"tick", "tock"}) {
		t.Errorf("subscriptions %q", g)
	}
	if s := r.set.Subscribers(nil, "tock"); len(s) != 1 || s[0] != c {
		t.Errorf("subscribers of tock: %v", s)
	}
	if s, cl := c.Indices(); s != 3 || cl != 1 {
		t.Errorf("indices %d and %d, want 3 and 1", s, cl)
	}
	var state struct{ Counter int }
	if err := c.DecodeState(&state); err != nil || state.Counter != 7 {
		t.Errorf("state %+v, %v", state, err)
	}
}

// All of many connections come back: listing them has no bound of its own.
func TestRestoreMany(t *testing.T) {
	const n = 17_000 // more than a list of the engine has by default in other places
	r := open(t, quiet())
	for i := range n {
		r.create(i)
	}
	r.save()
	r.crash()
	if got := r.set.Len(); got != n {
		t.Errorf("%d of %d connections came back", got, n)
	}
	if c, ok := r.set.Find(info(n-1).Gateway, info(n-1).Request); !ok || c.Request() != info(n-1).Request {
		t.Errorf("Find: %v, %v", c, ok)
	}
}

// A reconnect finds the connection and swaps the transport; nothing else changes.
func TestReconnect(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	r.crash()
	c, ok := r.set.Find(c.Gateway(), c.Request())
	if !ok {
		t.Fatal("the connection isn't found")
	}
	first, err := c.Attach("first")
	must(t, err)
	second, err := c.Attach("second")
	must(t, err)
	if first(); c.Transport() != "second" {
		t.Errorf("the end of the old transport took the new one away: %v", c.Transport())
	}
	if second(); c.Transport() != nil {
		t.Errorf("transport %v after its end", c.Transport())
	}
	r.eng.Reset()
	if r.save(); r.eng.Counts().Commits != 0 {
		t.Errorf("a transport is stored: %+v", r.eng.Counts())
	}
	for _, absent := range []Info{{Gateway: c.Gateway()}, {Request: c.Request()}} {
		if c, ok := r.set.Find(absent.Gateway, absent.Request); ok {
			t.Errorf("Find(%v, %v) = %v", absent.Gateway, absent.Request, c.ID())
		}
	}
}

func TestEphemeral(t *testing.T) {
	r := open(t, quiet())
	r.eng.Reset()
	c, err := r.set.Create(Info{Ephemeral: true})
	must(t, err)
	if !c.Ephemeral() {
		t.Error("it isn't ephemeral")
	}
	must(t, c.SetState(strings.Repeat("x", 1<<20))) // it is never stored, so it may be as large as it likes
	must(t, c.Subscribe("tick"))
	if ahead, err := c.Received(2, 1<<20); err != nil || ahead != 2 {
		t.Errorf("Received: %d, %v", ahead, err)
	}
	if _, err := c.Sent(); err != nil {
		t.Error(err)
	}
	if _, ok := r.set.Find(GatewayID{}, RequestID{}); ok {
		t.Error("Find finds an ephemeral connection")
	}
	if s := r.set.Subscribers(nil, "tick"); len(s) != 1 {
		t.Errorf("%d subscribers, want 1", len(s))
	}
	r.save()
	must(t, r.set.Disconnect(ctx, c, "bye"))
	var b batch.Batch
	staged, err := r.set.Create(Info{Ephemeral: true})
	must(t, err)
	must(t, r.set.StageDisconnect(&b, staged))
	must(t, r.actor.Commit(ctx, &b))
	if r.set.Len() != 0 || !staged.Gone() || len(r.set.Subscribers(nil, "tick")) != 0 {
		t.Error("an ephemeral connection is left")
	}
	if n := r.eng.Counts(); n != (faultkv.Counts{}) {
		t.Errorf("ephemeral connections touched the store: %+v", n)
	}
	if a := r.acks.take(); len(a) != 0 {
		t.Errorf("they were acknowledged: %v", a)
	}
}

func TestCreateRefused(t *testing.T) {
	r := open(t, quiet())
	r.create(1)
	with := func(change func(*Info)) Info {
		i := info(2)
		change(&i)
		return i
	}
	for name, c := range map[string]struct {
		info Info
		err  error
	}{
		"no path":    {with(func(i *Info) { i.Path = "" }), ErrInfo},
		"header":     {with(func(i *Info) { i.Headers = []Header{{"a", ""}, {"a", ""}} }), ErrInfo},
		"text":       {with(func(i *Info) { i.Path = "\xff" }), ErrInfo},
		"state":      {with(func(i *Info) { i.State = []byte{0xff} }), ErrValue},
		"parameters": {with(func(i *Info) { i.Parameters = []byte{} }), ErrValue},
		"twice":      {info(1), ErrExists},
		"large":      {with(func(i *Info) { i.Path = strings.Repeat("x", r.actor.Limits().ValueSize) }), ErrTooLarge},
	} {
		if _, err := r.set.Create(c.info); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
	if r.set.Len() != 1 {
		t.Errorf("%d connections, want the one", r.set.Len())
	}
}

// What can't be stored leaves the connection as it was, and doesn't keep others from
// being saved.
func TestChangeRefused(t *testing.T) {
	r := open(t, quiet())
	c, other := r.create(1), r.create(2)
	r.save()
	before := c.Record()
	limit := r.actor.Limits().ValueSize
	for name, change := range map[string]struct {
		do  func() error
		err error
	}{
		"large state":  {func() error { return c.SetState(make([]byte, limit)) }, ErrTooLarge},
		"large event":  {func() error { return c.Subscribe(strings.Repeat("e", limit)) }, ErrTooLarge},
		"NaN":          {func() error { return c.SetState([]float64{math.NaN()}) }, ErrValue},
		"raw":          {func() error { return c.SetRawState([]byte{0x61}) }, ErrValue},
		"event":        {func() error { return c.Subscribe("\xff") }, ErrInfo},
		"mutate":       {func() error { return Mutate(c, func(*int) error { return context.Canceled }) }, context.Canceled},
		"mutate value": {func() error { return Mutate(c, func(f *float64) error { *f = math.Inf(1); return nil }) }, ErrValue},
	} {
		if err := change.do(); !errors.Is(err, change.err) {
			t.Errorf("%s: %v, want %v", name, err, change.err)
		}
	}
	var size *SizeError
	if err := c.SetState(make([]byte, limit)); !errors.As(err, &size) || size.Limit != limit || size.Size <= limit || size.ID != c.ID() {
		t.Errorf("%v is no good SizeError", err)
	}
	if !reflect.DeepEqual(c.Record(), before) {
		t.Errorf("the connection became %+v", c.Record())
	}
	must(t, other.SetState("saved"))
	r.save()
	if got := r.stored()[other.ID()]; !reflect.DeepEqual(got, other.Record()) {
		t.Errorf("the other is stored as %+v", got)
	}
	// To the last byte it is: an array of bytes has a head of 5 here, and the size of its
	// length grows as well.
	fits := limit - before.Size() - 5 - uintSize(limit) + 1 + 1
	must(t, c.SetState(make([]byte, fits)))
	if err := c.SetState(make([]byte, fits+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte more: %v", err)
	}
	r.save()
}

func TestState(t *testing.T) {
	r := open(t, quiet())
	i := info(1)
	i.Parameters = []byte{0x63, 'o', 'n', 'e'}
	c, err := r.set.Create(i)
	must(t, err)
	i.Parameters[1] = 'x'
	var name string
	if err := c.DecodeParameters(&name); err != nil || name != "one" || len(c.Parameters()) != 4 {
		t.Errorf("parameters %q, %v", name, err)
	}
	if s := c.State(); !bytes.Equal(s, undefined) {
		t.Errorf("the state begins as %x", s)
	}
	n := 5
	if err := c.DecodeState(&n); err != nil || n != 5 {
		t.Errorf("undefined became %d, %v", n, err)
	}
	for range 3 {
		must(t, Mutate(c, func(n *int) error { *n += 2; return nil }))
	}
	if err := c.DecodeState(&n); err != nil || n != 6 {
		t.Errorf("state %d, %v, want 6", n, err)
	}
	var text string
	if err := c.DecodeState(&text); !errors.Is(err, ErrValue) {
		t.Errorf("a number read as text: %v", err)
	}
	if err := Mutate(c, func(*string) error { return nil }); !errors.Is(err, ErrValue) {
		t.Errorf("a number mutated as text: %v", err)
	}
	raw := []byte{0x18, 0x63}
	must(t, c.SetRawState(raw))
	raw[1] = 0
	if err := c.DecodeState(&n); err != nil || n != 99 {
		t.Errorf("state %d, %v, want 99", n, err)
	}
	r.save()
	r.eng.Reset()
	must(t, c.SetState(99)) // what it is already
	if r.save(); r.eng.Counts().Commits != 0 {
		t.Error("a state that is as it was is saved")
	}
	must(t, c.SetRawState(nil))
	if s := c.State(); !bytes.Equal(s, undefined) {
		t.Errorf("nil became %x", s)
	}
}

func TestSubscriptions(t *testing.T) {
	r := open(t, quiet())
	a, b := r.create(1), r.create(2)
	for _, c := range []*Conn{b, a} {
		must(t, c.Subscribe("tick"))
	}
	must(t, a.Subscribe(""))
	before := a.Subscriptions()
	must(t, a.Unsubscribe("tick"))
	must(t, a.Unsubscribe("tick"))
	must(t, a.Subscribe("tock"))
	if !slices.Equal(before, []string{"tick", ""}) {
		t.Errorf("what was returned has changed to %q", before)
	}
	if got := a.Subscriptions(); !slices.Equal(got, []string{"", "tock"}) {
		t.Errorf("subscriptions %q", got)
	}
	must(t, a.Subscribe("tick"))
	if got := r.set.Subscribers(nil, "tick"); !slices.Equal(got, []*Conn{b, a}) {
		t.Errorf("subscribers %v", got)
	}
	must(t, r.set.Disconnect(ctx, b, ""))
	if got := r.set.Subscribers([]*Conn{b}, "tick"); !slices.Equal(got, []*Conn{b, a}) {
		t.Errorf("appended %v", got)
	}
	if got := r.set.Subscribers(nil, "nothing"); got != nil {
		t.Errorf("subscribers of nothing: %v", got)
	}
}

func TestOneSet(t *testing.T) {
	r := open(t, quiet())
	if _, err := Open(ctx, r.actor, nil); !errors.Is(err, actorstore.ErrKept) {
		t.Errorf("a second Set: %v", err)
	}
	must(t, r.set.Close(ctx))
	must(t, r.set.Close(ctx))
	next, err := Open(ctx, r.actor, nil)
	must(t, err)
	must(t, next.Close(ctx))

	broken := errors.New("broken")
	r.eng.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: broken})
	if _, err := Open(ctx, r.actor, nil); !errors.Is(err, broken) {
		t.Errorf("Open on a broken engine: %v", err)
	}
	next, err = Open(ctx, r.actor, nil) // nothing is kept by what failed
	must(t, err)
	must(t, next.Close(ctx))
}

func TestClosed(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	must(t, r.set.Close(ctx))
	if len(r.stored()) != 1 {
		t.Error("Close has not saved")
	}
	var b batch.Batch
	_, received := c.Received(1, 1)
	_, sent := c.Sent()
	_, attach := c.Attach(1)
	_, create := r.set.Create(info(2))
	_, cleanup := r.set.Cleanup(ctx, "")
	for name, err := range map[string]error{
		"Received": received, "Sent": sent, "Attach": attach, "Create": create, "Cleanup": cleanup,
		"SetState": c.SetState(1), "Subscribe": c.Subscribe("x"), "Unsubscribe": c.Unsubscribe("x"),
		"Save": r.set.Save(ctx), "Disconnect": r.set.Disconnect(ctx, c, ""),
		"StageDisconnect": r.set.StageDisconnect(&b, c), "Discard": r.set.Discard(ctx, "x"),
	} {
		if !errors.Is(err, ErrClosed) && !(name == "Cleanup" && err == nil) {
			t.Errorf("%s: %v, want %v", name, err, ErrClosed)
		}
	}
	// Nothing is left to stage, and that is no error for whoever saves with it.
	must(t, r.set.Stage(&b))
	must(t, r.actor.Commit(ctx, &b))
	if c.Gone() {
		t.Error("the connection is gone: it should hibernate")
	}
}

func TestGone(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	must(t, r.set.Disconnect(ctx, c, ""))
	var b batch.Batch
	_, received := c.Received(1, 1)
	_, sent := c.Sent()
	_, attach := c.Attach(1)
	for name, err := range map[string]error{
		"Received": received, "Sent": sent, "Attach": attach,
		"SetState": c.SetState(1), "Subscribe": c.Subscribe("x"), "Unsubscribe": c.Unsubscribe("x"),
		"Disconnect": r.set.Disconnect(ctx, c, ""), "StageDisconnect": r.set.StageDisconnect(&b, c),
	} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v, want %v", name, err, ErrGone)
		}
	}
	if c.Path() != "/connect" || len(c.Headers()) != 1 || c.ID() == "" {
		t.Error("what it was can't be read")
	}
}

// Once the actor has failed nothing more is claimed; opening it again rebuilds what is
// stored.
func TestPoisoned(t *testing.T) {
	r := open(t, quiet())
	c := r.create(1)
	r.save()
	must(t, c.SetState("in doubt"))
	r.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply})
	if err := r.set.Save(ctx); !errors.Is(err, actorstore.ErrPoisoned) {
		t.Fatalf("Save: %v, want %v", err, actorstore.ErrPoisoned)
	}
	_, create := r.set.Create(info(2))
	_, received := c.Received(1, 1)
	var b batch.Batch
	for name, err := range map[string]error{
		"Create": create, "Received": received, "SetState": c.SetState(1), "Save": r.set.Save(ctx),
		"Stage": r.set.Stage(&b), "Disconnect": r.set.Disconnect(ctx, c, ""), "Close": r.set.Close(ctx),
	} {
		if !errors.Is(err, actorstore.ErrPoisoned) {
			t.Errorf("%s: %v, want %v", name, err, actorstore.ErrPoisoned)
		}
	}
	r.crash()
	c, ok := r.set.Get(c.ID())
	var state string
	if !ok || c.DecodeState(&state) != nil || state != "in doubt" {
		t.Errorf("after reopening: %v, state %q", ok, state)
	}
}

func TestMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if seen[m.Name] || !strings.HasPrefix(m.Name, "conn_") || m.Help == "" {
			t.Errorf("metric %+v", m)
		}
		seen[m.Name] = true
	}
	if len(seen) != 7 {
		t.Error(fmt.Sprint(seen))
	}
}
