package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// eachProtocol calls run for a script of each kind of program.
func eachProtocol(t *testing.T, run func(t *testing.T, newScript func(testing.TB, kv.Engine) *script)) {
	for name, v := range map[string]rp.Version{"runner": rp.V7, "envoy": rp.Envoy8} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t testing.TB, e kv.Engine) *script {
				s := newScript(t, e)
				s.version = v
				return s
			})
		})
	}
}

// TestScript runs the script without a fault.
func TestScript(t *testing.T) {
	eachProtocol(t, func(t *testing.T, newScript func(testing.TB, kv.Engine) *script) {
		synctest.Test(t, func(t *testing.T) {
			store := memkv.New()
			s := newScript(t, store)
			s.run()
			s.end()
			t.Logf("%+v", s.faults.Counts())
			s.verify(store, nil)
		})
	})
}

// faults are the ways in which an operation of the engine fails.
var faults = map[string]faultkv.Rule{
	"before a commit":   {Point: faultkv.BeforeCommit},
	"commit refused":    {Point: faultkv.BeforeCommit, Err: kv.NotApplied(faultkv.ErrInjected)},
	"after a commit":    {Point: faultkv.AfterCommit},
	"commit of doubt":   {Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome},
	"before a sync":     {Point: faultkv.BeforeSync},
	"before a get":      {Point: faultkv.BeforeGet},
	"before a scan":     {Point: faultkv.BeforeScan},
	"before an entry":   {Point: faultkv.BeforeEntry},
	"before a snapshot": {Point: faultkv.BeforeSnapshot},
}

// eachFault calls run, in a bubble, with each fault of each operation until run reports that it wasn't hit. Short and quick forms
// leave out reads, and short ones commits.
func eachFault(t *testing.T, run func(s *script, store kv.Engine, rule faultkv.Rule) (hit bool)) {
	eachProtocol(t, func(t *testing.T, newScript func(testing.TB, kv.Engine) *script) {
		for name, rule := range faults {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				step, cases := testkit.Pick(61, 61, 1), 0
				switch rule.Point {
				case faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.AfterApply, faultkv.BeforeSync:
					step = testkit.Pick(4, 1, 1)
				}
				for hit := true; hit; cases, rule.Skip = cases+1, rule.Skip+step {
					t.Run(fmt.Sprint(rule.Skip), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							store := memkv.New()
							hit = run(newScript(t, store), store, rule)
						})
					})
				}
				t.Logf("%d cases", cases-1)
			})
		}
	})
}

// TestFaults fails each operation of the engine once.
func TestFaults(t *testing.T) {
	eachFault(t, func(s *script, store kv.Engine, rule faultkv.Rule) bool {
		f := s.faults.Fail(rule)
		s.run()
		s.end()
		s.verify(store, nil)
		return f.Hits() > 0
	})
}

// TestFaultsAfterKill ends the process when the script is done, and fails each operation of the engine that follows once.
func TestFaultsAfterKill(t *testing.T) {
	eachFault(t, func(s *script, store kv.Engine, rule faultkv.Rule) bool {
		s.run()
		s.kill()
		s.end()
		var f *faultkv.Fault
		s.verify(store, func(v *script) { f = v.faults.Fail(rule) })
		hit := f.Hits() > 0
		s.verify(store, nil)
		return hit
	})
}

// TestFaultsTakenOver ends the process when the script is done, connects its runner to the next one, and fails each operation of that
// once.
func TestFaultsTakenOver(t *testing.T) {
	eachFault(t, func(s *script, store kv.Engine, rule faultkv.Rule) bool {
		s.run()
		s.kill()
		s.end()
		var f *faultkv.Fault
		s.verifyTakenOver(store, func(v *script) { f = v.faults.Fail(rule) })
		hit := f.Hits()
		s.verify(store, nil)
		return hit > 0
	})
}

// TestKilled ends the process before each commit, and with it before what the engine says after the commit before.
func TestKilled(t *testing.T) {
	eachProtocol(t, func(t *testing.T, newScript func(testing.TB, kv.Engine) *script) {
		for n, hit := 0, true; hit; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memkv.New()
					hit = newScript(t, store).runKilled(store, n, func(op faultkv.Op) bool { return op.Point == faultkv.BeforeCommit })
				})
			})
		}
	})
}

