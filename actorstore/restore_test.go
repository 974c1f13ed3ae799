package actorstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// The keys of a host in these tests.
var (
	account = []byte("hs")
	letter  = []byte("ho\x00\x00\x00\x00\x00\x00\x00\x01")
	seen    = []byte("hi" + strings.Repeat("\x01", 18))
	seen2   = []byte("hi" + strings.Repeat("\x02", 18))
	socket  = []byte("hg" + strings.Repeat("\x00", 16))
)

// note stores a note; "" removes one.
func note(t testing.TB, a *actorstore.Actor, key, value string) {
	t.Helper()
	var b batch.Batch
	stageNote(t, a, &b, key, value)
	must(t, a.Commit(ctx, &b))
}

// TestRestore: an actor becomes what it was, in one commit, but for what is about itself.
func TestRestore(t *testing.T) {
	onEngines(t, func(t *testing.T, below kv.Engine) {
		eng := faultkv.New(below)
		limits := smallForks
		limits.AtomicBatches = envlimits.Unlimited
		s := openStore(t, eng, limits)
		a := openActor(t, s)
		want := fill(t, a, 30)
		note(t, a, "\x05same", "x")
		note(t, a, "\x05other", "then")
		note(t, a, "\x05gone", "then")
		for _, key := range [][]byte{account, letter, seen, seen2, socket} {
			must(t, a.Put(ctx, key, []byte("then")))
		}
		label(t, a, "then", 7)
		from, err := a.Snapshot(ctx)
		must(t, err)
		defer func() { must(t, from.Close()) }()

		for _, key := range [][]byte{account, seen, []byte("ho\x00\x00\x00\x00\x00\x00\x00\x02"), {actorstore.NamespaceInspector}, actorstore.AppendPersist(nil), user("key 3"), user("new")} {
			must(t, a.Put(ctx, key, []byte("now")))
		}
		must(t, a.DeleteRange(ctx, user("key 5"), user("key 7")))
		must(t, a.Delete(ctx, letter))
		must(t, a.Delete(ctx, seen2))
		note(t, a, "\x05other", "now")
		note(t, a, "\x05gone", "")
		note(t, a, "\x05new", "now")
		label(t, a, "now", 8)
		must(t, a.SetWake(ctx, actorstore.Wake{At: at(5)}))

		before, commits, read := a.Seq(), eng.Counts().Commits, int64(0)
		must(t, (&actorstore.Restoration{From: from, Progress: func(n int64) { read = n }}).Apply(ctx, a))
		if n := eng.Counts().Commits - commits; n != 1 {
			t.Errorf("%d engine commits", n)
		}
		want[string(account)], want[string(seen)], want["ho\x00\x00\x00\x00\x00\x00\x00\x02"] = "now", "now", "now"
		want[string([]byte{actorstore.NamespaceInspector})] = "now"
		wantContent(t, s, testID, want)
		if got, want := notes(t, a, ""), []string{"\x05gone=then", "\x05other=then", "\x05same=x"}; !slices.Equal(got, want) {
			t.Errorf("notes %q, want %q", got, want)
		}
		if at := a.Attributes(); at.Labels["state"] != "then" || at.Slept.UnixMilli() != 8 {
			t.Errorf("it is found by %+v", at)
		}
		if a.Seq() != before+1 || read > a.Used() {
			t.Errorf("commit %d after %d; %d bytes were compared of %d", a.Seq(), before, read, a.Used())
		}
		if got := indexed(t, s, never); len(got) > 0 {
			t.Errorf("it is to be woken: %q", got)
		}
		if found := problems(t, s); len(found) > 0 {
			t.Errorf("%v", found)
		}
		// Once more there is nothing to write but when it is woken.
		commits = eng.Counts().Commits
		must(t, (&actorstore.Restoration{From: from}).Apply(ctx, a))
		if n := eng.Counts().Commits - commits; n != 0 {
			t.Errorf("%d engine commits for nothing", n)
		}
		must(t, (&actorstore.Restoration{From: from, Wake: true}).Apply(ctx, a))
		if got := indexed(t, s, never); len(got) != 1 || !strings.HasSuffix(got[0], ": 0") {
			t.Errorf("it is to be woken: %q", got)
		}
	})
}

// label labels an actor, and says when it fell asleep, in ms.
func label(t testing.TB, a *actorstore.Actor, value string, slept int64) {
	t.Helper()
	var b batch.Batch
	a.StageAttributes(&b, func(at *actorstore.Attributes) error {
		at.Labels = map[string]string{"state": value}
		at.Slept = time.UnixMilli(slept)
		return nil
	})
	must(t, a.Apply(ctx, &b))
}

