package host

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnContext holds it against what context.WithTimeout returns, asked in each order.
func TestTurnContext(t *testing.T) {
	for _, wait := range []bool{false, true} {
		for name, end := range map[string]func(cancel func(), c *turnContext){
			"parent":   func(cancel func(), _ *turnContext) { cancel() },
			"turn":     func(_ func(), c *turnContext) { c.end() },
			"deadline": func(func(), *turnContext) { <-time.After(2 * time.Second) },
			"all":      func(cancel func(), c *turnContext) { <-time.After(2 * time.Second); _ = c.Err(); c.end(); cancel() },
		} {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 7))
				defer cancel()
				c := newTurnContext(parent, time.Second)
				defer c.end()
				if wait {
					if c.Done() == nil {
						t.Fatal("it never ends")
					}
					before := runtime.NumGoroutine()
					child, cancel := context.WithCancel(c)
					defer cancel()
					if runtime.NumGoroutine() > before {
						t.Error("a child takes a goroutine")
					}
					defer func() {
						if child.Err() == nil {
							t.Errorf("%s: the child goes on", name)
						}
					}()
				}
				at, ok := c.Deadline()
				if err := c.Err(); err != nil || !ok || !at.Equal(time.Now().Add(time.Second)) || c.Value(key{}) != 7 {
					t.Errorf("%s: %v %v %v", name, err, at, ok)
				}
				end(cancel, c)
				want := context.Canceled
				if name == "deadline" || name == "all" {
					want = context.DeadlineExceeded
				}
				if err := c.Err(); !errors.Is(err, want) {
					t.Errorf("%s, waiting %v: got %v, want %v", name, wait, err, want)
				}
				<-c.Done()
				if err := c.Err(); !errors.Is(err, want) {
					t.Errorf("%s, waiting %v: then got %v, want %v", name, wait, err, want)
				}
				synctest.Wait()
			})
		}
	}
	c := newTurnContext(t.Context(), -1)
	if _, ok := c.Deadline(); ok {
		if _, own := t.Context().Deadline(); !own {
			t.Error("it has a deadline")
		}
	}
	if c.Done(); c.Err() != nil {
		t.Errorf("got %v", c.Err())
	}
	if c.end(); c.Err() == nil {
		t.Error("it goes on")
	}
}

// TestContextOfTurn: a Context is a context that has the turn's deadline, and ends with the
// turn, as those do that were made of it.
func TestContextOfTurn(t *testing.T) {
	bubble(t, Options{TurnTimeout: time.Minute}, func(r *rig) {
		var kept, child context.Context
		must(t, r.Do0(func(c *Context) error {
			var cancel context.CancelFunc
			kept = c
			child, cancel = context.WithCancel(c)
			t.Cleanup(cancel)
			if at, ok := c.Deadline(); !ok || !at.Equal(time.Now().Add(time.Minute)) {
				t.Errorf("it ends at %v, %v", at, ok)
			}
			return errors.Join(c.Err(), child.Err())
		}))
		synctest.Wait()
		wantErr(t, kept.Err(), context.Canceled)
		wantErr(t, child.Err(), context.Canceled)
	}, thing())
}
