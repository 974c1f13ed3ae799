package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A diary is what hooks were called, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(what string) func(*Context) error {
	return func(c *Context) error {
		d.write(what)
		return nil
	}
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

func (d *diary) want(t testing.TB, want ...string) {
	t.Helper()
	if got := d.read(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHooks(t *testing.T) {
	var d diary
	kind := thing(add)
	kind.Create, kind.Wake, kind.Sleep, kind.Destroy = d.note("create"), d.note("wake"), d.note("sleep"), d.note("destroy")
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		r.call(lobby, "add", 1)
		d.want(t, "create", "wake")
		pass(59 * time.Second)
		r.call(lobby, "add", 1) // the idle time begins anew
		pass(59 * time.Second)
		d.want(t, "create", "wake")
		pass(2 * time.Second)
		d.want(t, "create", "wake", "sleep")
		if s := r.Stats(); s.Awake != 0 {
			t.Errorf("%+v after the idle time", s)
		}
		if got := r.call(lobby, "add", 1); got != 3 {
			t.Errorf("the state is %d, want 3", got)
		}
		must(t, r.Destroy(r.ctx, lobby))
		d.want(t, "create", "wake", "sleep", "wake", "destroy")
		wantErr(t, r.Destroy(r.ctx, lobby), ErrNoActor)
		if got := r.call(lobby, "add", 1); got != 1 {
			t.Errorf("the state is %d after the actor was destroyed", got)
		}
		d.want(t, "create", "wake", "sleep", "wake", "destroy", "create", "wake")
	}, kind)
}

// TestCreateFails: the first turn fails, nothing lands, and the next call tries again.
func TestCreateFails(t *testing.T) {
	fail := true
	kind := thing(add)
	kind.Create = func(c *Context) error {
		if err := greenroom.SetState(c, 10); err != nil || !fail {
			return err
		}
		return errRefused
	}
	bubble(t, Options{}, func(r *rig) {
		_, err := invoke[int](r.ctx, r.Host, lobby, "add", 1)
		wantErr(t, err, errRefused)
		fail = false
		if got := r.call(lobby, "add", 1); got != 11 {
			t.Errorf("the state is %d, want 11", got)
		}
		r.reopen()
		if got := r.call(lobby, "add", 1); got != 12 {
			t.Errorf("the state is %d, want 12: Create was called again", got)
		}
	}, kind)
}

func TestInput(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		must(t, r.Create(r.ctx, lobby, "hello"))
		must(t, r.Create(r.ctx, lobby, "ignored"))
		var in string
		must(t, r.Do0(func(c *Context) error { return c.Input(&in) }))
		if in != "hello" {
			t.Errorf("the input is %q", in)
		}
	}, thing())
}

// TestBound: there are more actors than may be awake.
func TestBound(t *testing.T) {
	bubble(t, Options{MaxAwake: 3}, func(r *rig) {
		at := func(i int) Address { return Address{"thing", fmt.Sprint(i)} }
		call := func(i int) {
			r.call(at(i), "add", 1)
			synctest.Wait() // it is idle only after the goroutine that answered leaves it
		}
		for i := range 3 {
			call(i)
		}
		call(0) // now 1 is the one that was used least recently
		call(3)
		r.mu.Lock()
		var names []string
		for name := range r.lives {
			names = append(names, name)
		}
		r.mu.Unlock()
		slices.Sort(names)
		if want := []string{"thing/0", "thing/2", "thing/3"}; !slices.Equal(names, want) {
			t.Errorf("awake are %q, want %q", names, want)
		}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { r.call(at(i%20), "add", 1) })
		}
		wg.Wait()
		if s := r.Stats(); s.Awake > 3 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		total := 0
		for i := range 20 {
			total += r.call(at(i), "add", 0)
		}
		if total != 105 {
			t.Errorf("%d additions have landed, want 105", total)
		}
	}, thing(add))
}

