package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/callrow"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// payer is a type whose actors count what lands.
func payer() *Type {
	return thing(add,
		NewCommand("nothing", func(c *Context, _ struct{}) error {
			return greenroom.Mutate(c, func(t *int) error { *t += 100; return nil })
		}),
		NewAction("fail", func(c *Context, n int) (int, error) {
			return 0, errors.Join(greenroom.SetState(c, n), errRefused)
		}),
		NewAction("long", func(c *Context, n int) (string, error) { return strings.Repeat("x", n), greenroom.SetState(c, n) }),
		NewAction("put", func(c *Context, key string) (int, error) {
			return 0, errors.Join(greenroom.SetState(c, 0), c.Put([]byte(key), nil))
		}),
		NewCommand("end", func(c *Context, _ struct{}) error { return c.Destroy() }),
	)
}

// again makes a call with an idempotency key.
func again(ctx context.Context, h *Host, a Address, action string, in any, key string) (result Raw, replayed bool, err error) {
	args, err := Encode(in)
	if err != nil {
		return nil, false, err
	}
	result, err = h.Do(ctx, &Call{Actor: a, Action: action, Args: args, IdempotencyKey: key, Replayed: &replayed})
	return result, replayed, err
}

// wantAgain adds n to the lobby with a key, and wants that total, which was stored before if replayed says so.
func (r *rig) wantAgain(n int, key string, want int, replayed bool) {
	r.Helper()
	result, got, err := again(r.ctx, r.Host, lobby, "add", n, key)
	must(r, err)
	var total int
	must(r, result.Decode(&total))
	if total != want || got != replayed {
		r.Errorf("key %q: total %d, replayed %t; want %d, %t", key, total, got, want, replayed)
	}
}

// answers returns of which calls an actor stores what they have returned, the oldest first.
func (r *rig) answers(a Address) (calls []callrow.Call) {
	r.Helper()
	v, err := r.Store().Lower().View(r.ctx, idOf(a))
	must(r, err)
	defer func() { must(r, v.Close()) }()
	start, end := callrow.Range()
	for e, err := range v.List(r.ctx, actorstore.ListOptions{Start: start, End: end}) {
		must(r, err)
		call, _, _, err := callrow.Parse(e.Key, e.Value)
		must(r, err)
		if call.Apart {
			value, err := v.Get(r.ctx, call.ResultKey(), nil)
			must(r, err)
			_, err = callrow.ParseResult(value)
			must(r, err)
		}
		calls = append(calls, call)
	}
	return calls
}

