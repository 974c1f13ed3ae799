package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/queue"
)

// A payment is what an account pays to others: to each the amount.
type payment struct {
	To     []string
	Amount int
	Fail   string // how the action ends, "" for well
}

// account returns the type of an account with 100 to begin with, and a payment as an action of several actors.
func account() *Type {
	return &Type{
		Name: "account",
		Actions: []AnyAction{
			NewJointAction("pay", payees, pay),
			NewAction("balance", func(c *Context, _ struct{}) (n int, err error) {
				return n, c.QueryRow("select balance from account").Scan(&n)
			}),
			NewAction("later", func(c *Context, p payment) (string, error) { return c.After(time.Minute, "pay", p) }),
			NewCommand("hang", func(c *Context, d time.Duration) error { <-time.After(d); return nil }),
		},
		Connect: func(_ *Context, n *Conn) error { return n.Subscribe("booked") },
		Create: func(c *Context) error {
			for _, q := range []string{
				"create table account(balance integer not null check (balance >= 0))", "insert into account values (100)",
				"create table note(of integer not null references account(rowid) deferrable initially deferred)",
			} {
				if _, err := c.Exec(q); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func accountOf(key string) Address { return Address{"account", key} }

func payees(of Address, p payment) (to []Address, err error) {
	for _, key := range p.To {
		to = append(to, accountOf(key))
	}
	if p.Fail == "payees" {
		err = &Error{Code: "no", Message: "No."}
	}
	return to, err
}

// bookIn changes a balance, and says so in the state, in a message and in an event.
func bookIn(c *Context, amount int) error {
	if _, err := c.Exec("update account set balance = balance + ?", amount); err != nil {
		return err
	}
	_, err := c.Enqueue(queue.Send{Name: "booked", Body: amount})
	return errors.Join(err, greenroom.Mutate(c, func(n *int) error { *n += amount; return nil }), c.Broadcast("booked", amount))
}

func pay(c *Context, others []*Context, p payment) (left int, err error) {
	if err := bookIn(c, -p.Amount*len(others)); err != nil {
		return 0, err
	}
	last := c
	for _, o := range others {
		if err := bookIn(o, p.Amount); err != nil {
			return 0, err
		}
		last = o
	}
	switch p.Fail {
	case "error":
		return 0, &Error{Code: "no", Message: "No."}
	case "panic":
		panic("no")
	case "exit":
		runtime.Goexit()
	case "constraint":
		_, err = last.Exec("insert into note values (99)")
	case "large":
		_, err = last.Exec("create table large as select value, randomblob(1000) from generate_series(1, 4000)")
	case "destroy":
		err = last.Destroy()
	}
	if err == nil {
		err = c.QueryRow("select balance from account").Scan(&left)
	}
	return left, err
}

// balances returns those of the accounts, and holds that their states and queues say the same.
func (r *rig) balances(keys ...string) (all []int) {
	r.Helper()
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = accountOf(key).String()
	}
	must(r, r.Store().Views(r.ctx, names, func(vs []*greenroom.View) error {
		for i, v := range vs {
			var n, sum int
			if err := v.QueryRow("select balance from account").Scan(&n); err != nil {
				return err
			}
			state, err := greenroom.State[int](v)
			if err != nil {
				return err
			}
			for m, err := range v.Messages(nil) {
				if err != nil {
					return err
				}
				var amount int
				if err := Raw(m.Body).Decode(&amount); err != nil {
					return err
				}
				sum += amount
			}
			if n != 100+state || state != sum {
				r.Errorf("%s has %d, its state is %d, and its messages say %d", keys[i], n, state, sum)
			}
			all = append(all, n)
		}
		return nil
	}))
	return all
}

func (r *rig) want(what string, balances map[string]int) {
	r.Helper()
	got := map[string]int{}
	for key := range balances {
		got[key] = r.balances(key)[0]
	}
	if !maps.Equal(got, balances) {
		r.Errorf("%s: the balances are %v, want %v", what, got, balances)
	}
}

// pay calls the action of several actors.
func (r *rig) pay(from string, p payment) (int, error) {
	return invoke[int](r.ctx, r.Host, accountOf(from), "pay", p)
}

// together is the same by Together.
func (r *rig) together(ctx context.Context, from string, p payment) error {
	to, err := payees(accountOf(from), p)
	if err != nil {
		return err
	}
	return Together(ctx, r.Host, append([]Address{accountOf(from)}, to...), func(cs []*Context) error {
		_, err := pay(cs[0], cs[1:], p)
		return err
	})
}

// listen returns what hears of the bookings of an account.
func (r *rig) listen(key string) *sink {
	r.Helper()
	s := &sink{}
	_, err := r.Join(r.ctx, &Join{Actor: accountOf(key), Transport: s})
	must(r, err)
	return s
}

// whole returns options with the limits of a store, whatever the environment says: a turn of several has a sub-batch for each.
func whole(opts Options) Options {
	opts.Store = &greenroom.Options{}
	return opts
}

// TestTogether: a turn of several actors is one engine commit, by Together and as an action, and what it says leaves.
func TestTogether(t *testing.T) {
	r := newRig(t, whole(Options{}), account())
	said := r.listen("c")
	must(t, r.together(r.ctx, "b", payment{To: []string{"a", "c"}, Amount: 1}))
	for name, do := range map[string]func() error{
		"Together": func() error { return r.together(r.ctx, "b", payment{To: []string{"a", "c"}, Amount: 10}) },
		"action":   func() error { _, err := r.pay("a", payment{To: []string{"c", "b"}, Amount: 10}); return err },
	} {
		r.engine.Reset()
		must(t, do())
		if c := r.engine.Counts(); c.Commits != 1 || c.Syncs != 1 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	r.want("after three", map[string]int{"a": 91, "b": 88, "c": 121})
	if got := said.names(); len(got) != 3 {
		t.Errorf("%d events, want 3", len(got))
	}
	r.engine.Reset()
	must(t, Together(r.ctx, r.Host, []Address{accountOf("a"), accountOf("b")}, func(cs []*Context) error {
		_, err := cs[1].Exec("select 1")
		return err
	}))
	if c := r.engine.Counts(); c.Commits != 0 {
		t.Errorf("a turn that writes nothing: %+v", c)
	}
	// One actor is only read, which the commit checks, and one of them does nothing.
	r.engine.Reset()
	must(t, Together(r.ctx, r.Host, []Address{accountOf("a"), accountOf("b"), accountOf("c")}, func(cs []*Context) error {
		var n int
		if err := cs[0].QueryRow("select balance from account").Scan(&n); err != nil {
			return err
		}
		return cs[2].Put([]byte("seen"), fmt.Append(nil, n))
	}))
	if c := r.engine.Counts(); c.Commits != 1 {
		t.Errorf("a turn that reads: %+v", c)
	}
	r.reopen()
	r.want("after a restart", map[string]int{"a": 91, "b": 88, "c": 121})
	r.close()
}

// TestTogetherFsyncs: a payment waits for one fsync, of whatever account.
func TestTogetherFsyncs(t *testing.T) {
	var fsyncs atomic.Int64
	db, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{Metrics: fsyncCounter{&fsyncs}})
	must(t, err)
	r := newRigOn(t, db, whole(Options{}), account())
	must(t, r.together(r.ctx, "a", payment{To: []string{"b", "c"}, Amount: 1}))
	for _, from := range []string{"a", "b", "c"} {
		before := fsyncs.Load()
		must(t, r.together(r.ctx, from, payment{To: []string{"d"}, Amount: 1})) // which is new the first time
		if from != "a" && fsyncs.Load() != before+1 {
			t.Errorf("%s: %d fsyncs", from, fsyncs.Load()-before)
		}
	}
	r.close()
	must(t, db.Close())
}

// A fsyncCounter counts the fsyncs of pebblekv.
type fsyncCounter struct{ n *atomic.Int64 }

func (f fsyncCounter) Add(m *metrics.Metric, n int64) {
	if strings.HasPrefix(m.Name, "pebblekv_fsyncs") {
		f.n.Add(n)
	}
}
func (fsyncCounter) Observe(*metrics.Metric, time.Duration) {}

// TestTogetherRefused: when one of the actors refuses, nothing of the turn has landed in any, nothing has left, and all go on.
func TestTogetherRefused(t *testing.T) {
	for fail, want := range map[string]error{
		"error": nil, "panic": ErrPanic, "exit": ErrPanic, "constraint": nil, "large": batch.ErrTooLarge, "payees": nil,
	} {
		for _, action := range []bool{false, true} {
			t.Run(fmt.Sprint(fail, " ", action), func(t *testing.T) {
				r := newRig(t, Options{Store: &greenroom.Options{Limits: batch.Limits{AtomicBatches: 3}}}, account())
				said := r.listen("c")
				_, err := r.pay("b", payment{To: []string{"a", "c"}, Amount: 1})
				must(t, err)
				r.engine.Reset()
				p := payment{To: []string{"a", "c"}, Amount: 10, Fail: fail}
				if action {
					_, err = r.pay("b", p)
				} else {
					err = r.together(r.ctx, "b", p)
				}
				if err == nil || want != nil && !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				if c := r.engine.Counts(); c.Commits != 0 {
					t.Errorf("it took %+v", c)
				}
				_, err = r.pay("c", payment{To: []string{"a", "b"}, Amount: 5})
				must(t, err)
				r.want("in the end", map[string]int{"a": 106, "b": 103, "c": 91})
				if got := said.names(); len(got) != 2 {
					t.Errorf("%d events, want 2", len(got))
				}
				r.close()
			})
		}
	}
}

// TestTogetherMisused: what no turn can be of, and where none may be asked for.
func TestTogetherMisused(t *testing.T) {
	var r *rig
	no := func([]*Context) error { t.Error("the function was called"); return nil }
	within := NewCommand("within", func(c *Context, how string) error {
		switch how {
		case "Together":
			return Together(c, r.Host, []Address{accountOf("a")}, no)
		case "an action":
			_, err := invoke[int](c, r.Host, accountOf("a"), "pay", payment{To: []string{"b"}})
			return err
		}
		return nil
	})
	must := &Type{Name: "must", Actions: []AnyAction{within}, MustCreate: true}
	r = newRig(t, whole(Options{}), account(), must, thing())
	a, b := accountOf("a"), accountOf("b")
	for name, tt := range map[string]struct {
		of   []Address
		want error
	}{
		"none": {nil, ErrAddress}, "twice": {[]Address{a, b, a}, ErrAddress}, "too many": {make([]Address, MaxTogether+1), ErrAddress},
		"no key": {[]Address{a, {Type: "account"}}, ErrAddress}, "no type": {[]Address{a, {"other", "x"}}, ErrNoType},
		"must exist": {[]Address{a, {"must", "x"}}, ErrNoActor},
	} {
		wantErr(t, Together(r.ctx, r.Host, tt.of, no), tt.want)
		if err := Together(r.ctx, r.Host, tt.of, no); name == "must exist" && !strings.Contains(err.Error(), "must/x") {
			t.Errorf("%s: %v doesn't name the actor", name, err)
		}
	}
	_, err := r.pay("a", payment{To: []string{"a"}})
	wantErr(t, err, ErrAddress)
	_, err = invoke[int](r.ctx, r.Host, a, "pay", "what")
	wantErr(t, err, ErrArgs)
	if err := r.Create(r.ctx, Address{"must", "x"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"Together", "an action"} {
		wantErr(t, within.Call(r.ctx, r.Host, "x", how), greenroom.ErrNested)
	}
	// Within the function, a call of any of the actors is refused, and so is another turn of several.
	wantErr(t, Together(r.ctx, r.Host, []Address{b, a}, func(cs []*Context) error {
		for i, c := range cs {
			for _, ctx := range []context.Context{c, context.Background()} {
				for _, to := range []string{"a", "b"} {
					if _, err := invoke[int](ctx, r.Host, accountOf(to), "balance", nil); !errors.Is(err, greenroom.ErrNested) {
						t.Errorf("a call of %s with context %d: %v", to, i, err)
					}
				}
			}
		}
		return Together(cs[1], r.Host, []Address{accountOf("c")}, no)
	}), greenroom.ErrNested)
	if _, err := newKind(&Type{Name: "x", Actions: []AnyAction{NewJointAction[int, int]("x", nil, func(*Context, []*Context, int) (int, error) { return 0, nil })}}); !errors.Is(err, ErrTypes) {
		t.Errorf("an action without addresses: %v", err)
	}
	r.close()
}

// TestTogetherAgain: a call with an idempotency key lands once, and an event of the schedule is done with what it does to several actors.
func TestTogetherAgain(t *testing.T) {
	bubble(t, whole(Options{}), func(r *rig) {
		args, err := Encode(payment{To: []string{"b"}, Amount: 10})
		must(t, err)
		var replayed bool
		for i := range 3 {
			got, err := r.Do(r.ctx, &Call{Actor: accountOf("a"), Action: "pay", Args: args, IdempotencyKey: "once", Replayed: &replayed})
			must(t, err)
			var left int
			if must(t, got.Decode(&left)); left != 90 || replayed != (i > 0) {
				t.Errorf("call %d left %d, replayed: %v", i, left, replayed)
			}
		}
		_, err = invoke[string](r.ctx, r.Host, accountOf("a"), "later", payment{To: []string{"c", "b"}, Amount: 5})
		must(t, err)
		pass(2 * time.Minute)
		r.want("after the event", map[string]int{"a": 80, "b": 115, "c": 105})
		pass(time.Hour)
		r.want("an hour later", map[string]int{"a": 80, "b": 115, "c": 105})
	}, account())
}

// TestTogetherInTime: an actor that can't be had ends the whole in time, with an error that names it; the others go on.
func TestTogetherInTime(t *testing.T) {
	bubble(t, whole(Options{TurnTimeout: 20 * time.Second, MaxAwake: 3, Mailbox: 2}), func(r *rig) {
		hang := func(key string, d time.Duration) (done chan error) {
			done = make(chan error)
			go func() { _, err := invoke[any](r.ctx, r.Host, accountOf(key), "hang", d); done <- err }()
			synctest.Wait()
			return done
		}
		failed := func(want error, names string, p payment) {
			t.Helper()
			if err := r.together(r.ctx, "a", p); !errors.Is(err, want) || !strings.Contains(err.Error(), names) {
				t.Errorf("got %v, want %v of %s", err, want, names)
			}
		}
		done := hang("b", 19*time.Second)
		began := time.Now()
		failed(context.DeadlineExceeded, "account/b", payment{To: []string{"b", "c"}, Amount: 1})
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		_, err := r.pay("a", payment{To: []string{"c"}, Amount: 1}) // which were let go
		must(t, err)
		must(t, <-done)
		// More actors than may be awake.
		failed(context.DeadlineExceeded, "account/d", payment{To: []string{"b", "c", "d"}, Amount: 1})
		// A mailbox that is full, and a caller that gives up while it waits.
		done = hang("b", 19*time.Second)
		short, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		wantErr(t, r.together(short, "a", payment{To: []string{"b"}, Amount: 1}), context.DeadlineExceeded)
		for range 2 {
			go func() { _, _ = invoke[int](r.ctx, r.Host, accountOf("b"), "balance", nil) }()
		}
		synctest.Wait()
		failed(ErrOverloaded, "account/b", payment{To: []string{"b"}, Amount: 1})
		must(t, <-done)
		synctest.Wait()
		r.want("after one payment", map[string]int{"a": 99, "b": 100, "c": 101})
		// A caller that leaves while the turn runs isn't told that nothing has landed.
		short, cancel = context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		err = Together(short, r.Host, []Address{accountOf("a"), accountOf("b")}, func(cs []*Context) error {
			<-time.After(2 * time.Second)
			return errors.Join(bookIn(cs[0], -7), bookIn(cs[1], 7))
		})
		wantErr(t, err, ErrUnknownOutcome)
		pass(2 * time.Second)
		r.want("after the second", map[string]int{"a": 92, "b": 107, "c": 101})
	}, account())
}

// TestTogetherSleep: actors that sleep, and that leave as soon as they can, are woken; one that is destroyed by the turn is gone when it is over.
func TestTogetherSleep(t *testing.T) {
	bubble(t, whole(Options{IdleTimeout: -1, MaxAwake: 3}), func(r *rig) {
		for i := range 20 {
			_, err := r.pay(fmt.Sprint(i), payment{To: []string{fmt.Sprint(i + 1), fmt.Sprint(i + 2)}, Amount: 1})
			must(t, err)
		}
		_, err := r.pay("0", payment{To: []string{"1", "2"}, Amount: 1, Fail: "destroy"})
		must(t, err)
		if _, err := r.Do(r.ctx, &Call{Actor: accountOf("2"), Action: "balance", Existing: true}); !errors.Is(err, ErrNoActor) {
			t.Errorf("the actor that was destroyed: %v", err)
		}
		r.want("in the end", map[string]int{"0": 96, "1": 100, "3": 100})
	}, account())
}

// TestTogetherAtOnce: payments in rings and between hot pairs, of callers that give up, too, on a host that has room for few: none waits for
// ever, and the sum is right at any time.
func TestTogetherAtOnce(t *testing.T) {
	r := newRig(t, whole(Options{MaxAwake: 5, Mailbox: 1000}), account())
	keys := []string{"a", "b", "c", "d"}
	for _, key := range keys {
		must(t, r.Create(r.ctx, accountOf(key), nil))
	}
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 30 {
				at := func(n int) string { return keys[(w+i+n)%4] }
				ctx, cancel := r.ctx, context.CancelFunc(func() {})
				var err error
				switch i % 4 {
				case 0:
					err = r.together(ctx, "a", payment{To: []string{"b"}, Amount: 1})
				case 1:
					_, err = r.pay("b", payment{To: []string{"a"}, Amount: 1})
				case 2:
					_, err = r.pay(at(0), payment{To: []string{at(1), at(2)}, Amount: 1})
				default:
					ctx, cancel = context.WithTimeout(r.ctx, time.Duration(w)*100*time.Microsecond)
					if err = r.together(ctx, at(2), payment{To: []string{at(1)}, Amount: 1}); errors.Is(err, context.DeadlineExceeded) {
						err = nil
					}
				}
				if cancel(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	for done, looks := false, 0; !done; looks++ {
		select {
		case <-over:
			if done = true; looks < 2 {
				t.Errorf("%d looks", looks)
			}
		default:
		}
		sum := 0
		for _, n := range r.balances(keys...) {
			sum += n
		}
		if sum != 400 {
			t.Fatalf("the sum is %d", sum)
		}
	}
	r.close()
}

// TestTogetherFaults: each operation of a payment fails once. It has landed whole or not at all, as its error says, and nothing is said of one that isn't durable.
func TestTogetherFaults(t *testing.T) {
	broken := errors.New("broken")
	for _, point := range []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterCommit, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot, faultkv.BeforeSync} {
		for skip := range 20 {
			r := newRig(t, whole(Options{}), account())
			_, err := r.pay("a", payment{To: []string{"b", "c"}, Amount: 1})
			must(t, err)
			said := r.listen("c")
			fault := r.engine.Fail(faultkv.Rule{Point: point, Skip: skip, Err: broken})
			_, err = r.pay("b", payment{To: []string{"a", "c"}, Amount: 10})
			hits := fault.Hits()
			r.engine.Heal()
			if n := len(said.names()); n > 0 && err != nil {
				t.Errorf("%v, %d before it: %v, and an event has left", point, skip, err)
			}
			_ = r.Host.Close(r.ctx) // some actors are lost
			r.open()
			got := r.balances("a", "b", "c")
			whole, none := fmt.Sprint(got) == "[108 81 111]", fmt.Sprint(got) == "[98 101 101]"
			if !whole && !none || err == nil && none || err != nil && whole && !errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("%v, %d before it: %v, and the balances are %v", point, skip, err, got)
			}
			_, err = r.pay("c", payment{To: []string{"b"}, Amount: 1})
			must(t, err)
			if r.close(); hits == 0 {
				break
			}
		}
	}
}

// TestTogetherCrash: after a crash behind any engine commit, all of each payment is there, or nothing.
func TestTogetherCrash(t *testing.T) {
	tape := engines.NewTape()
	r := newRigOn(t, tape, whole(Options{}), account())
	keys := []string{"a", "b", "c"}
	for _, key := range keys {
		must(t, r.Create(r.ctx, accountOf(key), nil))
	}
	from := tape.Len()
	for i := range 6 {
		_, err := r.pay(keys[i%3], payment{To: []string{keys[(i+1)%3], keys[(i+2)%3]}, Amount: i})
		must(t, err)
	}
	r.close()
	for n := from; n <= tape.Len(); n++ {
		after := newRigOn(t, tape.At(t, n), whole(Options{}), account())
		if got := after.balances(keys...); got[0]+got[1]+got[2] != 300 {
			t.Errorf("after %d engine commits the balances are %v", n, got)
		}
		_, err := after.pay("a", payment{To: []string{"b"}, Amount: 1})
		must(t, err)
		after.close()
	}
}

// TestTogetherElsewhere: an actor that another host has is an error that says where it is, and one that another host has taken meanwhile refuses the whole.
func TestTogetherElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := memkv.New()
		r := newRigOn(t, engines.Shared(base), whole(Options{}), account())
		other := newRigOn(t, engines.Shared(base), Options{Store: &greenroom.Options{Host: actorstore.HostOptions{Name: "other"}}}, account())
		_, err := other.pay("b", payment{To: []string{"c"}, Amount: 1})
		must(t, err)
		_, err = r.pay("a", payment{To: []string{"b"}, Amount: 1})
		if in := (*actorstore.InUseError)(nil); !errors.As(err, &in) || in.Host.Name != "other" || !strings.Contains(err.Error(), "account/b") {
			t.Errorf("got %v", err)
		}
		_, err = r.pay("a", payment{To: []string{"d"}, Amount: 1})
		must(t, err)
		thief, err := greenroom.New(r.ctx, engines.Shared(base), nil)
		must(t, err)
		err = Together(r.ctx, r.Host, []Address{accountOf("a"), accountOf("d")}, func(cs []*Context) error {
			a, err := thief.Actor(r.ctx, "account/d", &greenroom.ActorOptions{Force: true})
			must(t, err)
			must(t, a.Close())
			return errors.Join(bookIn(cs[0], -1), bookIn(cs[1], 1))
		})
		wantErr(t, err, actorstore.ErrFenced)
		_, err = r.pay("a", payment{To: []string{"d"}, Amount: 1}) // the one that was lost is taken again
		must(t, err)
		r.want("in the end", map[string]int{"a": 98, "d": 102})
		must(t, thief.Close())
		r.close()
		other.close()
	})
}
