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

// callers call the action add, each with a word of its own, when they are given permits, and note the answers.
type callers struct {
	testing.TB
	permits  chan struct{}
	answered chan struct{}
	work     sync.WaitGroup
	words    atomic.Int64
	// given and told are the permits that were given, and the answers that were heard of.
	given, told int

	mu      sync.Mutex
	answers map[string]int64 // the entries, by their words
}

// newCallers returns callers, one for each of doers.
func newCallers(t testing.TB, doers []client.Doer) *callers {
	// An actor has the results of its newest 1000 calls with keys, so fewer are made in all.
	c := &callers{TB: t, permits: make(chan struct{}, 1<<10), answered: make(chan struct{}, 1<<16), answers: map[string]int64{}}
	for _, d := range doers {
		c.work.Go(func() {
			for range c.permits {
				c.call(d, fmt.Sprint("word ", c.words.Add(1)))
				c.answered <- struct{}{}
			}
		})
	}
	return c
}

// call makes one call, and returns the number of the entry.
func (c *callers) call(d client.Doer, word string) int64 {
	e, err := client.Invoke(c.Context(), d, add, word)
	if err != nil || e.Word != word {
		c.Errorf("%s: %+v, %v", word, e, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[word] = e.ID
	return e.ID
}

// make gives permits for n more calls, and returns when all but five of those so far are answered.
func (c *callers) make(n int) {
	c.Helper()
	for range n {
		c.permits <- struct{}{}
	}
	for c.given += n; c.told < c.given-5; c.told++ {
		select {
		case <-c.answered:
		case <-time.After(testkit.Patience(30 * time.Second)):
			c.Fatal("no answers come")
		}
	}
}

// follow returns a channel with the numbers of the entries that come by a feed until that of last, once that is known, or a later one.
func follow(t *testing.T, reader *client.Conn, last *atomic.Int64) <-chan []int64 {
	followed := make(chan []int64, 1)
	errEnough := errors.New("enough")
	go func() {
		var fed []int64
		feed := &client.Feed[entry]{Event: "entry", Action: "entries", Number: func(e entry) int64 { return e.ID }}
		err := client.Follow(t.Context(), reader, feed, func(e entry) error {
			fed = append(fed, e.ID)
			if n := last.Load(); n > 0 && e.ID >= n {
				return errEnough
			}
			return nil
		})
		if err != errEnough {
			t.Errorf("the feed: %v", err)
		}
		followed <- fed
	}()
	return followed
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
	var last atomic.Int64
	followed := follow(t, reader, &last)
	callers := newCallers(t, append(slices.Repeat([]client.Doer{writer}, 20), actor)) // more than a socket takes at once
	for i := range testkit.Pick(3, 8, 30) {
		callers.make(20 + i%7) // so that some are under way
		s.Kill()
		s.Start()
		<-back
	}
	callers.make(30)
	close(callers.permits)
	callers.work.Wait()
	last.Store(callers.call(actor, "the last one"))
	callers.call(actor, "behind it") // the feed may have had the last one already: another entry ends it
	fed := <-followed

	var ids []int64
	for {
		list, err := client.Invoke(t.Context(), actor, entries, int64(len(ids)))
		if must(t, err); len(list) == 0 {
			break
		}
		for _, e := range list {
			if callers.answers[e.Word] != e.ID {
				t.Errorf("%s is entry %d, and was answered with %d: it has run twice, or another one has", e.Word, e.ID, callers.answers[e.Word])
			}
			ids = append(ids, e.ID)
		}
	}
	if len(ids) != len(callers.answers) {
		t.Errorf("%d calls were answered, and %d have run", len(callers.answers), len(ids))
	}
	if !slices.Equal(fed, ids[:len(fed)]) || len(fed) < len(ids)-1 {
		t.Errorf("the feed was %v, want %v", fed, ids)
	}
	t.Logf("%d calls", len(ids))
}