// TestIdempotency: what becomes of calls with keys, one after the other.
func TestIdempotency(t *testing.T) {
	full := strings.Repeat("~", callrow.MaxID)
	steps := []struct {
		who      string
		action   string
		in       any
		key      string
		err      error
		replayed bool
		total    int // afterwards
	}{
		{"", "add", 1, "", nil, false, 1},
		{"", "add", 1, "", nil, false, 2},
		{"", "add", 1, "k", nil, false, 3},
		{"", "add", 1, "k", nil, true, 3},
		{"", "add", 2, "k", ErrIdempotencyMismatch, false, 3},
		{"", "nothing", 1, "k", ErrIdempotencyMismatch, false, 3},
		{"ann", "add", 1, "k", ErrIdempotencyMismatch, false, 3},
		{"", "add", 1, "k", nil, true, 3},
		{"ann", "add", 1, "ann's", nil, false, 4},
		{"bob", "add", 1, "ann's", ErrIdempotencyMismatch, false, 4},
		{"ann", "add", 1, "ann's", nil, true, 4},
		{"", "fail", 9, "f", errRefused, false, 4},
		{"", "fail", 9, "f", errRefused, false, 4},
		{"", "add", 1, "f", nil, false, 5}, // nothing was stored
		{"", "nothing", nil, "n", nil, false, 105},
		{"", "nothing", nil, "n", nil, true, 105},
		{"", "add", 1, " ", nil, false, 106},
		{"", "add", 1, full, nil, false, 107},
		{"", "add", 1, full, nil, true, 107},
		{"", "add", 1, full + "~", ErrIdempotencyKey, false, 107},
		{"", "add", 1, "a\n", ErrIdempotencyKey, false, 107},
		{"", "add", 1, "é", ErrIdempotencyKey, false, 107},
		{"", "add", "one", "bad", ErrArgs, false, 107},
		{"", "none", 1, "k", ErrNoAction, false, 107},
	}
	bubble(t, Options{}, func(r *rig) {
		var results = map[string]string{}
		for i, s := range steps {
			ctx := r.ctx
			if s.who != "" {
				ctx = WithCaller(ctx, &Caller{ID: s.who})
			}
			result, replayed, err := again(ctx, r.Host, lobby, s.action, s.in, s.key)
			if !errors.Is(err, s.err) || err != nil && s.err == nil || replayed != s.replayed {
				t.Fatalf("step %d: replayed %t, %v", i, replayed, err)
			}
			if replayed && string(result) != results[s.key] {
				t.Errorf("step %d: result %x, before %x", i, result, results[s.key])
			}
			if err == nil && s.key != "" {
				results[s.key] = string(result)
			}
			if got := r.call(lobby, "add", 0); got != s.total {
				t.Fatalf("step %d: the total is %d, want %d", i, got, s.total)
			}
		}
		if n := len(r.answers(lobby)); n != 6 {
			t.Errorf("%d results are stored", n)
		}
	}, payer())
	for err, want := range map[error]string{ErrIdempotencyKey: "bad_idempotency_key", ErrIdempotencyMismatch: "idempotency_mismatch"} {
		if got := Code(err); got != want {
			t.Errorf("%v has the code %q", err, got)
		}
	}
}

// TestIdempotencyStays: what was returned is there after sleep, a restart and a crash of the host, and in a fork.
func TestIdempotencyStays(t *testing.T) {
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		r.wantAgain(1, "k", 1, false)
		pass(2 * time.Minute)
		r.wantAwake(0)
		r.wantAgain(1, "k", 1, true)
		r.reopen()
		r.wantAgain(1, "k", 1, true)
		old := r.crash()
		r.wantAgain(1, "k", 1, true)
		r.wantAgain(1, "other", 2, false)
		v, err := r.Store().Lower().View(r.ctx, idOf(lobby))
		must(t, err)
		copied := Address{"thing", "copy"}
		_, err = r.Store().Lower().Fork(r.ctx, v.Snapshot, &actorstore.ForkOptions{Name: copied.String()})
		must(t, errors.Join(err, v.Close()))
		if _, replayed, err := again(r.ctx, r.Host, copied, "add", 1, "k"); !replayed || err != nil {
			t.Errorf("in a fork: replayed %t, %v", replayed, err)
		}
		if got := r.call(copied, "add", 0); got != 2 {
			t.Errorf("the fork has %d", got)
		}
		_ = old.Close(r.ctx) // its actors are fenced
	}, payer())
}

// TestIdempotencyRestored: an actor that is restored answers what it had answered by then, and runs the rest again.
func TestIdempotencyRestored(t *testing.T) {
	r := newSaved(t, payer())
	r.wantAgain(1, "before", 1, false)
	mark := r.mark(lobby)
	r.wantAgain(1, "after", 2, false)
	_, err := r.RestoreID(r.ctx, idOf(lobby), mark, nil)
	must(t, err)
	r.wantAgain(1, "before", 1, true)
	r.wantAgain(1, "after", 2, false)
	r.wantAgain(1, "after", 2, true)
}

// TestIdempotencyDestroyed: an actor that is destroyed has no results, also if the call itself destroys it.
func TestIdempotencyDestroyed(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.wantAgain(1, "k", 1, false)
		must(t, r.Destroy(r.ctx, lobby))
		r.wantAgain(2, "k", 2, false)
		for range 2 {
			if _, replayed, err := again(r.ctx, r.Host, lobby, "end", nil, "e"); replayed || err != nil {
				t.Errorf("replayed %t, %v", replayed, err)
			}
		}
		r.wantAgain(3, "k", 3, false)
	}, payer())
}

