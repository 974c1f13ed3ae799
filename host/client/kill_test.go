//go:build unix

package client_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/client"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// TestServeChild is the process that is killed.
func TestServeChild(t *testing.T) {
	dir, ln := testkit.Serve(t)
	engine, err := pebblekv.Open(dir, nil)
	must(t, err)
	h, err := host.Open(t.Context(), engine, []*host.Type{ledger()}, &host.Options{IdleTimeout: 10 * time.Millisecond})
	must(t, err)
	secret, err := front.StoredSecret(t.Context(), engine)
	must(t, err)
	f, err := front.New(h, &front.Options{WithoutToken: true, Secret: secret})
	must(t, err)
	must(t, f.Server().Serve(ln)) // until it is killed
}

// TestKill has callers on a connection and over HTTP, and a feed, while their host is killed and started again: each call is answered once and has run once, and each entry that
// the actor keeps comes once and in order.
func TestKill(t *testing.T) {
	s := testkit.NewServer(t, "TestServeChild")
	c, err := client.New(s.URL, &client.Options{Retries: 1000})
	must(t, err)
	actor := c.Actor(host.Address{Type: "ledger", Key: "a/b"})
	writer, err := actor.Connect(t.Context(), nil)
	must(t, err)
	defer writer.Close()
	back := make(chan struct{}, 100)
	reader, err := actor.Connect(t.Context(), &client.ConnectOptions{OnState: func(_ client.State, resumed bool, _ error) {
		if resumed {
			back <- struct{}{}
		}
	}})
	must(t, err)
	defer reader.Close()

	errEnough := errors.New("enough")
	var fed []int64
	var last atomic.Int64 // the number of the last entry, once that is known
	follows := make(chan error, 1)
	progress := make(chan int64, 1000)
	go func() {
		follows <- client.Follow(t.Context(), reader, &client.Feed[entry]{Event: "entry", Action: "entries", Number: func(e entry) int64 { return e.ID }}, func(e entry) error {
			fed = append(fed, e.ID)
			if n := last.Load(); n > 0 && e.ID >= n {
				return errEnough
			}
			select {
			case progress <- e.ID:
			default:
			}
			return nil
		})
	}()

	var mu sync.Mutex
	answers := map[string]int64{}
	answered := make(chan struct{}, 1<<16)
	var words atomic.Int64
	// An actor has the results of its newest 1000 calls with keys, so fewer are made in all.
	permits := make(chan struct{}, 1<<10)
	var callers sync.WaitGroup
	for i := range 21 { // more than a socket takes at once
		d := client.Doer(writer)
		if i == 20 {
			d = actor
		}
		callers.Go(func() {
			for range permits {
				word := fmt.Sprint("word ", words.Add(1))
				e, err := client.Invoke(t.Context(), d, add, word)
				if err != nil || e.Word != word {
					t.Errorf("%s: %+v, %v", word, e, err)
					return
				}
				mu.Lock()
				answers[word] = e.ID
				mu.Unlock()
				answered <- struct{}{}
			}
		})
	}
	asked, told := 0, 0
	wait := func(n int) {
		for range n {
			permits <- struct{}{}
		}
		for asked += n; told < asked-5; told++ {
			select {
			case <-answered:
			case <-time.After(testkit.Patience(30 * time.Second)):
				t.Fatal("no answers come")
			}
		}
	}
	for i := range testkit.Pick(3, 8, 30) {
		wait(20 + i%7) // so that some are under way
		s.Kill()
		s.Start()
		<-back
	}
	wait(30)
	close(permits)
	callers.Wait()
	e, err := client.Invoke(t.Context(), actor, add, "the last one")
	must(t, err)
	answers[e.Word] = e.ID
	last.Store(e.ID)
	// The feed may be there already: another entry tells it.
	more, err := client.Invoke(t.Context(), actor, add, "behind it")
	must(t, err)
	answers[more.Word] = more.ID
	if err := <-follows; err != errEnough {
		t.Fatal(err)
	}

	var ids []int64
	for {
		list, err := client.Invoke(t.Context(), actor, entries, int64(len(ids)))
		if must(t, err); len(list) == 0 {
			break
		}
		for _, e := range list {
			if answers[e.Word] != e.ID {
				t.Errorf("%s is entry %d, and was answered with %d: it has run twice, or another one has", e.Word, e.ID, answers[e.Word])
			}
			ids = append(ids, e.ID)
		}
	}
	if len(ids) != len(answers) {
		t.Errorf("%d calls were answered, and %d have run", len(answers), len(ids))
	}
	if !slices.Equal(fed, ids[:len(fed)]) || len(fed) < len(ids)-1 {
		t.Errorf("the feed was %v, want %v", fed, ids)
	}
	t.Logf("%d calls", len(ids))
}
