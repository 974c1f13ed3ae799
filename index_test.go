package greenroom_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/attributes"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/tuple"
	"github.com/greenroomdb/greenroom/workflow"
)

// indexRows and builtRow are where the index lies, and how far it is built.
var (
	indexRows = tuple.Tuple{"greenroom", int64(1), int64(6)}.Pack()
	builtRow  = tuple.Tuple{"greenroom", int64(1), int64(7)}.Pack()
)

// A taped is a store on an engine that keeps its commits.
type taped struct {
	*testing.T
	tape  *engines.Tape
	store *greenroom.Store
}

func newTaped(t *testing.T) *taped {
	t.Helper()
	tape := engines.NewTape()
	store, err := greenroom.New(ctx, tape, nil)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return &taped{t, tape, store}
}

// written returns how many rows of the index fn writes or removes.
func (s *taped) written(fn func()) (n int) {
	s.Helper()
	before := s.tape.Len()
	fn()
	for _, c := range s.tape.Commits(before) {
		for _, op := range c.Ops {
			if bytes.HasPrefix(op.Key, indexRows) {
				n++
			}
		}
	}
	return n
}

// found returns the names of the actors that opts selects.
func found(t *testing.T, s *greenroom.Store, opts greenroom.ActorsOptions) (names []string) {
	t.Helper()
	for info, err := range s.Actors(ctx, &opts) {
		must(t, err)
		names = append(names, info.Name)
	}
	return names
}

func (s *taped) want(what string, opts greenroom.ActorsOptions, want ...string) {
	s.Helper()
	if got := found(s.T, s.store, opts); !slices.Equal(got, want) {
		s.Errorf("%s: found %q, want %q", what, got, want)
	}
}

// wantSound: the index says what the attributes of the actors do, and these follow from what the actors store.
func wantSound(t *testing.T, s *greenroom.Store, what string) {
	t.Helper()
	for f, err := range s.Lower().Check(ctx) {
		t.Errorf("%s: %+v, %v", what, f, err)
	}
	for id, err := range s.Lower().IDs(ctx) {
		must(t, err)
		v, err := s.Lower().View(ctx, id)
		must(t, err)
		if want, wrong, err := attributes.Wrong(ctx, v); wrong || err != nil {
			t.Errorf("%s: %s has %+v, and stores %+v, %v", what, v.Info().Name, v.Info().Attributes, want, err)
		}
		must(t, v.Close())
	}
}

func (s *taped) actor(name string) *greenroom.Actor {
	s.Helper()
	a, err := s.store.Actor(ctx, name, nil)
	must(s.T, err)
	s.Cleanup(func() { must(s.T, a.Close()) })
	return a
}

// TestLabel: an actor is found by its labels from the commit on that sets them, and a commit that changes none writes none.
func TestLabel(t *testing.T) {
	s := newTaped(t)
	a := s.actor("room/1")
	label := func(key, value string) func() {
		return func() {
			must(t, a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Label(key, value) }))
		}
	}
	for _, step := range []struct {
		what string
		do   func()
		rows int
	}{
		{"the first one, of an actor that is new", label("customer", "42"), 1},
		{"the same once more", label("customer", "42"), 0},
		{"another value", label("customer", "43"), 2},
		{"another key", label("plan", "gold"), 1},
		{"none that is there", label("city", ""), 0},
		{"something else", func() {
			must(t, a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte("v")) }))
		}, 0},
		{"a transaction that fails", func() {
			err := a.Update(ctx, func(tx *greenroom.Tx) error {
				must(t, tx.Label("plan", "none"))
				return errors.New("no")
			})
			if err == nil {
				t.Error("it didn't fail")
			}
		}, 0},
		{"one that is removed", label("plan", ""), 1},
	} {
		if n := s.written(step.do); n != step.rows {
			t.Errorf("%s: %d rows of the index were written, want %d", step.what, n, step.rows)
		}
	}
	s.want("by customer", greenroom.ActorsOptions{Labels: map[string]string{"customer": "43"}}, "room/1")
	s.want("by the customer before", greenroom.ActorsOptions{Labels: map[string]string{"customer": "42"}})
	s.want("by what was removed", greenroom.ActorsOptions{Labels: map[string]string{"plan": "gold"}})
	wantSound(t, s.store, "labels")
}