// TestIdempotencyExpires: results are stored for a day, and go with later calls that have keys, some at a time.
func TestIdempotencyExpires(t *testing.T) {
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		for i := range 20 {
			r.wantAgain(1, fmt.Sprint(i), i+1, false)
		}
		pass(answeredFor - time.Millisecond)
		r.wantAgain(1, "19", 20, true)
		pass(time.Millisecond)
		for range 3 {
			r.call(lobby, "add", 0) // which removes nothing
		}
		if n := len(r.answers(lobby)); n != 20 {
			t.Errorf("%d are left of 20", n)
		}
		r.wantAgain(1, "19", 21, false) // one of the newest, so that it is removed by its key
		r.wantAgain(1, "19", 21, true)
		if got := r.answers(lobby); len(got) != 20-answeredSwept || got[len(got)-1].ID != "19" {
			t.Errorf("there are %v", got)
		}
		r.wantAgain(1, "new", 22, false)
		r.wantAgain(1, "newer", 23, false)
		if got := r.answers(lobby); len(got) != 3 {
			t.Errorf("there are %v", got)
		}
	}, payer())
}

// TestIdempotencyClockSetBack: a clock that is set back removes nothing before its time.
func TestIdempotencyClockSetBack(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.wantAgain(1, "a", 1, false)
		first := r.answers(lobby)[0].At
		synctest.Wait() // nothing looks at the clock
		r.clock = func() time.Time { return time.Now().Add(-time.Hour) }
		for i, key := range []string{"b", "c"} {
			r.wantAgain(1, key, i+2, false)
		}
		for _, c := range r.answers(lobby) {
			if c.At != first {
				t.Errorf("%q has the time %d, after %d", c.ID, c.At, first)
			}
		}
		r.wantAgain(1, "a", 1, true)
		r.wantAgain(1, "b", 2, true)
	}, payer())
}

// TestIdempotencyBound: an actor has the results of its newest calls.
func TestIdempotencyBound(t *testing.T) {
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		for i := range maxAnswered {
			r.wantAgain(1, fmt.Sprint(i), i+1, false)
			<-time.After(time.Millisecond) // else some would be of the same age
		}
		r.wantAgain(1, "0", 1, true)
		r.wantAgain(1, "more", maxAnswered+1, false)
		<-time.After(time.Millisecond)
		if n := len(r.answers(lobby)); n != maxAnswered {
			t.Errorf("%d results are stored", n)
		}
		r.reopen()
		r.wantAgain(1, "1", 2, true)
		r.wantAgain(1, "0", maxAnswered+2, false)
		<-time.After(time.Millisecond)
		r.wantAgain(1, "1", maxAnswered+3, false)
		r.wantAgain(1, "3", 4, true)
		got := r.answers(lobby)
		if len(got) != maxAnswered || got[0].ID != "3" || got[maxAnswered-1].ID != "1" {
			t.Errorf("%d results are stored, from %v to %v", len(got), got[0], got[len(got)-1])
		}
	}, payer())
}

// TestIdempotencyTooLarge: a result that can't be stored fails its call, and nothing lands; without a key such a result is fine.
func TestIdempotencyTooLarge(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		limit := batch.DefaultLimits().ValueSize
		r.call(lobby, "add", 7)
		for range 2 {
			_, _, err := again(r.ctx, r.Host, lobby, "long", limit, "k")
			wantErr(t, err, batch.ErrValueTooLarge)
			if code := Code(err); code != "value_too_large" {
				t.Errorf("the code is %q", code)
			}
		}
		if n := r.call(lobby, "add", 0); n != 7 || len(r.answers(lobby)) != 0 {
			t.Errorf("%d landed", n)
		}
		for _, want := range []bool{false, true} {
			result, replayed, err := again(r.ctx, r.Host, lobby, "long", limit-40, "k")
			must(t, err)
			if replayed != want || len(result) < limit-40 {
				t.Errorf("replayed %t, %d bytes", replayed, len(result))
			}
		}
		_, err := invoke[string](r.ctx, r.Host, lobby, "long", limit)
		must(t, err)
	}, payer())
}

