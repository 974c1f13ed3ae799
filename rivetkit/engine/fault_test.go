package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestScript runs the script without a fault.
func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memkv.New()
		s := newScript(t, store)
		s.run()
		s.end()
		t.Logf("%+v", s.faults.Counts())
		s.verify(store)
	})
}

// TestFaults fails each operation of the engine once.
func TestFaults(t *testing.T) {
	for name, rule := range map[string]faultkv.Rule{
		"before a commit":   {Point: faultkv.BeforeCommit},
		"commit refused":    {Point: faultkv.BeforeCommit, Err: kv.NotApplied(faultkv.ErrInjected)},
		"after a commit":    {Point: faultkv.AfterCommit},
		"commit of doubt":   {Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome},
		"before a sync":     {Point: faultkv.BeforeSync},
		"before a get":      {Point: faultkv.BeforeGet},
		"before a scan":     {Point: faultkv.BeforeScan},
		"before an entry":   {Point: faultkv.BeforeEntry},
		"before a snapshot": {Point: faultkv.BeforeSnapshot},
		"before an attempt": {Point: faultkv.BeforeAttempt},
		"before an outcome": {Point: faultkv.BeforeOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for hit := true; hit; n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { hit = runWithFault(t, rule, n) })
				})
			}
			t.Logf("%d operations", n-1)
		})
	}
}

func runWithFault(t *testing.T, rule faultkv.Rule, n int) bool {
	store := memkv.New()
	s := newScript(t, store)
	rule.Skip = n
	f := s.faults.Fail(rule)
	s.run()
	s.end()
	s.verify(store)
	return f.Hits() > 0
}

// TestKilled ends the process after each commit.
func TestKilled(t *testing.T) {
	for n, hit := 0, true; hit; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memkv.New()
				s := newScript(t, store)
				var commits atomic.Int64
				s.faults.Hook(func(op faultkv.Op) error {
					if op.Point == faultkv.BeforeCommit {
						if commits.Add(1) > int64(n) {
							s.dead.Store(true)
						}
					}
					if s.dead.Load() {
						return faultkv.ErrTorn
					}
					return nil
				})
				s.run()
				hit = s.dead.Load()
				s.end()
				s.verify(store)
			})
		})
	}
}
