// Package hosttest is a kit to test types of actors: in a host of their own, on a store in
// memory, with a clock that skips idle time, with restarts and crashes, and with commits
// that fail where the test says so.
//
//	func TestCounter(t *testing.T) {
//		hosttest.Run(t, func(t *testing.T, e *hosttest.Env) {
//			lobby := e.Actor("counter", "lobby")
//			hosttest.Call[int](lobby, "add", 2)
//			e.Advance(7 * 24 * time.Hour) // a week in a moment
//			e.Crash()
//			if n := hosttest.Call[int](lobby, "add", 1); n != 3 {
//				t.Errorf("got %d", n)
//			}
//		}, counter)
//	}
//
// What is tested is the real host with everything that it runs: turns, schedules, messages
// between actors, connections, and workflows with their turns. The package is for tests
// alone, and has no assertions.
package hosttest

// Files, from the top down:
//
//	client.go actor.go hosttest.go disk.go

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// patience is how long calls of the Env wait, in the time of the bubble, for what doesn't end.
const patience = 10 * time.Minute

// An Env is the world in which actors are tested: a host, and the store below it. Its methods,
// and those of its actors and clients, end the test when what they need fails, but for those
// that return an error. It is not safe for concurrent use.
type Env struct {
	// Host is the host, for what the Env has no method for. It is another one after Restart and
	// Crash.
	Host *host.Host
	// Types are those of the host's actors, and Options what it is opened with: without a
	// Logger it logs to the test. Changes of either hold from the next Restart
	// or Crash on, as with a new version of a program.
	Types   []*host.Type
	Options host.Options

	t       testing.TB
	disk    *disk
	process *process
	clients []*Client
	tearing bool // CrashAfter was called
}

// Run calls fn with an Env whose host runs actors of the types, in a bubble of
// testing/synctest: time passes when all goroutines wait, and then at once. What waits for
// something outside of the bubble, a network or another process, doesn't work there. Run
// closes the host when fn returns: the test fails if a goroutine is left.
func Run(t *testing.T, fn func(t *testing.T, e *Env), types ...*host.Type) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &Env{t: t, Types: types}
		e.insert(memkv.New())
		e.open()
		defer e.end()
		fn(t, e)
	})
}

func (e *Env) must(what string, err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("hosttest: %s: %v", what, err)
	}
}

// context returns that of a call of the Env.
func (e *Env) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.t.Context(), patience)
}

// insert makes an engine the disk of the next host.
func (e *Env) insert(engine kv.Engine) {
	e.t.Helper()
	var err error
	e.disk, err = newDisk(engine)
	e.must("copy the store", err)
}

func (e *Env) open() {
	e.t.Helper()
	o := e.Options
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(e.t.Output(), nil))
	}
	if o.Rescan == 0 {
		o.Rescan = time.Hour // no other process stores anything, and a week has 120,000 looks of 5 s
	}
	e.process = &process{}
	var err error
	e.Host, err = host.Open(e.t.Context(), e.disk, e.process.types(e.Types), &o)
	e.must("open the host", err)
}

// close closes the host in good order.
func (e *Env) close() error {
	e.loseClients()
	ctx, cancel := e.context()
	defer cancel()
	return e.Host.Close(ctx)
}

// end closes everything, also when the test has failed.
func (e *Env) end() {
	e.t.Helper()
	if e.tearing {
		e.kill() // what doesn't land any more can't be closed in good order
	} else {
		e.disk.Heal()
		if err := e.close(); err != nil {
			e.t.Errorf("hosttest: close the host: %v", err)
		}
	}
	if err := e.disk.eject(); err != nil {
		e.t.Errorf("hosttest: close the store: %v", err)
	}
}

// Restart closes the host in good order, as for a new version of the program, and opens
// another one: clients are away until they Rejoin. It takes no time unless turns or steps
// are under way, which end first.
func (e *Env) Restart() {
	e.t.Helper()
	e.must("close the host", e.close())
	e.open()
}

// Crash is a failure of power: the host ends without running another line of its actors that
// could change something, what isn't on stable storage is lost, and another host is opened
// on the rest. A turn whose reply, or whose events, left before is there. Contexts of turns
// and steps that run are cancelled, as code can't be taken away from a goroutine; nothing
// that they do lands. Rules of Actor.Fail end.
func (e *Env) Crash() {
	e.t.Helper()
	e.kill()
	old := e.disk
	left, err := old.left(e.tearing)
	e.must("copy the store", err)
	e.insert(left)
	e.must("close the old store", old.eject())
	e.tearing = false
	e.open()
}

// CrashAfter has a Crash begin after n more commits: these are on stable storage, and
// everything else that the store is asked fails from then on, so that calls return errors.
// The test goes on with Crash. So every moment is tried:
//
//	for n := 0; !done; n++ {
//		… e.CrashAfter(n) … call; e.Crash(); look, and call again …
//	}
func (e *Env) CrashAfter(n int) {
	e.disk.Tear(n)
	e.tearing = true
}

// kill ends the host as the end of its process does.
func (e *Env) kill() {
	e.disk.Tear(0)
	e.process.gone.Store(true)
	e.loseClients()
	now, cancel := context.WithCancel(e.t.Context())
	cancel()
	_ = e.Host.Close(now) // it can't be in good order
	synctest.Wait()
}

// Advance lets time pass: when it returns, all that was due has happened, and nothing goes on
// any more but what waits for a later time.
func (e *Env) Advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
