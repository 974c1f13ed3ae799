package host

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLettersAfterFailover has another server take over at each step of a letter's way,
// which has not received some of the newest commits: what has come is what the sender,
// as it is then, has sent, and what it sends next comes, too.
func TestLettersAfterFailover(t *testing.T) {
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply, faultkv.AfterCommit, faultkv.BeforeSync} {
		for lost := range 5 {
			for step, hit := 1, true; hit; step++ {
				synctest.Test(t, func(t *testing.T) { hit = lettersAfterFailover(t, point, step, lost) })
			}
		}
	}
}

func lettersAfterFailover(t *testing.T, point faultkv.Point, step, lost int) (hit bool) {
	defer func() {
		if t.Failed() {
			t.Errorf("failover at step %d of point %v, %d commits lost", step, point, lost)
		}
	}()
	server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
	r := newRigOn(t, server, Options{IdleTimeout: time.Hour}, talkers()...)
	r.heard()
	r.call(lobby, "number", nil)
	pass(time.Minute)
	r.wantHeard("1")
	var left atomic.Int64
	left.Store(int64(step))
	r.engine.Hook(func(op faultkv.Op) error {
		if op.Point == point && left.Add(-1) == 0 {
			server.Failover(lost)
		}
		return nil
	})
	for range 3 {
		for range 100 {
			if _, err := Invoke[int](r.ctx, r.Host, lobby, "number", nil); err == nil {
				break
			} else if !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Error(err)
			}
			pass(100 * time.Millisecond)
		}
		pass(time.Millisecond)
	}
	pass(time.Second)
	hit = left.Load() <= 0
	r.engine.Hook(nil)
	pass(10 * time.Minute)
	n := r.call(lobby, "numbered", nil)
	r.wantHeard(numbers(n)...)
	r.call(lobby, "number", nil)
	pass(5 * time.Minute)
	r.wantHeard(numbers(n + 1)...)
	r.wantNoLetters()
	r.close()
	return hit
}

// TestLettersAfterCrash: what couriers couldn't hand over before the server crashed doesn't
// hold up what is sent afterwards.
func TestLettersAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
		kinds := talkers()
		var awake atomic.Bool
		kinds[1].Wake = func(*Context) error {
			if !awake.Load() {
				return errRefused
			}
			return nil
		}
		r := newRigOn(t, server, Options{IdleTimeout: time.Hour}, kinds...)
		r.call(lobby, "number", nil)
		pass(100 * time.Millisecond)
		server.Crash(1 << 30)
		awake.Store(true)
		r.call(lobby, "number", nil)
		pass(5 * time.Second)
		r.wantHeard("1", "2")
		r.close()
	})
}