// TestAllBusy: a call waits for room while all actors are busy.
func TestAllBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		r := newRig(t, Options{MaxAwake: 1}, thing(add,
			NewAction("wait", func(*Context, struct{}) (int, error) { <-release; return 0, nil })))
		var wg sync.WaitGroup
		wg.Go(func() { r.call(lobby, "wait", nil) })
		synctest.Wait()
		other := Address{"thing", "other"}
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		_, err := invoke[int](ctx, r.Host, other, "add", 1)
		wantErr(t, err, context.DeadlineExceeded)
		wg.Go(func() { r.call(other, "add", 1) })
		synctest.Wait()
		if s := r.Stats(); s.Waiting != 1 {
			t.Errorf("%+v while a call waits", s)
		}
		close(release)
		wg.Wait()
		r.close()
	})
}

// TestNothingLeft looks what is left of many actors: no goroutine, and no keeper.
func TestNothingLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{IdleTimeout: time.Second}, wholeThing())
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range 50 {
			a := Address{"thing", fmt.Sprint(i)}
			r.call(a, "everything", false)
		}
		pass(time.Minute)
		// Goroutines that are just ending may be counted for a moment.
		for i := 0; runtime.NumGoroutine() > before && i < 1_000_000; i++ {
			runtime.Gosched()
		}
		if n := runtime.NumGoroutine(); n > before {
			stacks := make([]byte, 1<<16)
			t.Errorf("%d goroutines, %d before\n%s", n, before, stacks[:runtime.Stack(stacks, true)])
		}
		r.wantAsleep(50) // which wait for what is scheduled
		r.close()
	})
}

// TestCloseDrains closes the host while turns run and wait.
func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		r := newRig(t, Options{}, thing(add,
			NewAction("wait", func(*Context, struct{}) (int, error) { <-release; return 0, nil })))
		var wg sync.WaitGroup
		wg.Go(func() { r.call(lobby, "wait", nil) })
		synctest.Wait()
		wg.Go(func() { r.call(lobby, "add", 1) })
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- r.Host.Close(r.ctx) }()
		synctest.Wait()
		_, err := invoke[int](r.ctx, r.Host, lobby, "add", 1)
		wantErr(t, err, ErrClosed)
		wantErr(t, r.Ready(r.ctx), ErrClosed)
		close(release)
		must(t, <-closed)
		wg.Wait()
		r.open()
		if got := r.call(lobby, "add", 0); got != 1 {
			t.Errorf("the state is %d, want that of the turn that waited", got)
		}
		r.close()
	})
}

// TestCloseGivesUp closes the host while a turn takes longer than anybody waits.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, thing(
			NewAction("wait", func(c *Context, _ struct{}) (int, error) { <-c.Done(); return 1, greenroom.SetState(c, 1) }), add))
		failed := make(chan error)
		go func() {
			_, err := invoke[int](r.ctx, r.Host, lobby, "wait", nil)
			failed <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		wantErr(t, r.Host.Close(ctx), context.DeadlineExceeded)
		if err := <-failed; err == nil {
			t.Error("a turn that was given up has succeeded")
		}
		r.open()
		if got := r.call(lobby, "add", 0); got != 0 {
			t.Errorf("the state is %d", got)
		}
		r.close()
	})
}

// TestCloseGivesUpReply closes the host while a turn that has landed waits for stable storage for
// longer than that: the actor, which is closed already, has come to rest.
func TestCloseGivesUpReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, thing(add))
		r.call(lobby, "add", 1)
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeSync})
		done := make(chan error)
		go func() {
			_, err := invoke[int](r.ctx, r.Host, lobby, "add", 1)
			done <- err
		}()
		<-pause.Reached()
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		wantErr(t, r.Host.Close(ctx), context.DeadlineExceeded)
		synctest.Wait() // which doesn't return while a goroutine runs
		pause.Release()
		if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		synctest.Wait()
		r.open()
		if got := r.call(lobby, "add", 0); got != 2 {
			t.Errorf("the state is %d", got)
		}
		r.close()
	})
}

