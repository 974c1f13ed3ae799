package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A mixed is an actor whose database and other keys are used side by side.
type mixed struct {
	engine *faultkv.Engine
	limits batch.Limits
	rig    *fixture
	db     *vfs.DB
}

// A mixedStep changes the actor in one commit, or reads it. It returns what it read.
// The same step on the same state does the same.
type mixedStep struct {
	name string
	run  func(ctx context.Context, m *mixed) (string, error)
}

// sqlStep is a step that is one statement, or a transaction of several.
func sqlStep(query string) mixedStep {
	return mixedStep{query, func(ctx context.Context, m *mixed) (string, error) {
		_, err := m.db.ExecContext(ctx, query)
		return "", err
	}}
}

func user(name string) []byte { return actorstore.UserKey([]byte(name)) }

// text is a value of n bytes, the same at each run, for n rows.
const text = "printf('%%0%dd', value)"

var mixedSteps = []mixedStep{
	{"put", func(ctx context.Context, m *mixed) (string, error) {
		return "", m.rig.Actor.Put(ctx, user("a"), []byte("1"))
	}},
	sqlStep(fmt.Sprintf("insert into t(b) select "+text+" from generate_series(1, 40)", 1500)), // appends
	{"sum", func(ctx context.Context, m *mixed) (sum string, err error) {
		err = m.db.QueryRowContext(ctx, "select count(*) || ' ' || sum(length(b)) || ' ' || max(b) from t").Scan(&sum)
		return sum, err
	}},
	sqlStep("update t set b = printf('%01500d', a * 7)"), // too large for one sub-batch
	{"two keys, synced", func(ctx context.Context, m *mixed) (string, error) {
		var b batch.Batch
		b.Put(user("a"), []byte("2"))
		b.Put(user("b"), []byte(strings.Repeat("long", 5000)))
		if err := m.rig.Actor.Apply(ctx, &b); err != nil {
			return "", err
		}
		return "", m.rig.Actor.Sync(ctx)
	}},
	sqlStep("begin; insert into t(b) values ('x'); savepoint s; delete from t; rollback to s; commit"),
	{"list", func(ctx context.Context, m *mixed) (string, error) { return userKeys(ctx, m.rig.Actor) }},
	{"get", func(ctx context.Context, m *mixed) (string, error) {
		v, err := m.rig.Actor.Get(ctx, user("a"), nil)
		return fmt.Sprintf("%.20q", v), err
	}},
	{"update with a key", func(ctx context.Context, m *mixed) (string, error) {
		return "", m.db.Update(ctx, func(tx *vfs.Tx) error {
			tx.Batch().Put(user("c"), []byte("3"))
			_, err := tx.ExecContext(ctx, "update t set b = 'short' where a % 9 = 0")
			return err
		})
	}},
	sqlStep("delete from t where a % 3 = 0"),
	{"delete keys", func(ctx context.Context, m *mixed) (string, error) {
		return "", m.rig.Actor.DeleteRange(ctx, user("a"), user("c"))
	}},
	sqlStep("vacuum"),
	{"by row", func(ctx context.Context, m *mixed) (row string, err error) {
		err = m.db.QueryRowContext(ctx, "select b from t where a = 32").Scan(&row)
		return row, err
	}},
	sqlStep("insert into t(b) values ('last')"),
}

// userKeys lists the actor's other keys.
func userKeys(ctx context.Context, r actorstore.Reader) (string, error) {
	var s strings.Builder
	for e, err := range r.List(ctx, actorstore.ListOptions{Prefix: []byte{actorstore.NamespaceUser}}) {
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&s, "%s=%.8s (%d) ", e.Key[1:], e.Value, len(e.Value))
	}
	return s.String(), nil
}

// TestFaultMixed fails every engine operation of every step once, reads too, before
// and after it applied. The error reaches the caller with its cause; the state is the
// old one or the new one; and what follows works, at once if the handle isn't
// poisoned, else when it was opened again.
func TestFaultMixed(t *testing.T) {
	t.Parallel()
	total := 0
	for name, limits := range map[string]batch.Limits{"atomic": {Entries: 8}, "one batch": oneBatch} {
		play := playMixed(t, limits)
		for _, kind := range faultKinds {
			t.Run(name+"/"+kind.name, func(t *testing.T) {
				for step := range mixedSteps {
					for nth := 1; play.fail(t, kind, step, nth); nth += testkit.Pick(57, 1, 1) {
						total++
					}
				}
			})
		}
	}
	t.Logf("%d faults", total)
}

// A mixedPlay is all steps played without a fault.
type mixedPlay struct {
	limits batch.Limits
	tape   *engines.Tape
	before []int    // how many commits are on the tape before each step
	states []string // states[i] is what the actor holds before step i
	outs   []string // what each step reads
	follow int      // how many steps follow one that failed
}

func playMixed(t *testing.T, limits batch.Limits) mixedPlay {
	t.Helper()
	play := mixedPlay{limits: limits, tape: engines.NewTape(), follow: testkit.Pick(2, 4, len(mixedSteps))}
	m := newMixed(t, play.tape, limits)
	exec(t, m.db, table)
	play.states = []string{m.state(t)}
	for _, s := range mixedSteps {
		play.before = append(play.before, play.tape.Len())
		out, err := s.run(t.Context(), m)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		play.states, play.outs = append(play.states, m.state(t)), append(play.outs, out)
	}
	if stats := m.db.Stats(); limits == oneBatch && rig.Limits(t, limits) == limits && stats.JournalCommits == 0 {
		t.Errorf("no step needed the journal: %+v", stats)
	}
	m.close(t)
	return play
}

