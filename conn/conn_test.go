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
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

func TestRestore(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	r.setState(c, map[string]int{"counter": 7})
	must(t, r.do(func(tx *Tx) error {
		return errors.Join(tx.Subscribe(c, "tick"), tx.Subscribe(c, "tock"), tx.Subscribe(c, "tick"))
	}))
	r.create(2)
	want := r.set.Conns()
	r.crash()
	got := r.set.Conns()
	if len(got) != 2 || len(r.set.Conns()) != 2 {
		t.Fatalf("%d connections, Len %d, want 2", len(got), len(r.set.Conns()))
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
	var state struct{ Counter int }
	if err := c.DecodeState(&state); err != nil || state.Counter != 7 {
		t.Errorf("state %+v, %v", state, err)
	}
}

// All of many connections come back: listing them has no bound of its own.
func TestRestoreMany(t *testing.T) {
	const n = 17_000 // more than a list of the engine has by default in other places
	r := openLimited(t, Options{}, batch.Limits{Entries: 1000})
	b := batch.Batch{Mode: batch.Ordered}
	for i := range n {
		if _, err := r.set.In(&b).Create(info(i)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, r.actor.Commit(ctx, &b))
	r.crash()
	if got := len(r.set.Conns()); got != n {
		t.Errorf("%d of %d connections came back", got, n)
	}
	if c, ok := r.set.Find(info(n-1).Gateway, info(n-1).Request); !ok || c.Request() != info(n-1).Request {
		t.Errorf("Find: %v, %v", c, ok)
	}
}

// A reconnect finds the connection and swaps the transport; nothing else changes.
func TestReconnect(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
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
	for _, absent := range []Info{{Gateway: c.Gateway()}, {Request: c.Request()}} {
		if c, ok := r.set.Find(absent.Gateway, absent.Request); ok {
			t.Errorf("Find(%v, %v) = %v", absent.Gateway, absent.Request, c.ID())
		}
	}
}

func TestEphemeral(t *testing.T) {
	r := open(t, Options{})
	r.eng.Reset()
	var c *Conn
	must(t, r.do(func(tx *Tx) (err error) {
		c, err = tx.Create(Info{Ephemeral: true})
		return err
	}))
	if !c.Ephemeral() {
		t.Error("it isn't ephemeral")
	}
	r.setState(c, strings.Repeat("x", 1<<20)) // it is never stored, so it may be as large as it likes
	must(t, r.do(func(tx *Tx) error { return tx.Subscribe(c, "tick") }))
	if _, ok := r.set.Find(GatewayID{}, RequestID{}); ok {
		t.Error("Find finds an ephemeral connection")
	}
	if s := r.set.Subscribers(nil, "tick"); len(s) != 1 {
		t.Errorf("%d subscribers, want 1", len(s))
	}
	r.disconnect(c)
	if len(r.set.Conns()) != 0 || !c.Gone() || len(r.set.Subscribers(nil, "tick")) != 0 {
		t.Error("an ephemeral connection is left")
	}
	if n := r.eng.Counts(); n != (faultkv.Counts{}) {
		t.Errorf("ephemeral connections touched the store: %+v", n)
	}
}

func TestCreateRefused(t *testing.T) {
	r := open(t, Options{})
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
		if err := r.do(func(tx *Tx) error { _, err := tx.Create(c.info); return err }); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
	if len(r.set.Conns()) != 1 {
		t.Errorf("%d connections, want the one", len(r.set.Conns()))
	}
}

// What can't be stored leaves the connection as it was, and doesn't keep others from
// being saved.
func TestChangeRefused(t *testing.T) {
	r := open(t, Options{})
	c, other := r.create(1), r.create(2)
	before := c.Record()
	limit := r.actor.Limits().ValueSize
	var b batch.Batch
	tx := r.set.In(&b)
	for name, change := range map[string]struct{ got, want error }{
		"large state": {tx.SetState(c, large(limit)), ErrTooLarge},
		"large event": {tx.Subscribe(c, strings.Repeat("e", limit)), ErrTooLarge},
		"raw":         {tx.SetState(c, []byte{0x61}), ErrValue},
		"event":       {tx.Subscribe(c, "\xff"), ErrInfo},
	} {
		if !errors.Is(change.got, change.want) {
			t.Errorf("%s: %v, want %v", name, change.got, change.want)
		}
	}
	if _, err := Encode([]float64{math.NaN()}); !errors.Is(err, ErrValue) {
		t.Errorf("NaN: %v, want %v", err, ErrValue)
	}
	var size *SizeError
	if err := tx.SetState(c, large(limit)); !errors.As(err, &size) || size.Limit != limit || size.Size <= limit || size.ID != c.ID() {
		t.Errorf("%v is no good SizeError", err)
	}
	must(t, r.actor.Commit(ctx, &b))
	if !reflect.DeepEqual(c.Record(), before) {
		t.Errorf("the connection became %+v", c.Record())
	}
	r.setState(other, "saved")
	if got := r.stored()[other.ID()]; !reflect.DeepEqual(got, other.Record()) {
		t.Errorf("the other is stored as %+v", got)
	}
	// To the last byte it is: an array of bytes has a head of 5 here, and the size of its
	// length grows as well.
	fits := limit - before.Size() - 5 - uintSize(limit) + 1 + 1
	r.setState(c, make([]byte, fits))
	if err := r.do(func(tx *Tx) error { return tx.SetState(c, large(fits+1)) }); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte more: %v", err)
	}
	// Two batches that fit by themselves don't together.
	r.setState(c, make([]byte, fits-100))
	var late batch.Batch
	must(t, r.set.In(&late).Subscribe(c, strings.Repeat("e", 90)))
	r.setState(c, make([]byte, fits))
	if err := r.actor.Commit(ctx, &late); !errors.Is(err, ErrTooLarge) || len(c.Subscriptions()) != 0 {
		t.Errorf("an event that doesn't fit any more: %v", err)
	}
	r.same()
}

// large returns n bytes, in CBOR.
func large(n int) []byte {
	value, err := Encode(make([]byte, n))
	if err != nil {
		panic(err)
	}
	return value
}

func TestState(t *testing.T) {
	r := open(t, Options{})
	i := info(1)
	i.Parameters = []byte{0x63, 'o', 'n', 'e'}
	var c *Conn
	must(t, r.do(func(tx *Tx) (err error) {
		c, err = tx.Create(i)
		return err
	}))
	i.Parameters[1] = 'x'
	var name string
	if err := decode(c.Parameters(), &name); err != nil || name != "one" || len(c.Parameters()) != 4 {
		t.Errorf("parameters %q, %v", name, err)
	}
	if s := c.State(); !bytes.Equal(s, undefined) {
		t.Errorf("the state begins as %x", s)
	}
	n := 5
	if err := c.DecodeState(&n); err != nil || n != 5 {
		t.Errorf("undefined became %d, %v", n, err)
	}
	r.setState(c, 6)
	var text string
	if err := c.DecodeState(&text); !errors.Is(err, ErrValue) {
		t.Errorf("a number read as text: %v", err)
	}
	raw := []byte{0x18, 0x63}
	must(t, r.do(func(tx *Tx) error {
		err := tx.SetState(c, raw)
		raw[1] = 0
		if s := tx.State(c); !bytes.Equal(s, []byte{0x18, 0x63}) || !bytes.Equal(c.State(), []byte{6}) {
			t.Errorf("the batch shows %x, the connection %x", s, c.State())
		}
		return err
	}))
	if err := c.DecodeState(&n); err != nil || n != 99 {
		t.Errorf("state %d, %v, want 99", n, err)
	}
	r.eng.Reset()
	r.setState(c, 99) // what it is already
	if r.eng.Counts().Commits != 0 {
		t.Error("a state that is as it was is stored")
	}
	must(t, r.do(func(tx *Tx) error { return tx.SetState(c, nil) }))
	if s := c.State(); !bytes.Equal(s, undefined) {
		t.Errorf("nil became %x", s)
	}
}

func TestSubscriptions(t *testing.T) {
	r := open(t, Options{})
	a, b := r.create(1), r.create(2)
	for _, c := range []*Conn{b, a} {
		must(t, r.do(func(tx *Tx) error { return tx.Subscribe(c, "tick") }))
	}
	must(t, r.do(func(tx *Tx) error { return tx.Subscribe(a, "") }))
	before := a.Subscriptions()
	must(t, r.do(func(tx *Tx) error {
		return errors.Join(tx.Unsubscribe(a, "tick"), tx.Unsubscribe(a, "tick"), tx.Subscribe(a, "tock"))
	}))
	if !slices.Equal(before, []string{"tick", ""}) {
		t.Errorf("what was returned has changed to %q", before)
	}
	if got := a.Subscriptions(); !slices.Equal(got, []string{"", "tock"}) {
		t.Errorf("subscriptions %q", got)
	}
	must(t, r.do(func(tx *Tx) error { return tx.Subscribe(a, "tick") }))
	if got := r.set.Subscribers(nil, "tick"); !slices.Equal(got, []*Conn{b, a}) {
		t.Errorf("subscribers %v", got)
	}
	r.disconnect(b)
	if got := r.set.Subscribers([]*Conn{b}, "tick"); !slices.Equal(got, []*Conn{b, a}) {
		t.Errorf("appended %v", got)
	}
	if got := r.set.Subscribers(nil, "nothing"); got != nil {
		t.Errorf("subscribers of nothing: %v", got)
	}
}

func TestOneSet(t *testing.T) {
	r := open(t, Options{})
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

// refusals returns what is said by all that would change c.
func (r *room) refusals(c *Conn) map[string]error {
	var b batch.Batch
	tx := r.set.In(&b)
	_, attach := c.Attach(1)
	return map[string]error{
		"Attach": attach, "SetState": tx.SetState(c, nil), "Subscribe": tx.Subscribe(c, "x"),
		"Unsubscribe": tx.Unsubscribe(c, "x"), "Disconnect": tx.Disconnect(c),
	}
}

func TestClosed(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	var staged batch.Batch
	must(t, r.set.In(&staged).Disconnect(c))
	var e *Conn
	must(t, r.do(func(tx *Tx) (err error) {
		e, err = tx.Create(Info{Ephemeral: true})
		return err
	}))
	var empty batch.Batch
	empty.Put(actorstore.UserKey([]byte("k")), nil)
	r.set.In(&empty)
	must(t, r.set.Close(ctx))
	if len(r.stored()) != 1 || c.Gone() || !e.Gone() {
		t.Error("what hibernates is gone, or what doesn't is left")
	}
	all := r.refusals(c)
	all["Create"] = r.do(func(tx *Tx) error { _, err := tx.Create(info(2)); return err })
	all["Discard"], all["Commit"] = r.set.Discard(ctx, "x"), r.actor.Commit(ctx, &staged)
	for name, err := range all {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want %v", name, err, ErrClosed)
		}
	}
	must(t, r.actor.Commit(ctx, &empty)) // it changes no connection
}

// TestCloseWaits: Close waits for the commit that is under way, as long as its context says.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, Options{})
		pause := r.eng.Pause(faultkv.Rule{Point: faultkv.BeforeCommit, Times: 1})
		made, closed := make(chan error, 1), make(chan error, 1)
		go func() { made <- r.do(func(tx *Tx) error { _, err := tx.Create(info(1)); return err }) }()
		<-pause.Reached()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := r.set.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		go func() { closed <- r.set.Close(ctx) }()
		synctest.Wait()
		pause.Release()
		must(t, <-closed)
		must(t, <-made)
		if len(r.set.Conns()) != 1 || len(r.stored()) != 1 {
			t.Errorf("%d connections, %d stored", len(r.set.Conns()), len(r.stored()))
		}
	})
}