// TestSyncShared: many turns share one wait for stable storage, in their order.
func TestSyncShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, thing(add))
		r.call(lobby, "add", 0)
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeSync, Times: faultkv.Forever})
		r.engine.Reset()
		var mu sync.Mutex
		var got []int
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				n := r.call(lobby, "add", 1)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, n)
			})
			synctest.Wait() // its turn is over, and it waits
		}
		if len(got) != 0 {
			t.Fatalf("%d calls have returned before anything was durable", len(got))
		}
		if n := r.engine.Counts().Commits; n != 20 {
			t.Errorf("%d commits while the first wait was under way, want 20", n)
		}
		pause.Release()
		wg.Wait()
		slices.Sort(got)
		for i, n := range got {
			if n != i+1 {
				t.Errorf("call %d got %d", i, n)
			}
		}
		if n := r.engine.Counts().Syncs; n != 2 {
			t.Errorf("%d waits for stable storage, want 2: one for the first turn, one for all others", n)
		}
		r.close()
	})
}

// TestSyncFails: a wait for stable storage fails, on which several turns wait.
func TestSyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, thing(add))
		r.call(lobby, "add", 1)
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeSync, Err: faultkv.ErrInjected})
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := invoke[int](r.ctx, r.Host, lobby, "add", 1)
				errs <- err
			}()
			synctest.Wait()
		}
		pause.Release()
		for range 3 {
			err := <-errs
			wantErr(t, err, ErrUnknownOutcome)
			if code := Code(err); code != "unknown_outcome" {
				t.Errorf("code %q", code)
			}
		}
		// The engine has them all the same: that is what the next stay in memory finds.
		if got := r.call(lobby, "add", 0); got != 4 {
			t.Errorf("the state is %d, want 4", got)
		}
		r.close()
	})
}

// TestTwoHosts runs two hosts on one engine.
func TestTwoHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := engines.Shared(memkv.New())
		hosts := map[string]*Host{}
		for _, name := range []string{"a", "b"} {
			opts := Options{Logger: quiet, Store: &greenroom.Options{Host: actorstore.HostOptions{Name: name}}, IdleTimeout: time.Minute}
			h, err := Open(t.Context(), engine, []*Type{thing(add)}, &opts)
			must(t, err)
			hosts[name] = h
		}
		_, err := invoke[int](t.Context(), hosts["a"], lobby, "add", 1)
		must(t, err)
		_, err = invoke[int](t.Context(), hosts["b"], lobby, "add", 1)
		var inUse *actorstore.InUseError
		if !errors.As(err, &inUse) || inUse.Host.Name != "a" || Code(err) != "actor_in_use" {
			t.Fatalf("got %v", err)
		}
		pass(2 * time.Minute) // it goes to sleep
		n, err := invoke[int](t.Context(), hosts["b"], lobby, "add", 1)
		must(t, err)
		if n != 2 {
			t.Errorf("the state is %d, want 2", n)
		}
		// Another handle takes it by force: the host that had it notices, and asks again.
		taken, err := hosts["a"].Store().Lower().Named(t.Context(), lobby.String(), &actorstore.ActorOptions{Force: true})
		must(t, err)
		_, err = invoke[int](t.Context(), hosts["b"], lobby, "add", 1)
		if code := Code(err); code != "actor_moved" && code != "actor_in_use" {
			t.Errorf("after the actor was taken: %v", err)
		}
		must(t, taken.Close())
		n, err = invoke[int](t.Context(), hosts["b"], lobby, "add", 1)
		must(t, err)
		if n != 3 {
			t.Errorf("the state is %d, want 3", n)
		}
		for _, h := range hosts {
			must(t, h.Close(t.Context()))
		}
	})
}