// fail fails the nth operation of one step, and says whether there was one.
func (p *mixedPlay) fail(t *testing.T, kind faultKind, step, nth int) bool {
	t.Helper()
	m := newMixed(t, p.tape.At(t, p.before[step]), p.limits)
	states, outs := p.states, p.outs
	where := fmt.Sprintf("operation %d of %q", nth, mixedSteps[step].name)
	f := m.engine.Fail(faultkv.Rule{Point: kind.point, Skip: nth - 1, Times: kind.times, Err: kind.err})
	out, err := mixedSteps[step].run(t.Context(), m)
	f.Remove()
	if f.Hits() == 0 {
		if err != nil {
			t.Errorf("%s: %v, without a fault", where, err)
		}
		m.close(t)
		return false
	}
	if err != nil && !errors.Is(err, kind.err) && !errors.Is(m.db.Cause(), kind.err) {
		t.Errorf("%s: %v; its cause is %v", where, err, m.db.Cause())
	}
	if err == nil && out != outs[step] {
		t.Errorf("%s: read %q, want %q", where, out, outs[step])
	}
	m.recover(t, kind, where)
	// Old and new may be the same; then the step goes again.
	next := step
	got := m.state(t)
	switch {
	case got == states[step] && (err != nil || states[step] == states[step+1]):
	case got == states[step+1]:
		next++
	default:
		t.Errorf("%s: %v; the state is %.200q, which is neither %.200q nor %.200q", where, err, got, states[step], states[step+1])
		next = len(mixedSteps) + 1
	}
	end := min(len(mixedSteps), next+p.follow)
	for i := next; i < end; i++ {
		out, err := mixedSteps[i].run(t.Context(), m)
		if err != nil || out != outs[i] {
			t.Fatalf("%s: %q after it: %v; read %q, want %q", where, mixedSteps[i].name, err, out, outs[i])
		}
	}
	if got := m.state(t); got != states[end] && next <= len(mixedSteps) {
		t.Errorf("%s: the state at the end is %.200q, want %.200q", where, got, states[end])
	}
	m.close(t)
	return true
}

func newMixed(t *testing.T, engine kv.Engine, limits batch.Limits) *mixed {
	t.Helper()
	m := &mixed{engine: faultkv.New(engine), limits: limits}
	m.rig = openRig(t, m.engine, limits)
	m.open(t)
	return m
}

// open opens the database. One connection with a small cache reads all the time.
func (m *mixed) open(t *testing.T) {
	t.Helper()
	var err error
	if m.db, err = vfs.Open(t.Context(), m.rig.Actor, &vfs.Options{Pragmas: []string{"cache_size=5"}, MaxConns: 1}); err != nil {
		t.Fatal(err)
	}
}

// recover opens again what refuses to go on, and nothing else.
func (m *mixed) recover(t *testing.T, kind faultKind, where string) {
	t.Helper()
	poisoned := m.rig.Actor.Err()
	if poisoned != nil && (kind.reads() || !errors.Is(poisoned, kind.err) || !errors.Is(poisoned, actorstore.ErrPoisoned)) {
		t.Errorf("%s: the actor says %v", where, poisoned)
	}
	if healthy(t, m.db) {
		turnBack(t, m.db)
		return
	}
	if _, err := tryContent(t.Context(), m.db); err == nil {
		t.Errorf("%s: the database answers in doubt", where)
	}
	if err := m.db.Close(); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if poisoned != nil {
		m.reopen(t, kind, where)
	}
	m.open(t)
}

// reopen opens the actor again, in the same store, which must know what became of
// the commit.
func (m *mixed) reopen(t *testing.T, kind faultKind, where string) {
	t.Helper()
	if err := m.rig.Actor.Close(); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	var err error
	if m.rig.Actor, err = m.rig.Store.Named(t.Context(), "lobby", &actorstore.ActorOptions{Layout: layout}); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	want, got := kv.OutcomeApplied, kv.OutcomeUnknown
	switch kind.point {
	case faultkv.BeforeCommit:
		want = kv.OutcomeNotApplied
	case faultkv.BeforeSync:
		want = kv.OutcomeUnknown // no commit is in doubt
	}
	if d := m.rig.Actor.Doubt(); d != nil {
		got = d.Outcome
	}
	if got != want {
		t.Errorf("%s: the commit in doubt is said to be %v, want %v", where, got, want)
	}
}

// state is everything that the actor holds, less what its database needs besides.
func (m *mixed) state(t *testing.T) string {
	t.Helper()
	keys, err := userKeys(t.Context(), m.rig.Actor)
	if err != nil {
		t.Fatal(err)
	}
	return keys + digest(t, m.db)
}

// close checks what is left, and closes everything.
func (m *mixed) close(t *testing.T) {
	t.Helper()
	intact(t, m.db)
	if used, counted := m.rig.Actor.Used(), rig.Counted(t, m.rig.Actor); used != counted {
		t.Errorf("the actor believes %d bytes are used, its keys hold %d", used, counted)
	}
	sound(t, m.rig, "at the end")
	if err := errors.Join(m.db.Close(), m.rig.Actor.Close(), m.rig.Store.Close(), m.engine.Close()); err != nil {
		t.Error(err)
	}
}
