package actorstore_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// at is a time of tests, so many milliseconds after that of clock.
func at(ms int64) time.Time { return clock().Add(time.Duration(ms) * time.Millisecond) }

// say returns w as text: the milliseconds after clock, and the versions that tried.
func say(w actorstore.Wake) string {
	text := "never"
	if !w.At.IsZero() {
		text = fmt.Sprint(w.At.Sub(clock()).Milliseconds())
	}
	if len(w.Tried) > 0 {
		text += fmt.Sprintf(" tried %d", w.Tried)
	}
	return text
}

// indexed returns what the index says up to a time.
func indexed(t testing.TB, s *actorstore.Store, by time.Time) []string {
	t.Helper()
	all := []string{}
	for w, err := range s.Wakes(ctx, by, false) {
		must(t, err)
		all = append(all, w.Name+": "+say(w.Wake))
	}
	return all
}

// never is after all times of tests.
var never = clock().Add(1000 * time.Hour)

// A waker writes to the actor thing/a, and looks what is said of when it must be woken.
type waker struct {
	testing.TB
	store *actorstore.Store
	actor *actorstore.Actor
}

func newWaker(t testing.TB, s *actorstore.Store) *waker {
	t.Helper()
	a, err := s.Named(ctx, "thing/a", nil)
	must(t, err)
	return &waker{t, s, a}
}

// put commits something to be done at each of the times.
func (w *waker) put(by ...time.Time) {
	w.Helper()
	var b batch.Batch
	for _, at := range by {
		b.WakeBy(at)
	}
	b.Put(user("k"), []byte("v"))
	must(w, w.actor.Commit(ctx, &b))
}

func (w *waker) set(wake actorstore.Wake) {
	w.Helper()
	must(w, w.actor.SetWake(ctx, wake))
}

// want compares what the handle, the index and the checks say.
func (w *waker) want(want string) {
	w.Helper()
	if got := say(w.actor.Wake()); got != want {
		w.Errorf("the handle says %s, want %s", got, want)
	}
	all := []string{"thing/a: " + want}
	if want == "never" {
		all = []string{}
	}
	if got := indexed(w, w.store, never); !slices.Equal(got, all) {
		w.Errorf("the index says %q, want %q", got, all)
	}
	compare(w, want, findings(w, w.store.Check(ctx)), nil)
	compare(w, want, findings(w, w.store.CheckActor(ctx, w.actor.ID())), nil)
}

// TestWake has commits bring the time forward, and SetWake put it right.
func TestWake(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, batch.Limits{})
		w := newWaker(t, s)
		w.set(actorstore.Wake{At: at(5)}) // the actor doesn't exist yet
		w.put()
		w.want("never")
		w.put(at(5000), at(3000))
		w.want("3000")
		w.put(at(4000))
		w.want("3000")
		w.put(at(2000))
		w.want("2000")
		w.set(actorstore.Wake{At: at(7000)})
		w.want("7000")
		seq := w.actor.Seq()
		w.set(actorstore.Wake{At: at(7000)})
		if w.actor.Seq() != seq {
			t.Error("what the store says already was written once more")
		}
		w.put(at(-10)) // what is due stays as it is
		w.want("-10")
		w.put(at(-20), time.Time{})
		w.want("-10")
		w.set(actorstore.Wake{At: at(9000)})
		must(t, w.actor.WakeBy(ctx, at(9001)))
		w.want("9000")
		must(t, w.actor.Close())

		w = newWaker(t, s)
		w.want("9000")
		if got := indexed(t, s, at(8999)); len(got) != 0 {
			t.Errorf("before it is due the index says %q", got)
		}
		if got := indexed(t, s, at(9000)); len(got) != 1 {
			t.Errorf("when it is due the index says %q", got)
		}
		w.set(actorstore.Wake{})
		w.want("never")
		w.put(time.Time{})
		must(t, w.actor.Drop(ctx))
		if got := indexed(t, s, never); len(got) != 0 {
			t.Errorf("when the actor is gone the index says %q", got)
		}
	})
}

