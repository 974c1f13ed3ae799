package actorstore_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// use adds to an actor's usage, beside what stage stages.
func use(t testing.TB, a *actorstore.Actor, u actorstore.Usage, stage func(b *batch.Batch)) {
	t.Helper()
	var b batch.Batch
	if stage != nil {
		stage(&b)
	}
	a.StageUsage(&b, func() actorstore.Usage { return u })
	must(t, a.Apply(ctx, &b))
}

// usage returns what the store says that an actor has used.
func usage(t testing.TB, s *actorstore.Store, id actorstore.ID) actorstore.Usage {
	t.Helper()
	v, err := s.View(ctx, id)
	must(t, err)
	defer v.Close()
	return v.Info().Usage
}

// TestUsage: what is added lands with its batch and stays, and a fork begins at nothing.
func TestUsage(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, batch.Limits{Entries: 2})
		a := openActor(t, s)
		failure := actorstore.Failure{Code: "conflict", Place: "add", Count: 1, Last: at(5)}
		use(t, a, actorstore.Usage{Turns: 2, Awake: 3 * time.Millisecond, Written: 4, Rows: 5, Failures: []actorstore.Failure{failure}}, func(b *batch.Batch) {
			b.Put(user("k"), []byte("v"))
		})
		seq := a.Seq()
		use(t, a, actorstore.Usage{}, nil) // which writes nothing
		if a.Seq() != seq {
			t.Errorf("a usage of nothing is commit %d", a.Seq())
		}
		must(t, a.Close())
		a = openActor(t, s)
		// Of an ordered batch it lands with the first part.
		use(t, a, actorstore.Usage{Turns: 1, Failures: []actorstore.Failure{{Code: "conflict", Place: "add", Count: 2, Last: at(4)}}}, func(b *batch.Batch) {
			b.Mode = batch.Ordered
			for i := range 4 {
				b.Put(user(fmt.Sprint("k", i)), []byte("v"))
			}
		})
		failure.Count = 3
		want := actorstore.Usage{Turns: 3, Awake: 3 * time.Millisecond, Written: 4, Rows: 5, Failures: []actorstore.Failure{failure}}
		if got := usage(t, s, a.ID()); !reflect.DeepEqual(got, want) || got.Failed() != 3 {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if a.Written() < 100 || a.Written() > 2000 {
			t.Errorf("the handle has written %d bytes", a.Written())
		}
		snap, err := a.Snapshot(ctx)
		must(t, err)
		to := actorstore.IDFromName("fork")
		must(t, second(s.Fork(ctx, snap, &actorstore.ForkOptions{ID: to})))
		must(t, snap.Close())
		if got := usage(t, s, to); !got.IsZero() {
			t.Errorf("the fork has used %+v", got)
		}
		if got := problems(t, s); len(got) > 0 {
			t.Errorf("%v", got)
		}
		must(t, a.Drop(ctx))
		must(t, s.Close())
	})
}

// TestFailures: the failures that are the longest ago make room for others, and none is lost from the sum.
func TestFailures(t *testing.T) {
	var u actorstore.Usage
	for i := range 100 {
		u.Fail(actorstore.Failure{Code: fmt.Sprint(i % 40), Place: strings.Repeat("é", 100), Count: 1, Last: at(int64(i))})
	}
	if len(u.Failures) != actorstore.MaxFailures || u.Failed() != 100 {
		t.Errorf("%d failures of %d kinds", u.Failed(), len(u.Failures))
	}
	seen := map[string]bool{}
	for _, f := range u.Failures {
		seen[f.Code] = true
		if len(f.Place) > actorstore.MaxFailureText || f.Place != "" && f.Place != strings.Repeat("é", 32) {
			t.Errorf("place %q", f.Place)
		}
	}
	for i := 86; i < 100; i++ {
		if !seen[fmt.Sprint(i%40)] {
			t.Errorf("failure %d isn't there, of the last ones", i)
		}
	}
	if !seen[actorstore.CodeOther] {
		t.Error("the rest isn't there")
	}
	old := actorstore.Failure{Code: "old", Count: 1, Last: at(-1)}
	u.Fail(old)
	if len(u.Failures) != actorstore.MaxFailures || u.Failed() != 101 {
		t.Errorf("with an old one: %d failures of %d kinds", u.Failed(), len(u.Failures))
	}
}

// TestUsageDamaged: a row that can't be read is as good as none for everything but a check.
func TestUsageDamaged(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	use(t, a, actorstore.Usage{Turns: 2}, nil)
	must(t, a.Close())
	key := layout.RecordKey(layout.ID(a.ID()), layout.PartUsage)
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(key, []byte{1, 0, 9})}}))
	if got := problems(t, s); len(got) != 1 || got[0].Where != "usage" {
		t.Errorf("problems: %v", got)
	}
	a = openActor(t, s)
	use(t, a, actorstore.Usage{Turns: 1}, nil)
	if got := usage(t, s, a.ID()); got.Turns != 1 {
		t.Errorf("got %+v", got)
	}
	if got := problems(t, s); len(got) > 0 {
		t.Errorf("problems: %v", got)
	}
	must(t, a.Close())
	must(t, s.Close())
}

// TestFailureText: a text that isn't UTF-8 doesn't make the row unreadable.
func TestFailureText(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	for range 2 {
		use(t, a, actorstore.Usage{Turns: 1, Failures: []actorstore.Failure{{Code: "a\xff", Place: "\x80" + strings.Repeat("é", 40), Count: 1, Last: at(1)}}}, nil)
	}
	if got := usage(t, s, a.ID()); got.Turns != 2 || got.Failed() != 2 || len(got.Failures) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := problems(t, s); len(got) > 0 {
		t.Errorf("problems: %v", got)
	}
	must(t, a.Close())
	must(t, s.Close())
}

// TestUsageOfAnother: an actor that is dropped while another host waits for it, and is made anew by that, has used nothing.
func TestUsageOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := memkv.New()
		one, two := boot(t, below, actorstore.HostOptions{}), boot(t, below, actorstore.HostOptions{})
		a := one.take(t, nil)
		use(t, a, actorstore.Usage{Turns: 5}, nil)
		opened := make(chan *actorstore.Actor)
		go func() { opened <- two.take(t, waitFor) }()
		synctest.Wait()
		must(t, a.Drop(ctx))
		b := <-opened
		use(t, b, actorstore.Usage{Turns: 1}, nil)
		if got := usage(t, two.Store, testID); got.Turns != 1 {
			t.Errorf("it has run %d turns", got.Turns)
		}
	})
}

// TestUsageForEver: what clocks that jump make of the time awake can be read again.
func TestUsageForEver(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	for range 3 {
		use(t, a, actorstore.Usage{Turns: 1, Awake: 250 * 365 * 24 * time.Hour}, nil)
	}
	if got := usage(t, s, a.ID()); got.Turns != 3 || got.Awake < 100*365*24*time.Hour {
		t.Errorf("got %+v", got)
	}
	if got := problems(t, s); len(got) > 0 {
		t.Errorf("problems: %v", got)
	}
	must(t, a.Close())
	must(t, s.Close())
}
