package actorstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// accounts opens n actors, each with the balance 100 under a key.
func accounts(t testing.TB, s *actorstore.Store, n int) (all []*actorstore.Actor) {
	t.Helper()
	for i := range n {
		a, err := s.Named(ctx, fmt.Sprint("account ", i), nil)
		must(t, err)
		t.Cleanup(func() { must(t, a.Close()) })
		if a.Seq() == 0 {
			must(t, a.Put(ctx, user("balance"), []byte("100")))
		}
		all = append(all, a)
	}
	return all
}

func balance(t testing.TB, r actorstore.Reader) int {
	t.Helper()
	v, err := r.Get(ctx, user("balance"), nil)
	must(t, err)
	n, err := strconv.Atoi(string(v))
	must(t, err)
	return n
}

// move is the writes that take an amount from one account to others.
func move(t testing.TB, amount int, from *actorstore.Actor, to ...*actorstore.Actor) (writes []actorstore.Write) {
	t.Helper()
	for i, a := range append([]*actorstore.Actor{from}, to...) {
		n := balance(t, a) + amount
		if i == 0 {
			n = balance(t, a) - amount*len(to)
		}
		b := new(batch.Batch)
		b.Put(user("balance"), strconv.AppendInt(nil, int64(n), 10))
		writes = append(writes, actorstore.Write{Actor: a, Batch: b})
	}
	return writes
}

// stored returns the balances of n accounts in one state of an engine.
func stored(t testing.TB, eng kv.Engine, n int) (all []int) {
	t.Helper()
	s := openStore(t, eng, anyBatches)
	for i := range n {
		id, err := s.Lookup(ctx, fmt.Sprint("account ", i))
		if errors.Is(err, actorstore.ErrUnknownActor) {
			return nil
		}
		must(t, err)
		v, err := s.View(ctx, id)
		must(t, err)
		all = append(all, balance(t, v))
		must(t, v.Close())
	}
	return all
}

// anyBatches are limits of a store, whatever the environment says: a commit of several has a sub-batch for each.
var anyBatches = batch.Limits{AtomicBatches: envlimits.Unlimited}

// TestSeveral: the batches of several actors are one engine commit and one fsync, whose hooks run when all
// actors show it.
func TestSeveral(t *testing.T) {
	onEngines(t, func(t *testing.T, below kv.Engine) {
		eng := faultkv.New(below)
		s := openStore(t, eng, anyBatches)
		a := accounts(t, s, 3)
		writes := move(t, 10, a[2], a[0])
		var seen []int
		writes[0].Batch.OnCommit(func() { seen = append(seen, balance(t, a[0]), balance(t, a[2])) })
		writes = append(writes, actorstore.Write{Actor: a[1], Batch: new(batch.Batch)}) // which reads
		eng.Reset()
		must(t, actorstore.CommitSeveral(ctx, writes))
		if c := eng.Counts(); c.Commits != 1 || c.Durable != 1 || c.Syncs != 0 {
			t.Errorf("a transfer took %+v", c)
		}
		if got := []int{balance(t, a[0]), balance(t, a[1]), balance(t, a[2])}; !slices.Equal(got, []int{110, 100, 90}) || !slices.Equal(seen, []int{110, 90}) {
			t.Errorf("the balances are %v, and were %v", got, seen)
		}
		if a[0].Seq() != 2 || a[1].Seq() != 1 {
			t.Errorf("the newest commits are %d and %d", a[0].Seq(), a[1].Seq())
		}
		for _, a := range a { // each goes on by itself
			must(t, a.Put(ctx, user("more"), nil))
		}
		must(t, actorstore.ApplySeveral(ctx, move(t, 1, a[0], a[1], a[2])))
		eng.Reset()
		must(t, actorstore.CommitSeveral(ctx, []actorstore.Write{{a[0], new(batch.Batch)}, {a[1], new(batch.Batch)}}))
		if c := eng.Counts(); c.Commits != 0 {
			t.Errorf("batches that write nothing took %+v", c)
		}
	})
}

// TestViews: views of several actors are of one moment, and each outlives the others.
func TestViews(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, anyBatches)
		a := accounts(t, s, 3)
		ids := []actorstore.ID{a[2].ID(), a[0].ID(), a[1].ID()}
		views, err := s.Views(ctx, ids)
		must(t, err)
		must(t, actorstore.CommitSeveral(ctx, move(t, 10, a[0], a[1], a[2])))
		for i, v := range views {
			if n := balance(t, v); n != 100 || v.Info().ID != ids[i] {
				t.Errorf("view %d is of %v, with %d", i, v.Info().ID, n)
			}
			must(t, v.Close())
			must(t, v.Close())
		}
		if _, err := s.Views(ctx, append(ids, actorstore.NewID())); !errors.Is(err, actorstore.ErrUnknownActor) {
			t.Errorf("got %v, want %v", err, actorstore.ErrUnknownActor)
		}
	})
}