// TestWakeTried: versions that tried in vain are kept until there is something else to do at once.
func TestWakeTried(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		w := newWaker(t, openStore(t, eng, batch.Limits{}))
		w.put()
		w.set(actorstore.Wake{Tried: []uint64{7, 8}})
		w.want("never tried [7 8]")
		w.set(actorstore.Wake{At: at(9000), Tried: []uint64{8}})
		w.want("9000 tried [8]")
		w.put(at(9500))
		w.want("9000 tried [8]")
		w.put(at(8500))
		w.want("8500 tried [8]")
		w.put(at(-5))
		w.want("-5")
		if err := w.actor.SetWake(ctx, actorstore.Wake{Tried: make([]uint64, actorstore.MaxTried+1)}); err == nil {
			t.Error("too many versions were taken")
		}
		must(t, w.actor.Close())
	})
}

// TestWakeOrder: the index is in the order of time, an actor that gets a name later is in it by that, and so is
// a fork that is to be woken at once.
func TestWakeOrder(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, batch.Limits{})
		for i, ms := range []int64{300, 100, 200} {
			a, err := s.Actor(ctx, actorstore.NewID(), nil)
			must(t, err)
			var b batch.Batch
			b.Put(actorstore.LayoutGreenroom.AppendQueueMessage(nil, 1), []byte("message"))
			b.WakeBy(at(ms))
			must(t, errors.Join(a.Commit(ctx, &b), a.Close()))
			a, err = s.Actor(ctx, a.ID(), &actorstore.ActorOptions{Name: fmt.Sprint("thing/", i)})
			must(t, err)
			if i == 1 {
				must(t, forkAs(s, a, "thing/fork", false))
				must(t, forkAs(s, a, "thing/awake", true))
			}
			must(t, a.Close())
		}
		want := []string{"thing/awake: 0", "thing/1: 100", "thing/2: 200", "thing/0: 300"}
		if got := indexed(t, s, never); !slices.Equal(got, want) {
			t.Errorf("the index says %q, want %q", got, want)
		}
		compare(t, "check", findings(t, s.Check(ctx)), nil)
	})
}

func forkAs(s *actorstore.Store, a *actorstore.Actor, name string, wake bool) error {
	snap, err := a.Snapshot(ctx)
	if err != nil {
		return err
	}
	_, err = s.Fork(ctx, snap, &actorstore.ForkOptions{Name: name, Wake: wake})
	return errors.Join(err, snap.Close())
}

// TestWakeOrdered: of a batch that lands in parts the time lands with the first, so that it is never later than what is there.
func TestWakeOrdered(t *testing.T) {
	for part := range 3 {
		eng := faultkv.New(memkv.New())
		s := openStore(t, eng, batch.Limits{Entries: 1})
		a, err := s.Named(ctx, "thing/a", nil)
		must(t, err)
		must(t, a.Put(ctx, user("k"), nil))
		eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: part})
		b := batch.Batch{Mode: batch.Ordered}
		for i := range 3 {
			b.Put(user(fmt.Sprint(i)), []byte("v"))
		}
		b.WakeBy(at(1))
		if err := a.Commit(ctx, &b); err == nil {
			t.Fatal("the commit didn't fail")
		}
		_ = a.Close()
		if got := len(indexed(t, s, never)); got != min(part, 1) {
			t.Errorf("of %d parts that landed the index has %d rows", part, got)
		}
		compare(t, "check", findings(t, s.Check(ctx)), nil)
	}
}