// TestTakenOver ends the process before each commit, and connects the runner that has lived on to the next one, which has a fault or
// ends too before some commit.
func TestTakenOver(t *testing.T) {
	commits := func(op faultkv.Op) bool { return op.Point == faultkv.BeforeCommit }
	eachProtocol(t, func(t *testing.T, newScript func(testing.TB, kv.Engine) *script) {
		for n, hit := 0, true; hit; n++ {
			for m, again := 0, true; again; m += testkit.Pick(20, 13, 1) {
				t.Run(fmt.Sprint(n, m), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := memkv.New()
						s := newScript(t, store)
						first, second := s.killAt(n, commits), func() bool { return false }
						s.run()
						s.end()
						s.verifyTakenOver(store, func(v *script) {
							if m > 0 {
								second = v.killAt(m-1, commits)
							}
						})
						if again = m == 0 || second(); m > 0 {
							s.verify(store, nil)
						}
						hit = first()
					})
				})
			}
		}
	})
}

// TestServerKilled ends the process, and crashes the engine's server, before each commit and each wait for stable storage: what
// isn't on stable storage is lost.
func TestServerKilled(t *testing.T) {
	eachProtocol(t, func(t *testing.T, newScript func(testing.TB, kv.Engine) *script) {
		for n, hit := 0, true; hit; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := faultkv.NewServer(func() kv.Engine { return memkv.New() })
					hit = newScript(t, server).runKilled(server, n, func(op faultkv.Op) bool {
						return op.Point == faultkv.BeforeCommit || op.Point == faultkv.BeforeSync
					})
				})
			})
		}
	})
}

// runKilled runs the script until n operations that count are done, and reports whether there were more. If the store is a
// Server it crashes then.
func (s *script) runKilled(store kv.Engine, n int, counts func(faultkv.Op) bool) bool {
	hit := s.killAt(n, counts)
	s.run()
	s.end()
	s.verify(store, nil)
	return hit()
}

// TestKilledTwice ends the process before some commit, and the next one before each of its own.
func TestKilledTwice(t *testing.T) {
	commits := func(op faultkv.Op) bool { return op.Point == faultkv.BeforeCommit }
	eachProtocol(t, func(t *testing.T, newScript func(testing.TB, kv.Engine) *script) {
		for n, hit := 0, true; hit; n += testkit.Pick(20, 9, 1) {
			for m, again := 0, true; again; m++ {
				t.Run(fmt.Sprint(n, m), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := memkv.New()
						s := newScript(t, store)
						first, second := s.killAt(n, commits), func() bool { return false }
						s.run()
						s.end()
						s.verify(store, func(v *script) { second = v.killAt(m, commits) })
						s.verify(store, nil)
						hit, again = first(), second()
					})
				})
			}
		}
	})
}

// TestStoreFails: as long as operations of the store fail, an actor that is wanted is tried now and then, and then it runs.
func TestStoreFails(t *testing.T) {
	for name, prepare := range map[string]func(s *script) (want func()){
		"by a message": func(s *script) func() {
			s.send("one") // it isn't acknowledged
			at, _ := s.last(s.actors["kept"].id)
			return sync.OnceFunc(func() { s.p.event(at, rp.Intent(rp.IntentSleep)) })
		},
		"by a request": func(s *script) func() {
			s.sleep("kept", 0)
			return func() { s.call("GET", "/gateway/"+s.actors["kept"].id+"/", "") }
		},
		"by its alarm": func(s *script) func() { s.sleep("kept", 12*time.Second); return func() {} },
	} {
		for fault, rule := range faults {
			t.Run(name+", "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScript(t, memkv.New())
					s.begin()
					s.create("kept")
					want := prepare(s)
					rule.Times = 2000
					f := s.faults.Fail(rule)
					for start := time.Now(); time.Since(start) < time.Minute; pass(time.Second) {
						want()
					}
					if n := f.Hits(); n > 400 || n < 5 && rule.Point == faultkv.BeforeCommit {
						t.Errorf("it has failed %d times in a minute", n)
					}
					f.Remove()
					if name != "by a request" {
						s.starts("kept")
					}
					s.awake("kept")
					s.end()
				})
			})
		}
	}
}

// TestForgetFails: a row of a message that was acknowledged is removed later, if the store refuses it at first.
func TestForgetFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memkv.New()
		s := newScript(t, store)
		s.begin()
		s.create("kept")
		for n := range 3 {
			s.ack(s.send(fmt.Sprint("message ", n)))
		}
		s.faults.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(errkind.ErrNoSpace)})
		must(t, s.ws.Write(s.open, websocket.MessageText, []byte("refused")))
		synctest.Wait()
		s.failed[s.tunnel], s.open = true, nil
		s.ack(s.send("last"))
		s.sleep("kept", 0)
		s.kill()
		s.end()
		s.verify(store, func(v *script) {
			t.Cleanup(func() {
				for d := range v.deliveredSince(0) {
					t.Errorf("%s is sent again", d.text)
				}
			})
		})
	})
}