// TestSeveralCrash: after a crash behind any engine commit all of a transfer is there, or nothing.
func TestSeveralCrash(t *testing.T) {
	tape := engines.NewTape()
	s := openStore(t, tape, anyBatches)
	a := accounts(t, s, 4)
	for i := range 8 {
		must(t, actorstore.CommitSeveral(ctx, move(t, i+1, a[i%4], a[(i+1)%4], a[(i+3)%4])))
	}
	whole := 0
	for n := range tape.Len() + 1 {
		if got := stored(t, tape.At(t, n), 4); got != nil {
			if whole++; got[0]+got[1]+got[2]+got[3] != 400 {
				t.Errorf("after %d engine commits the balances are %v", n, got)
			}
		}
	}
	if whole < 9 {
		t.Errorf("%d states were looked at", anyBatches)
	}
}

// TestSeveralRefused: what one of the batches is refused for is nothing to the actors, of which none was written to.
func TestSeveralRefused(t *testing.T) {
	no := errors.New("no")
	var other *actorstore.Actor
	for name, tt := range map[string]struct {
		change func(writes []actorstore.Write) []actorstore.Write
		want   error
	}{
		"a late function": {func(w []actorstore.Write) []actorstore.Write {
			w[1].Batch.Late(func(*batch.Batch) error { return no })
			return w
		}, no},
		"the quota": {func(w []actorstore.Write) []actorstore.Write {
			w[1].Batch.Put(user("large"), make([]byte, 5000))
			return w
		}, actorstore.ErrQuota},
		"too large together": {func(w []actorstore.Write) []actorstore.Write {
			for i := range w {
				for k := range 150 {
					w[i].Batch.Put(user(fmt.Sprint(k)), nil)
				}
			}
			return w
		}, batch.ErrTooLarge},
		"an actor twice": {func(w []actorstore.Write) []actorstore.Write {
			return append(w, actorstore.Write{Actor: w[0].Actor, Batch: new(batch.Batch)})
		}, kv.ErrInvalid},
		"an actor of another store": {func(w []actorstore.Write) []actorstore.Write {
			return append(w, actorstore.Write{Actor: other, Batch: new(batch.Batch)})
		}, kv.ErrInvalid},
		"a batch in parts": {func(w []actorstore.Write) []actorstore.Write {
			w[1].Batch.Mode = batch.Ordered
			return w
		}, kv.ErrInvalid},
		"a batch that is over": {func(w []actorstore.Write) []actorstore.Write {
			w[1].Batch.Abort(no)
			return w
		}, batch.ErrSettled},
	} {
		t.Run(name, func(t *testing.T) {
			eng := faultkv.New(memkv.New())
			s := openStore(t, eng, batch.Limits{AtomicBatches: 2, Storage: 4000})
			a := accounts(t, s, 2)
			other = openActor(t, openStore(t, memkv.New(), anyBatches))
			writes := tt.change(move(t, 10, a[0], a[1]))
			aborted := 0
			writes[0].Batch.OnAbort(func(error) { aborted++ })
			eng.Reset()
			err := actorstore.CommitSeveral(ctx, writes)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if tt.want == actorstore.ErrQuota && !strings.Contains(err.Error(), a[1].Name()+": ") {
				t.Errorf("%v doesn't name %s", err, a[1].Name())
			}
			if c := eng.Counts(); c.Commits != 0 || aborted != 1 {
				t.Errorf("it took %+v, and %d batches were aborted", c, aborted)
			}
			must(t, actorstore.CommitSeveral(ctx, move(t, 5, a[0], a[1])))
			if got := []int{balance(t, a[0]), balance(t, a[1])}; !slices.Equal(got, []int{95, 105}) {
				t.Errorf("the balances are %v", got)
			}
		})
	}
}

// TestSeveralNotApplied: when an engine fails and applies nothing, the handles stay healthy.
func TestSeveralNotApplied(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, anyBatches)
	a := accounts(t, s, 2)
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.NotApplied(errTest)})
	if err := actorstore.CommitSeveral(ctx, move(t, 10, a[0], a[1])); !errors.Is(err, errTest) || a[0].Err() != nil || a[1].Err() != nil {
		t.Errorf("got %v, and the handles are: %v, %v", err, a[0].Err(), a[1].Err())
	}
	must(t, actorstore.CommitSeveral(ctx, move(t, 5, a[0], a[1])))
	if got := stored(t, eng, 2); !slices.Equal(got, []int{95, 105}) {
		t.Errorf("the balances are %v", got)
	}
}