// TestOnWake: each handle that is closed is told to all listeners in the process, with what it knew.
func TestOnWake(t *testing.T) {
	eng := memkv.New()
	s, other := openStore(t, eng, batch.Limits{}), openStore(t, eng, batch.Limits{})
	var told []string
	stop := other.OnWake(func(w actorstore.Waking, lost error) {
		told = append(told, fmt.Sprint(w.Name, ": ", say(w.Wake), ", ", errors.Is(lost, actorstore.ErrFenced)))
	})
	a, err := s.Named(ctx, "thing/a", nil)
	must(t, err)
	var b batch.Batch
	b.WakeBy(at(1))
	b.Put(user("k"), nil)
	must(t, errors.Join(a.Commit(ctx, &b), a.Close()))
	a, err = s.Named(ctx, "thing/a", nil)
	must(t, err)
	next, err := other.Named(ctx, "thing/a", nil)
	must(t, err)
	must(t, errors.Join(a.Close(), next.SetWake(ctx, actorstore.Wake{}), next.Close()))
	stop()
	a, err = s.Named(ctx, "thing/a", nil)
	must(t, errors.Join(err, a.Close()))
	want := []string{"thing/a: 1, false", "thing/a: 1, true", "thing/a: never, false"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestWakeGolden holds the bytes of both rows.
func TestWakeGolden(t *testing.T) {
	eng := memkv.New()
	s := openStore(t, eng, batch.Limits{})
	a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "a/b"})
	must(t, err)
	must(t, a.Put(ctx, user("k"), nil))
	for _, tt := range []struct {
		wake       actorstore.Wake
		row, index string
	}{
		{
			actorstore.Wake{At: time.UnixMilli(0x0102)},
			"0100" + "0201000000000000" + "0201000000000000" + "00",
			"0100" + "0201000000000000" + "03612f62" + "00" + strings.Repeat("00", 16) + "00",
		},
		{
			actorstore.Wake{Tried: []uint64{1, 0x0203}},
			"0100" + "0068e5cf8b010000" + "ffffffffffffff7f" + "02" + "0100000000000000" + "0302000000000000",
			"0100" + "ffffffffffffff7f" + "03612f62" + "00" + strings.Repeat("00", 16) + "02" + "0100000000000000" + "0302000000000000",
		},
	} {
		must(t, a.SetWake(ctx, tt.wake))
		row, err := eng.Get(ctx, layout.RecordKey(layout.ID(testID), layout.PartWake), nil)
		must(t, err)
		if got := hex.EncodeToString(row); got != tt.row {
			t.Errorf("%s: the row is %s, want %s", say(tt.wake), got, tt.row)
		}
		start, end := layout.RowsRange(layout.KindWake)
		for e, err := range eng.Scan(ctx, kv.Range{Start: start, End: end}) {
			must(t, err)
			if got := hex.EncodeToString(e.Value); got != tt.index {
				t.Errorf("%s: the index has %s, want %s", say(tt.wake), got, tt.index)
			}
		}
	}
	must(t, a.Close())
}

// TestWakeDamaged: rows that can't be read, or say two things, are found, and nothing is guessed of them.
func TestWakeDamaged(t *testing.T) {
	const who = "actor t5jodb1xoonnf1v789m7x32f1s3540: "
	row := func(ms int64) []byte { return (&layout.Wake{Look: ms, At: ms}).Append(nil) }
	key := func(ms int64) []byte { return layout.WakeKey(ms, layout.ID(testID)) }
	for _, tt := range []struct {
		op   kv.Op
		find string
		want error
	}{
		{kv.Set(layout.RecordKey(layout.ID(testID), layout.PartWake), []byte{2, 0}), "time to be woken: it is of version 2, known are versions up to 1", actorstore.ErrNewerFormat},
		{kv.Set(layout.RecordKey(layout.ID(testID), layout.PartWake), row(1)[:9]), "time to be woken: it can't be read", actorstore.ErrCorrupt},
		{kv.Set(layout.RecordKey(layout.ID(testID), layout.PartWake), row(8)), "time to be woken: the index of the store doesn't have it", nil},
		{kv.Clear(layout.RecordKey(layout.ID(testID), layout.PartWake)), "the index has a time to wake the actor that the actor doesn't", nil},
		{kv.Clear(key(5)), "time to be woken: the index of the store doesn't have it", nil},
		{kv.Set(key(5), []byte{2, 0}), "it is of version 2, known are versions up to 1", nil},
		{kv.Set(key(6), []byte{1, 0}), "it can't be read", nil},
	} {
		eng := memkv.New()
		s := openStore(t, eng, batch.Limits{})
		a, err := s.Actor(ctx, testID, nil)
		must(t, err)
		var b batch.Batch
		b.Put(user("k"), nil)
		b.WakeBy(time.UnixMilli(5))
		must(t, errors.Join(a.Commit(ctx, &b), a.Close()))
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{tt.op}}))
		if fs := findings(t, s.Check(ctx)); len(fs) == 0 || !strings.HasPrefix(fs[0], who) || !strings.Contains(strings.Join(fs, "\n"), tt.find) {
			t.Errorf("found %q, want %s", fs, tt.find)
		}
		_, err = s.View(ctx, testID)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: View: %v", tt.find, err)
		}
	}
}