// TestLabelRefused: labels that are too large, too many or no text are refused, and nothing of their transaction lands.
func TestLabelRefused(t *testing.T) {
	s := newTaped(t)
	a := s.actor("room/1")
	for name, set := range map[string]func(tx *greenroom.Tx) error{
		"no key":       func(tx *greenroom.Tx) error { return tx.Label("", "v") },
		"a long key":   func(tx *greenroom.Tx) error { return tx.Label(strings.Repeat("k", actorstore.MaxLabelKey+1), "v") },
		"a long value": func(tx *greenroom.Tx) error { return tx.Label("k", strings.Repeat("v", actorstore.MaxLabelValue+1)) },
		"no text":      func(tx *greenroom.Tx) error { return tx.Label("k", "\xff") },
		"too many": func(tx *greenroom.Tx) error {
			for i := range actorstore.MaxLabels + 1 {
				if err := tx.Label(fmt.Sprint(i), "v"); err != nil {
					return fmt.Errorf("number %d was refused: %w", i, err)
				}
			}
			return nil
		},
	} {
		err := a.Update(ctx, func(tx *greenroom.Tx) error {
			must(t, tx.Put([]byte("k"), []byte("v")))
			return set(tx)
		})
		if !errors.Is(err, actorstore.ErrLabel) || strings.Contains(err.Error(), "was refused") {
			t.Errorf("%s: got %v, want %v", name, err, actorstore.ErrLabel)
		}
	}
	s.want("nothing", greenroom.ActorsOptions{})
	label := func(tx *greenroom.Tx) error { return tx.Label("k", "v") }
	must(t, a.Update(ctx, label))
	s.want("afterwards", greenroom.ActorsOptions{Labels: map[string]string{"k": "v"}}, "room/1")
}

// TestSchema: an actor is found by the PRAGMA user_version of its database.
func TestSchema(t *testing.T) {
	s := newTaped(t)
	a := s.actor("room/1")
	exec := func(statements ...string) func() {
		return func() {
			must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
				for _, q := range statements {
					if _, err := tx.Exec(q); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	for _, step := range []struct {
		what string
		do   func()
		rows int
	}{
		{"a table", exec("create table t(a)"), 0},
		{"a version", exec("create table u(a)", "pragma user_version = 3"), 1},
		{"rows", exec("insert into t values(1)", "insert into u values(2)"), 0},
		{"the next version", exec("pragma user_version = 4"), 2},
		{"the pool", func() {
			_, err := a.SQL().ExecContext(ctx, "pragma user_version = 7")
			must(t, err)
		}, 2},
	} {
		if n := s.written(step.do); n != step.rows {
			t.Errorf("%s: %d rows of the index were written, want %d", step.what, n, step.rows)
		}
	}
	s.want("below 7", greenroom.ActorsOptions{SchemaBelow: 7})
	s.want("below 8", greenroom.ActorsOptions{SchemaBelow: 8}, "room/1")
	wantSound(t, s.store, "a schema")
}

// steps is a workflow of some steps, which pauses if its input is negative.
func steps(c *workflow.Context, n int) (int, error) {
	for i := range max(n, -n) {
		if err := workflow.Do(c, fmt.Sprintf("step %d", i), func(context.Context) error { return nil }); err != nil {
			return 0, err
		}
	}
	if n >= 0 {
		return n, nil
	}
	return n, workflow.DoWith(c, "pause", &workflow.StepOptions{MaxAttempts: 1, Pause: true}, func(context.Context) error { return errors.New("no") })
}

// TestWorkflowFound: an actor is found by the state of its workflow, and steps that leave it as it is write no row of the index.
func TestWorkflowFound(t *testing.T) {
	s := newTaped(t)
	rows := map[int]int{}
	for _, n := range []int{1, 20} {
		a := s.actor(fmt.Sprintf("order/%02d", n))
		rows[n] = s.written(func() {
			_, err := greenroom.RunWorkflow(ctx, a, steps, n)
			must(t, err)
		})
	}
	if rows[1] != rows[20] || rows[1] == 0 || rows[1] > 5 {
		t.Errorf("%v rows of the index were written for workflows of so many steps", rows)
	}
	a := s.actor("order/stuck")
	w, err := greenroom.OpenWorkflow(ctx, a, steps, nil)
	must(t, err)
	must(t, w.Start(ctx, -1))
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error)
	go func() {
		_, err := w.Live(one)
		ended <- err
	}()
	for len(found(t, s.store, greenroom.ActorsOptions{Stuck: true})) == 0 {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	s.want("stuck", greenroom.ActorsOptions{Stuck: true}, "order/stuck")
	s.want("asleep", greenroom.ActorsOptions{Workflow: []string{"sleeping"}}, "order/stuck")
	s.want("over", greenroom.ActorsOptions{Workflow: []string{"completed"}, Order: actorstore.OrderName}, "order/01", "order/20")
	must(t, w.Cancel(ctx))
	<-ended
	s.want("cancelled", greenroom.ActorsOptions{Workflow: []string{"cancelled"}}, "order/stuck")
	s.want("stuck no more", greenroom.ActorsOptions{Stuck: true})
	must(t, w.Close())
	wantSound(t, s.store, "workflows")
	for n := range s.tape.Len() + 1 { // a crash after each commit
		tape := s.tape.At(t, n)
		store, err := greenroom.New(ctx, tape, &greenroom.Options{ReadOnly: true})
		must(t, err)
		wantSound(t, store, fmt.Sprintf("after %d commits", n))
		must(t, store.Close())
	}
}

// TestForkFound: a fork is found by what the actor is found by that it was made of.
func TestForkFound(t *testing.T) {
	s := newTaped(t)
	a := s.actor("room/1")
	must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("pragma user_version = 2"); err != nil {
			return err
		}
		return tx.Label("customer", "42")
	}))
	must(t, s.store.Fork(ctx, "room/1", "room/2"))
	s.want("by label", greenroom.ActorsOptions{Labels: map[string]string{"customer": "42"}, Order: actorstore.OrderName}, "room/1", "room/2")
	s.want("by schema", greenroom.ActorsOptions{SchemaBelow: 3, Order: actorstore.OrderName}, "room/1", "room/2")
	must(t, s.store.Drop(ctx, "room/2"))
	s.want("by label, of those left", greenroom.ActorsOptions{Labels: map[string]string{"customer": "42"}}, "room/1")
	wantSound(t, s.store, "a fork")
}