func TestGone(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	var late batch.Batch
	state, err := Encode("late")
	must(t, err)
	must(t, r.set.In(&late).SetState(c, state))
	r.disconnect(c)
	all := r.refusals(c)
	all["Commit"] = r.actor.Commit(ctx, &late)
	all["twice"] = r.do(func(tx *Tx) error {
		c := r.create(2)
		return errors.Join(tx.Disconnect(c), tx.Disconnect(c))
	})
	for name, err := range all {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v, want %v", name, err, ErrGone)
		}
	}
	if c.Path() != "/connect" || len(c.Headers()) != 1 || c.ID() == "" {
		t.Error("what it was can't be read")
	}
}

// After the actor's failure nothing more is claimed; opening it again rebuilds what is
// stored.
func TestPoisoned(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	state, err := Encode("in doubt")
	must(t, err)
	r.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply})
	if err := r.do(func(tx *Tx) error { return tx.SetState(c, state) }); !errors.Is(err, actorstore.ErrPoisoned) {
		t.Fatalf("Commit: %v, want %v", err, actorstore.ErrPoisoned)
	}
	for name, err := range r.refusals(c) {
		if !errors.Is(err, actorstore.ErrPoisoned) {
			t.Errorf("%s: %v, want %v", name, err, actorstore.ErrPoisoned)
		}
	}
	must(t, r.set.Close(ctx))
	r.crash()
	c, ok := r.set.Get(c.ID())
	var got string
	if !ok || c.DecodeState(&got) != nil || got != "in doubt" {
		t.Errorf("after reopening: %v, state %q", ok, got)
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
	if len(seen) != 4 {
		t.Error(fmt.Sprint(seen))
	}
}
