package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/client"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestConn: events come in their order, to those that have subscribed; a connection is resumed by the next host with its subscriptions, and made anew, with them, by a host that
// doesn't know it.
func TestConn(t *testing.T) {
	r := newRig(t, front.Options{}, nil)
	c, h := r.connect(client.ConnectOptions{Params: func() any { return "ann" }})
	h.want("hello")
	must(t, client.Command(t.Context(), c, flood, 1))
	must(t, c.Subscribe(t.Context(), "drop"))
	must(t, c.Subscribe(t.Context(), "entry"))
	must(t, client.Command(t.Context(), c, flood, 2))
	h.want("drop", "drop")
	must(t, c.Unsubscribe(t.Context(), "entry"))
	r.close()
	h.want("away")
	r.open()
	h.want("resumed")
	_, err := client.Invoke(t.Context(), c, add, "unheard")
	must(t, err)
	must(t, client.Command(t.Context(), c, flood, 1))
	h.want("drop")
	r.close()
	r.engine = memkv.New()
	r.open()
	h.want("away", "connected", "hello")
	must(t, client.Command(t.Context(), c, flood, 1))
	h.want("drop")
	c.Close()
	h.want("closed")
	if err := client.Command(t.Context(), c, flood, 1); !errors.Is(err, client.ErrClosed) || !errors.Is(c.Err(), client.ErrClosed) {
		t.Errorf("got %v, %v", err, c.Err())
	}
}

// TestRefused: a connection that the actor refuses isn't made, one that the actor ends is over, and one that isn't there in time is given up.
func TestRefused(t *testing.T) {
	r := newRig(t, front.Options{}, nil)
	if _, err := r.actor.Connect(t.Context(), &client.ConnectOptions{Params: func() any { return "eve" }}); host.Code(err) != "unwelcome" {
		t.Errorf("got %v", err)
	}
	if _, err := r.actor.Connect(t.Context(), &client.ConnectOptions{Params: func() any { return func() {} }}); host.Code(err) != "bad_arguments" {
		t.Errorf("got %v", err)
	}
	c, h := r.connect(client.ConnectOptions{Held: true})
	if err := client.Command(t.Context(), c, kick, "go away"); err != nil && !errors.Is(err, host.ErrUnknownOutcome) {
		t.Error(err)
	}
	<-c.Done()
	h.want("hello")
	if host.Code(c.Err()) != "disconnected" || host.Message(c.Err()) != "go away" {
		t.Errorf("got %v", c.Err())
	}
	r.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := r.actor.Connect(ctx, nil); err == nil || err.Error() != "enough" {
		t.Errorf("got %v", err)
	}
	r.open()
}

// TestManyCalls: calls wait for their turn when a socket has as many as a host lets wait, and each is answered with its own result.
func TestManyCalls(t *testing.T) {
	r := newRig(t, front.Options{}, nil)
	c, _ := r.connect(client.ConnectOptions{})
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			word := fmt.Sprint(i)
			e, err := client.Invoke(t.Context(), c, add, word)
			if err != nil || e.Word != word {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
	calls.Wait()
	if err := c.Do(t.Context(), "add", make([]byte, 1<<20), nil, nil); host.Code(err) != "body_too_large" {
		t.Errorf("got %v", err)
	}
}

// TestCallerLeaves: a call that was sent when its context ends may have landed, and one that wasn't hasn't.
func TestCallerLeaves(t *testing.T) {
	r := newRig(t, front.Options{}, nil)
	c, h := r.connect(client.ConnectOptions{})
	h.want("hello")
	r.close()
	h.want("away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := client.Invoke(ctx, c, add, "tea"); err == nil || err.Error() != "enough" {
		t.Errorf("got %v", err)
	}
	r.open()
	h.want("resumed")
	if _, err := client.Invoke(t.Context(), c, add, "tea"); err != nil {
		t.Error(err)
	}
}

// TestSlowProgram: a program that takes its events too slowly loses some, by a break, and can make calls meanwhile.
func TestSlowProgram(t *testing.T) {
	r := newRig(t, front.Options{}, nil)
	var c *client.Conn
	going, began := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ready := make(chan struct{})
	c, h := r.connect(client.ConnectOptions{OnEvent: func(name string, _ host.Raw) {
		if name != "drop" {
			return
		}
		once.Do(func() {
			<-ready
			if _, err := client.Invoke(context.Background(), c, add, "in an event"); err != nil {
				t.Error(err)
			}
			close(began)
			<-going
		})
	}})
	close(ready)
	must(t, c.Subscribe(t.Context(), "drop"))
	must(t, client.Command(t.Context(), c, flood, 1))
	<-began
	for range 3 {
		if err := client.Command(t.Context(), c, flood, 100); err != nil {
			t.Error(err)
		}
	}
	close(going)
	h.want("away", "resumed")
}

// TestFollowAway: an entry that was made while the client was away comes when it is back, though no event tells of it.
func TestFollowAway(t *testing.T) {
	r := newRig(t, front.Options{}, nil)
	c, h := r.connect(client.ConnectOptions{OnEvent: func(string, host.Raw) {}}) // h hears of the states alone
	_, err := client.Invoke(t.Context(), r.actor, add, "there")
	must(t, err)
	fed := make(chan entry)
	select {
	case <-looks:
	default:
	}
	go func() {
		feed := &client.Feed[entry]{Event: "entry", Action: "entries", Number: func(e entry) int64 { return e.ID }}
		_ = client.Follow(t.Context(), c, feed, func(e entry) error {
			<-looks // the turn that has found it
			fed <- e
			return nil
		}) // it ends with the connection
	}()
	heard := func(want int64) {
		t.Helper()
		select {
		case e := <-fed:
			if e.ID != want {
				t.Errorf("entry %d came, want %d", e.ID, want)
			}
		case <-time.After(testkit.Patience(20 * time.Second)):
			t.Fatalf("entry %d doesn't come", want)
		}
	}
	heard(1)
	<-looks                                           // behind which there was nothing
	must(t, client.Command(t.Context(), c, flood, 0)) // it is answered behind that
	r.close()
	h.want("away")
	far, err := host.Open(t.Context(), r.engine, []*host.Type{ledger()}, &host.Options{Logger: quiet}) // of which the client doesn't know
	must(t, err)
	_, err = add.Call(t.Context(), far, "a/b", "away")
	must(t, err)
	must(t, far.Close(t.Context()))
	r.open()
	h.want("resumed")
	heard(2)
}