// TestBuildIndex: a store from an older version is indexed, also if that is interrupted, with actors that are open and those
// that aren't.
func TestBuildIndex(t *testing.T) {
	s := newTaped(t)
	for i := range 12 {
		a, err := s.store.Actor(ctx, fmt.Sprintf("order/%02d", i), nil)
		must(t, err)
		if i%3 == 0 {
			_, err := greenroom.RunWorkflow(ctx, a, steps, 1)
			must(t, err)
		}
		must(t, a.Update(ctx, func(tx *greenroom.Tx) error {
			_, err := tx.Enqueue(queue.Send{Name: "m"})
			if err == nil && i%4 == 0 {
				_, err = tx.Exec("pragma user_version = 5")
			}
			return err
		}))
		must(t, a.Close())
	}
	searches := map[string]greenroom.ActorsOptions{
		"by state":  {Workflow: []string{"completed"}, Order: actorstore.OrderSchema},
		"by schema": {SchemaBelow: 9},
	}
	want := map[string][]string{}
	for what, o := range searches {
		if want[what] = found(t, s.store, o); len(want[what]) == 0 {
			t.Fatalf("nothing is found %s", what)
		}
	}
	must(t, s.store.Close())
	old := s.tape.At(t, s.tape.Len())
	asBefore(t, old)
	store, err := greenroom.New(ctx, old, nil)
	must(t, err)
	defer func() { must(t, store.Close()) }()
	for what, o := range searches {
		for _, err := range store.Actors(ctx, &o) {
			if !errors.Is(err, actorstore.ErrNotIndexed) {
				t.Errorf("%s, before: got %v, want %v", what, err, actorstore.ErrNotIndexed)
			}
		}
	}
	if n := len(found(t, store, greenroom.ActorsOptions{Prefix: "order/"})); n != 12 {
		t.Errorf("by name, before: %d actors", n)
	}
	a, err := store.Actor(ctx, "order/03", nil)
	must(t, err)
	defer func() { must(t, a.Close()) }()
	for range 3 {
		one, cancel := context.WithCancel(ctx)
		cancel()
		if err := store.BuildIndex(one); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: got %v", err)
		}
	}
	must(t, store.BuildIndex(ctx))
	must(t, store.BuildIndex(ctx)) // which has nothing to do
	for what, o := range searches {
		if got := found(t, store, o); !reflect.DeepEqual(got, want[what]) {
			t.Errorf("%s: found %q, want %q", what, got, want[what])
		}
	}
	wantSound(t, store, "built")
}

// TestRepairIndex mends an index that doesn't say what the actors do.
func TestRepairIndex(t *testing.T) {
	s := newTaped(t)
	a := s.actor("room/1")
	must(t, a.Update(ctx, func(tx *greenroom.Tx) error { return tx.Label("customer", "42") }))
	must(t, a.Update(ctx, func(tx *greenroom.Tx) error { _, err := tx.Exec("pragma user_version = 2"); return err }))
	var rows [][]byte
	for e, err := range s.tape.Scan(ctx, kv.Range{Start: indexRows, End: kv.PrefixEnd(indexRows)}) {
		must(t, err)
		rows = append(rows, bytes.Clone(e.Key))
	}
	stray := append(bytes.Clone(rows[0][:len(rows[0])-1]), 9) // another actor's
	must(t, s.tape.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(rows[0]), kv.Set(stray, nil), kv.Set(bytes.Replace(rows[0], []byte("42"), []byte("43"), 1), nil)}}))
	var words []string
	for f, err := range s.store.Lower().Check(ctx) {
		must(t, err)
		words = append(words, f.What)
	}
	if said := strings.Join(words, "; "); len(words) != 3 || !strings.Contains(said, "the index of the store doesn't have the label") || !strings.Contains(said, ", which the actor doesn't") {
		t.Errorf("the check says %q", words)
	}
	actors, n, err := s.store.RepairIndex(ctx)
	if actors != 0 || n != 3 || err != nil {
		t.Errorf("repaired %d actors and %d rows, %v", actors, n, err)
	}
	s.want("by label", greenroom.ActorsOptions{Labels: map[string]string{"customer": "42"}}, "room/1")
	wantSound(t, s.store, "repaired")
}