// TestRestoreRandom: whatever an actor has become, it is what it was.
func TestRestoreRandom(t *testing.T) {
	s := openStore(t, memkv.New(), anyBatches)
	a := openActor(t, s)
	rnd := rand.New(rand.NewPCG(3, 5))
	change := func() {
		for range 1 + rnd.IntN(40) {
			key := user(fmt.Sprint(rnd.IntN(60)))
			switch rnd.IntN(4) {
			case 0:
				must(t, a.Delete(ctx, key))
			case 1:
				must(t, a.DeleteRange(ctx, key, user(fmt.Sprint(rnd.IntN(60))+"~")))
			default:
				must(t, a.Put(ctx, key, bytes.Repeat([]byte{byte(rnd.IntN(3))}, rnd.IntN(3)*9_000)))
			}
		}
	}
	type state struct {
		snap *actorstore.Snapshot
		want map[string]string
	}
	must(t, a.Put(ctx, user("x"), nil))
	var states []state
	for range 60 {
		change()
		snap, err := a.Snapshot(ctx)
		must(t, err)
		states = append(states, state{snap, holds(t, a)})
		back := states[rnd.IntN(len(states))]
		must(t, (&actorstore.Restoration{From: back.snap}).Apply(ctx, a))
		wantContent(t, s, testID, back.want)
	}
	for _, st := range states {
		must(t, st.snap.Close())
	}
}

// TestRestoreRefused: after an error the actor is as it was.
func TestRestoreRefused(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, anyBatches)
	a := openActor(t, s)
	fill(t, a, 3)
	from, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, from.Close()) }()
	must(t, a.Put(ctx, user("key 1"), make([]byte, 5000)))
	must(t, a.Put(ctx, user("key 2"), []byte("now")))
	now := holds(t, a)
	refused := func(want error, from *actorstore.Snapshot, o actorstore.Restoration) {
		t.Helper()
		o.From = from
		if err := o.Apply(ctx, a); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		wantContent(t, s, testID, now)
	}
	refused(batch.ErrTooLarge, from, actorstore.Restoration{MaxBytes: 20_000})
	boom := errors.New("boom")
	refused(boom, from, actorstore.Restoration{Amend: func(context.Context, actorstore.Reader, actorstore.Reader, *batch.Batch) error { return boom }})
	refused(boom, from, actorstore.Restoration{Attributes: func(context.Context, actorstore.Reader, *actorstore.Attributes) error { return boom }})
	free, err := a.Keep(actorstore.NamespaceQueue)
	must(t, err)
	refused(actorstore.ErrKept, from, actorstore.Restoration{})
	free()

	other, err := s.Actor(ctx, actorstore.NewID(), &actorstore.ActorOptions{Layout: actorstore.LayoutRivetKit})
	must(t, err)
	none, err := other.Snapshot(ctx)
	must(t, err)
	refused(actorstore.ErrUnknownActor, none, actorstore.Restoration{})
	must(t, other.Put(ctx, user("x"), nil))
	rivet, err := other.Snapshot(ctx)
	must(t, err)
	refused(actorstore.ErrLayout, rivet, actorstore.Restoration{})
	must(t, errors.Join(none.Close(), rivet.Close(), other.Close()))

	eng.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Times: faultkv.Forever, Err: boom})
	if err := (&actorstore.Restoration{From: from}).Apply(ctx, a); !errors.Is(err, boom) {
		t.Errorf("got %v, want %v", err, boom)
	}
	eng.Heal()
	eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: errors.Join(kv.ErrNotApplied, boom)})
	refused(boom, from, actorstore.Restoration{})
	must(t, (&actorstore.Restoration{From: from}).Apply(ctx, a))
	if got, _ := get(t, a, user("key 2")); got == "now" {
		t.Error("it was not restored")
	}
}

// TestRestoreDropped: an actor that was dropped is there again, with what RivetKit's engine knew of it, as another sender and receiver of letters.
func TestRestoreDropped(t *testing.T) {
	s := openStore(t, memkv.New(), anyBatches)
	a := openActor(t, s)
	want := fill(t, a, 3)
	engine := []byte("he")
	for _, key := range [][]byte{engine, account, letter, seen, socket} {
		must(t, a.Put(ctx, key, []byte("then")))
	}
	want[string(engine)] = "then"
	from, err := a.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, from.Close()) }()
	must(t, a.Drop(ctx))
	a = openActor(t, s)
	must(t, (&actorstore.Restoration{From: from}).Apply(ctx, a))
	wantContent(t, s, testID, want)
	if found := problems(t, s); len(found) > 0 {
		t.Errorf("%v", found)
	}
}