// steal rewrites the head of an actor, as another owner does.
func steal(t testing.TB, eng kv.Engine, id actorstore.ID) {
	t.Helper()
	key := layout.RecordKey(layout.ID(id), layout.PartHead)
	row, err := eng.Get(ctx, key, nil)
	must(t, err)
	h, err := layout.ParseHead(layout.ID(id), row)
	must(t, err)
	h.Epoch++
	h.Last[0]++
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, h.Append(nil))}}))
}

// TestSeveralFenced: when one actor belongs to another owner nothing is written, the error names that actor, and the others
// go on.
func TestSeveralFenced(t *testing.T) {
	for _, reads := range []bool{false, true} {
		eng := memkv.New()
		s := openStore(t, eng, anyBatches)
		a := accounts(t, s, 3)
		writes := move(t, 10, a[0], a[1], a[2])
		if reads {
			writes[2].Batch = new(batch.Batch)
		}
		steal(t, eng, a[2].ID())
		err := actorstore.CommitSeveral(ctx, writes)
		if !errors.Is(err, actorstore.ErrFenced) || !strings.Contains(err.Error(), a[2].ID().String()) {
			t.Errorf("got %v, want that %v is another's", err, a[2].ID())
		}
		if !errors.Is(a[2].Err(), actorstore.ErrFenced) || a[0].Err() != nil || a[1].Err() != nil {
			t.Errorf("the handles are: %v, %v, %v", a[0].Err(), a[1].Err(), a[2].Err())
		}
		must(t, actorstore.CommitSeveral(ctx, move(t, 5, a[0], a[1])))
		if got := stored(t, eng, 3); !slices.Equal(got, []int{95, 105, 100}) {
			t.Errorf("the balances are %v", got)
		}
	}
}

// TestSeveralDoubt: when the outcome isn't known all handles are poisoned, and the next handle of each actor says the same of
// it.
func TestSeveralDoubt(t *testing.T) {
	for point, want := range map[faultkv.Point]kv.Outcome{faultkv.BeforeCommit: kv.OutcomeNotApplied, faultkv.AfterCommit: kv.OutcomeApplied} {
		for _, remembers := range []bool{true, false} {
			eng := faultkv.New(memkv.New())
			var over kv.Engine = eng
			if !remembers {
				over = forgetful{eng}
			}
			s := openStore(t, over, anyBatches)
			var a []*actorstore.Actor
			for i := range 2 {
				h, err := s.Named(ctx, fmt.Sprint("account ", i), nil)
				must(t, err)
				must(t, h.Put(ctx, user("balance"), []byte("100")))
				a = append(a, h)
			}
			eng.Fail(faultkv.Rule{Point: point, Err: errors.Join(errTest, kv.ErrUnknownOutcome)})
			if err := actorstore.CommitSeveral(ctx, move(t, 10, a[0], a[1])); !errors.Is(err, actorstore.ErrPoisoned) {
				t.Fatalf("got %v", err)
			}
			for _, a := range a {
				var doubt *actorstore.DoubtError
				if !errors.As(a.Err(), &doubt) || doubt.Actor != a.ID() {
					t.Fatalf("%v: got %v", a.ID(), a.Err())
				}
				must(t, a.Close())
			}
			for _, a := range accounts(t, s, 2) {
				if d := a.Doubt(); d == nil || d.Outcome != want {
					t.Errorf("what became of it is %+v, want %v", d, want)
				}
			}
			got := stored(t, over, 2)
			if applied := got[0] == 90; got[0]+got[1] != 200 || applied != (want == kv.OutcomeApplied) {
				t.Errorf("%v: the balances are %v", want, got)
			}
		}
	}
}

// TestSeveralAtOnce: transfers between the accounts of a ring, in both directions and beside what each writes alone, don't wait
// for each other in a circle, and lose nothing.
func TestSeveralAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, anyBatches)
		a := accounts(t, s, 5)
		turns := make([]sync.Mutex, len(a)) // of which the lowest is taken first
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for i := range 40 {
					from, to := (w+i)%5, (w+i+1+w%4)%5
					low, high := min(from, to), max(from, to)
					turns[low].Lock()
					turns[high].Lock()
					must(t, actorstore.ApplySeveral(ctx, move(t, i, a[from], a[to])))
					turns[high].Unlock()
					turns[low].Unlock()
					must(t, a[to].Put(ctx, user(fmt.Sprint("note ", w)), nil))
				}
			})
		}
		all.Wait()
		sum := 0
		for _, a := range a {
			sum += balance(t, a)
		}
		if sum != 500 {
			t.Errorf("the sum is %d", sum)
		}
	})
}
