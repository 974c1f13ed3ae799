package drain_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/internal/drain"
)

// TestGate: Close waits for all that is inside and lets nothing in meanwhile; one that
// gives up opens the gate again, unless it is closed by then.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g drain.Gate
		for range 2 {
			if !g.Enter() || g.Closed() {
				t.Fatal("the zero Gate is closed")
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		closed, gaveUp := make(chan error, 1), make(chan error, 1)
		go func() { gaveUp <- g.Close(short) }()
		synctest.Wait()
		if g.Enter() || !g.Closed() {
			t.Error("entered a gate that is being closed")
		}
		if err := <-gaveUp; err != context.DeadlineExceeded {
			t.Errorf("Close: %v", err)
		}
		if g.Closed() || !g.Enter() {
			t.Error("the gate stays closed")
		}
		g.Leave()
		long, stop := context.WithCancel(t.Context())
		go func() { closed <- g.Close(t.Context()) }()
		go func() { gaveUp <- g.Close(long) }()
		synctest.Wait()
		g.Leave()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("Close returned, and one is inside")
		default:
		}
		stop()
		if err := <-gaveUp; err != context.Canceled {
			t.Errorf("Close: %v", err)
		}
		g.Leave()
		if err := <-closed; err != nil || !g.Closed() || g.Enter() {
			t.Errorf("Close: %v, closed %v", err, g.Closed())
		}
		if err := g.Close(long); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// TestIdle: Idle waits for what is inside and lets more in meanwhile, for which it waits too; one that gives up
// changes nothing. Close waits beside it.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g drain.Gate
		if err := g.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Enter()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		over := make(chan string, 4)
		go func() {
			if err := g.Idle(short); err != context.DeadlineExceeded {
				t.Errorf("Idle: %v", err)
			}
			over <- "gave up"
		}()
		if got := <-over; got != "gave up" || g.Closed() {
			t.Errorf("%s, closed %v", got, g.Closed())
		}
		for range 2 {
			go func() {
				if err := g.Idle(t.Context()); err != nil {
					t.Errorf("Idle: %v", err)
				}
				over <- "idle"
			}()
		}
		synctest.Wait()
		if !g.Enter() {
			t.Error("Idle lets nothing in")
		}
		g.Leave()
		synctest.Wait()
		if len(over) > 0 {
			t.Error("Idle returned, and one is inside")
		}
		go func() {
			if err := g.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
			over <- "closed"
		}()
		synctest.Wait()
		if len(over) > 0 || g.Enter() || !g.Closed() {
			t.Errorf("%d are over, closed %v", len(over), g.Closed())
		}
		g.Leave()
		synctest.Wait()
		if len(over) != 3 {
			t.Errorf("%d of 3 are over", len(over))
		}
		if err := g.Idle(t.Context()); err != nil || g.Enter() {
			t.Errorf("Idle of a closed gate: %v", err)
		}
	})
}