// TestDestroyFromWithin: turns of all kinds destroy their actor.
func TestDestroyFromWithin(t *testing.T) {
	kind := thing(
		add,
		NewCommand("die", func(c *Context, _ struct{}) error { return c.Destroy() }),
		NewAction("die later", func(c *Context, _ struct{}) (string, error) {
			return c.After(time.Hour, "die")
		}),
		NewCommand("die and fail", func(c *Context, _ struct{}) error {
			return errors.Join(c.Destroy(), errRefused)
		}),
	)
	doomed := false
	kind.Wake = func(c *Context) error {
		if doomed {
			doomed = false
			return c.Destroy()
		}
		return nil
	}
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "add", 1)
		_, err := invoke[any](r.ctx, r.Host, lobby, "die and fail", nil)
		wantErr(t, err, errRefused)
		if n := r.call(lobby, "add", 1); n != 2 {
			t.Errorf("the state is %d", n)
		}
		_, err = invoke[any](r.ctx, r.Host, lobby, "die", nil)
		must(t, err)
		if n := r.call(lobby, "add", 1); n != 1 {
			t.Errorf("the state is %d", n)
		}
		_, err = invoke[any](r.ctx, r.Host, lobby, "die later", nil)
		must(t, err)
		pass(2 * time.Hour)
		r.wantRows(0)
		for info, err := range r.Store().Actors(r.ctx, nil) {
			t.Errorf("%+v is left, %v", info, err)
		}
		r.call(lobby, "add", 5)
		pass(time.Minute)
		doomed = true
		if n := r.call(lobby, "add", 1); n != 1 {
			t.Errorf("the state is %d", n)
		}
	}, kind)
}

// TestDestroyFails: the removal of an actor fails.
func TestDestroyFails(t *testing.T) {
	for skip, hit := 0, true; hit; skip++ {
		bubble(t, Options{}, func(r *rig) {
			r.call(lobby, "everything", false)
			fault := r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: skip})
			err := r.Destroy(r.ctx, lobby)
			fault.Remove()
			hit = fault.Hits() > 0
			got, want := r.look(), landed{1, 1, 1, 1, 7, 0}
			if err == nil {
				want = landed{}
			}
			if got != want {
				t.Errorf("fault %d: error %v, and there is %+v", skip, err, got)
			}
		}, wholeThing())
	}
}

// TestSlept: the store says when an actor fell asleep, by one commit that isn't waited for; by none if it neither wrote nor was awake for long.
func TestSlept(t *testing.T) {
	bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
		slept := func() time.Time {
			for info, err := range r.Store().Actors(r.ctx, nil) {
				must(t, err)
				return info.Attributes.Slept
			}
			return time.Time{}
		}
		commits := func(fn func()) int64 {
			r.engine.Reset()
			fn()
			return r.engine.Counts().Commits
		}
		r.call(lobby, "add", 1)
		if n := commits(func() { pass(11 * time.Second) }); n != 1 || r.engine.Counts().Syncs != 0 {
			t.Errorf("it fell asleep with %d commits and %d waits for stable storage, want 1 and 0", n, r.engine.Counts().Syncs)
		}
		r.wantAsleep(0)
		first := slept()
		if d := time.Since(first); d < 0 || d > 2*time.Second {
			t.Errorf("it fell asleep %v ago", d)
		}
		if n := commits(func() {
			r.call(lobby, "get", 0)
			pass(11 * time.Second)
		}); n != 1 { // which takes the actor over
			t.Errorf("it was read with %d commits", n)
		}
		r.wantAsleep(0)
		if got := slept(); !got.Equal(first) {
			t.Errorf("a call that only read changed when it slept from %v to %v", first, got)
		}
		if n := commits(func() {
			for range 10 {
				r.call(lobby, "get", 0)
				pass(9 * time.Second)
			}
			pass(2 * time.Second)
		}); n != 2 {
			t.Errorf("it was read for long with %d commits", n)
		}
		r.wantAsleep(0)
		if d := time.Since(slept()); d < 0 || d > 2*time.Second {
			t.Errorf("after a minute and more it fell asleep %v ago", d)
		}
		var idle []string
		for info, err := range r.Store().Actors(r.ctx, &greenroom.ActorsOptions{SleptBefore: time.Now()}) {
			must(t, err)
			idle = append(idle, info.Name)
		}
		if len(idle) != 1 || idle[0] != lobby.String() {
			t.Errorf("asleep are %q", idle)
		}
	}, thing(add, NewAction("get", func(*Context, int) (int, error) { return 0, nil })))
}