// TestIdempotencyLarge: a large result is answered as a small one, isn't read before that, and leaves nothing.
func TestIdempotencyLarge(t *testing.T) {
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		for i := range 2 * answeredSwept {
			_, replayed, err := again(r.ctx, r.Host, lobby, "long", 2000, fmt.Sprint(i))
			if must(t, err); replayed {
				t.Errorf("call %d is answered from what is stored", i)
			}
		}
		r.reopen()
		var read atomic.Int64
		r.engine.Hook(func(o faultkv.Op) error {
			if (o.Point == faultkv.BeforeGet || o.Point == faultkv.BeforeScan) && bytes.Contains(slices.Concat(o.Key, o.Range.Start), []byte("hr\x00")) {
				read.Add(1)
			}
			return nil
		})
		r.wantAgain(1, "small", 2001, false)
		if n := read.Load(); n != 0 {
			t.Errorf("results were read %d times", n)
		}
		result, replayed, err := again(r.ctx, r.Host, lobby, "long", 2000, "3")
		if must(t, err); !replayed || len(result) != 2003 || read.Load() != 1 {
			t.Errorf("replayed %t, %d bytes, %d reads of results", replayed, len(result), read.Load())
		}
		_, _, err = again(r.ctx, r.Host, lobby, "long", 2001, "3")
		wantErr(t, err, ErrIdempotencyMismatch)
		pass(answeredFor)
		for i := range 3 {
			r.wantAgain(1, fmt.Sprint("new", i), 2002+i, false)
		}
		if got := r.answers(lobby); len(got) != 3 {
			t.Errorf("there are %v", got)
		}
		v, err := r.Store().Lower().View(r.ctx, idOf(lobby))
		must(t, err)
		for e, err := range v.List(r.ctx, actorstore.ListOptions{Start: []byte("hr"), End: []byte("hs")}) {
			t.Errorf("%x is left, %v", e.Key, err)
		}
		must(t, v.Close())
	}, payer())
}

// TestIdempotencyAtOnce: of calls with one key that come at once, one runs, and no answer leaves before that is durable.
func TestIdempotencyAtOnce(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "add", 0)
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeSync, Times: faultkv.Forever})
		r.engine.Reset()
		var mu sync.Mutex
		var got []string
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				result, replayed, err := again(r.ctx, r.Host, lobby, "add", 5, "k")
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%x %t %v", result, replayed, err))
			})
			synctest.Wait()
		}
		if n := r.engine.Counts().Commits; n != 1 || len(got) != 0 {
			t.Errorf("%d commits, and %d answers before it is durable", n, len(got))
		}
		pause.Release()
		wg.Wait()
		slices.Sort(got)
		if slices.Equal(got[:2], []string{"05 false <nil>", "05 true <nil>"}) && got[9] == got[1] {
			return
		}
		t.Errorf("got %q", got)
	}, payer())
}

// TestIdempotencyNotDurable: an answer from a result that doesn't become durable doesn't leave.
func TestIdempotencyNotDurable(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "add", 0)
		pause := r.engine.Pause(faultkv.Rule{Point: faultkv.BeforeSync, Err: faultkv.ErrInjected})
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, _, err := again(r.ctx, r.Host, lobby, "add", 5, "k")
				errs <- err
			}()
			synctest.Wait()
		}
		pause.Release()
		wantErr(t, <-errs, ErrUnknownOutcome)
		if err := <-errs; err != nil { // it waited for another sync, which took both along
			wantErr(t, err, ErrUnknownOutcome)
		}
		r.wantAgain(5, "k", 5, true)
		if got := r.call(lobby, "add", 0); got != 5 {
			t.Errorf("the total is %d", got)
		}
	}, payer())
}

