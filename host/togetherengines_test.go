//go:build unix

package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

// crashKeys are the accounts of the tests below.
var crashKeys = []string{"a", "b", "c"}

// payOn makes one payment after the other, on an engine that may fail once the host is open, and returns how many have landed.
func payOn(t *testing.T, engine kv.Engine, payments int, arm func()) (landed int) {
	// What a host whose server was killed couldn't give back is free when its lease ends.
	r := newRigOn(t, engine, Options{Store: &greenroom.Options{Host: actorstore.HostOptions{TTL: 3 * time.Second}}}, account())
	arm()
	for i := range payments {
		if _, err := r.pay(crashKeys[i%3], payment{To: []string{crashKeys[(i+1)%3], crashKeys[(i+2)%3]}, Amount: i}); err == nil {
			landed++
		}
	}
	_ = r.Host.Close(r.ctx) // what has failed stays so
	return landed
}

// wantSum holds that each payment is in all accounts of a store, or in none.
func wantSum(t *testing.T, what string, engine kv.Engine) {
	t.Helper()
	r := newRigOn(t, engine, whole(Options{}), account())
	for _, key := range crashKeys {
		must(t, pglocal.Poll(func() (bool, error) {
			err := r.Create(r.ctx, accountOf(key), nil)
			if errors.Is(err, actorstore.ErrInUse) {
				return false, nil
			}
			return err == nil, err
		}))
	}
	if got := r.balances(crashKeys...); got[0]+got[1]+got[2] != 300 {
		t.Errorf("%s: the balances are %v", what, got)
	}
	_, err := r.pay("a", payment{To: []string{"b"}, Amount: 1})
	must(t, err)
	r.close()
}

// TestTogetherPebbleCrash: a copy of a store on Pebble that is taken behind any commit has each payment whole, or not at all.
func TestTogetherPebbleCrash(t *testing.T) {
	dir := t.TempDir()
	db, err := pebblekv.Open(filepath.Join(dir, "store"), nil)
	must(t, err)
	engine := faultkv.New(db)
	copies := 0
	payments := testkit.Pick(3, 3, 12)
	n := payOn(t, engine, payments, func() {
		engine.Hook(func(op faultkv.Op) error {
			if op.Point != faultkv.AfterCommit {
				return nil
			}
			copies++
			return db.Checkpoint(t.Context(), filepath.Join(dir, fmt.Sprint(copies)))
		})
	})
	if n != payments {
		t.Errorf("%d payments have landed", n)
	}
	must(t, db.Close())
	for i := 1; i <= copies; i++ {
		after, err := pebblekv.Open(filepath.Join(dir, fmt.Sprint(i)), nil)
		must(t, err)
		wantSum(t, fmt.Sprintf("behind commit %d", i), after)
		must(t, after.Close())
	}
	if copies < payments {
		t.Errorf("%d commits", copies)
	}
}

// TestTogetherPostgresCrash: the server is killed behind any commit, and each operation fails once: each payment is there whole, or not at all.
func TestTogetherPostgresCrash(t *testing.T) {
	if !testkit.Long() {
		t.Skip("it starts a server 20 times")
	}
	n := pgtest.Start(t)
	open := func() (*faultkv.Engine, func()) {
		db, err := pgkv.Open(t.Context(), n.URL(""), nil)
		must(t, err)
		return faultkv.New(db), func() { must(t, db.Close()) }
	}
	killed := errors.New("killed")
	for at := range 20 {
		engine, done := open()
		commits := 0
		payOn(t, engine, 6, func() {
			engine.Hook(func(op faultkv.Op) error {
				if op.Point != faultkv.AfterApply {
					return nil
				}
				if commits++; commits != at+1 {
					return nil
				}
				n.Kill(t)
				n.Start(t)
				return killed
			})
		})
		engine.Hook(nil)
		done()
		engine, done = open()
		wantSum(t, fmt.Sprintf("killed behind commit %d", at+1), engine)
		done()
	}
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot, faultkv.BeforeSync} {
		for skip := range 12 {
			engine, done := open()
			var fault *faultkv.Fault
			payOn(t, engine, 2, func() { fault = engine.Fail(faultkv.Rule{Point: point, Skip: skip, Err: killed}) })
			hits := fault.Hits()
			engine.Heal()
			wantSum(t, fmt.Sprintf("%v, %d before it", point, skip), engine)
			if done(); hits == 0 {
				break
			}
		}
	}
}