// TestIdempotencyCorrupt: damaged rows are told, and nothing is run.
func TestIdempotencyCorrupt(t *testing.T) {
	for name, damage := range map[string]func(b *batch.Batch, key []byte){
		"key":   func(b *batch.Batch, key []byte) { b.Put(append(slices.Clone(key[:10]), 0xff), nil) },
		"value": func(b *batch.Batch, key []byte) { b.Put(key, []byte{1, 0, 7}) },
		"gone":  func(b *batch.Batch, key []byte) { b.Delete(key) },
	} {
		bubble(t, Options{}, func(r *rig) {
			r.wantAgain(1, "k", 1, false)
			if name == "key" {
				r.reopen()
			}
			must(t, r.turn(r.ctx, lobby, nil, newTurn("test", func(c *Context) error {
				damage(c.Batch(), r.answers(lobby)[0].Key())
				return nil
			})))
			_, _, err := again(r.ctx, r.Host, lobby, "add", 1, "k")
			if !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
			if got := r.call(lobby, "add", 0); got != 1 {
				t.Errorf("%s: the total is %d", name, got)
			}
		}, payer())
	}
}

// TestIdempotencyCosts: a call without a key reads, writes and allocates nothing for those that have one; one with a key reads nothing but,
// the first time of a stay in memory, the keys, and is one commit; an answer from what is stored is one read.
func TestIdempotencyCosts(t *testing.T) {
	call, fn := &Call{Action: "add"}, payer().Actions[0].declared().Run
	if n := testkit.FewestAllocs(func() {
		m, err := newIdempotentCall(context.Background(), call, fn)
		if m != nil || err != nil || m.or(fn) == nil {
			t.Error("a call without a key is one with a key")
		}
		m.tell(call)
	}); n != 0 {
		t.Errorf("%v allocations without a key", n)
	}
	bubble(t, Options{IdleTimeout: time.Minute}, func(r *rig) {
		count := func(fn func()) (reads, commits int64) {
			synctest.Wait() // until the host has looked around in its store
			r.engine.Reset()
			fn()
			n := r.engine.Counts()
			return n.Gets + n.Scans + n.Snapshots, n.Commits
		}
		bare := Address{"thing", "bare"}
		for i := range 50 {
			r.wantAgain(1, fmt.Sprint(i), i+1, false)
			r.call(bare, "add", 1)
		}
		for name, a := range map[string]Address{"with rows": lobby, "without": bare} {
			if reads, commits := count(func() {
				for range 10 {
					r.call(a, "add", 1)
				}
			}); reads != 0 || commits != 10 {
				t.Errorf("10 calls without a key of an actor %s: %d reads, %d commits", name, reads, commits)
			}
		}
		r.reopen()
		r.call(Address{"thing", "first"}, "add", 1) // the host has looked around in its store
		var woken [2]int64
		for i, a := range []Address{lobby, bare} {
			woken[i], _ = count(func() { r.call(a, "add", 1) })
		}
		if woken[0] != woken[1] {
			t.Errorf("%d reads to wake an actor with rows, and %d without", woken[0], woken[1])
		}
		put, _ := count(func() { r.call(bare, "put", "x") }) // the store looks at what a row replaces
		for i, want := range []struct {
			key            string
			reads, commits int64
		}{{"a", put + 1, 1}, {"b", put, 1}, {"b", 1, 0}, {"3", 1, 0}, {"c", put, 1}} {
			if reads, commits := count(func() {
				_, _, err := again(r.ctx, r.Host, lobby, "add", 1, want.key)
				must(t, err)
			}); reads != want.reads || commits != want.commits {
				t.Errorf("call %d with a key: %d reads, %d commits; a row takes %d reads", i, reads, commits, put)
			}
		}
	}, payer())
}
