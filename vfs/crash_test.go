package vfs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/vfs"
)

// An ack is a state of the database that its user was told is safe.
type ack struct {
	state string
	after int // commits on the tape by then
}

// TestCrash stops every case after every engine commit and opens what is left:
// it must be a state of the database that was committed, not older than the last
// that was acknowledged. The same when the recovery itself is cut off.
func TestCrash(t *testing.T) {
	t.Parallel()
	points, cases := 0, allCrashCases()
	second, least := testkit.Pick(1, 3, 16), testkit.Pick(60, 1000, 2000)
	ran, step := 0, testkit.Pick(12, 1, 1)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ran++
			points += c.crash(t, step, second)
		})
	}
	t.Logf("%d crash points in %d cases", points, ran)
	if ran == len(cases) && points < least { // else -run has picked some
		t.Errorf("only %d crash points were tried, want %d", points, least)
	}
}

// crash plays the case, crashes it after every step-th commit, and returns how many points that
// were.
func (c *crashCase) crash(t *testing.T, step, second int) (points int) {
	t.Helper()
	tp, acks := c.run(t)
	rng := rand.New(rand.NewPCG(1, uint64(len(c.name))))
	for n := acks[0].after; n <= tp.Len(); n += step {
		points += c.crashAt(t, crash{tp, n, second, rng}, allowed(tp, acks, n))
	}
	return points
}

// A crash is one on a tape after some commits, whose recovery is cut off as well.
type crash struct {
	tp     *engines.Tape
	n      int
	second int // how often, at most
	rng    *rand.Rand
}

// crashAt opens what x leaves, which must be one of the states wanted, and returns how
// many points that were.
func (c *crashCase) crashAt(t *testing.T, x crash, want []string) (points int) {
	t.Helper()
	recovered := x.tp.At(t, x.n)
	checkState(t, recovered, c.limits, want, fmt.Sprintf("after commit %d of %d", x.n, x.tp.Len()))
	// No cut twice, and none before the recovery has done anything: that is the
	// point above.
	cuts := x.rng.Perm(max(recovered.Len()-1, 0))
	cuts = cuts[:min(x.second, len(cuts))]
	for _, m := range cuts {
		m++
		again := recovered.At(t, m)
		checkState(t, again, c.limits, want, fmt.Sprintf("after commit %d, recovery cut after %d", x.n, m))
	}
	return 1 + len(cuts)
}

// run plays the case and returns the tape and the acknowledged states, first the
// one of the beginning. Each step must take what the case says.
func (c *crashCase) run(t *testing.T) (*engines.Tape, []ack) {
	t.Helper()
	tp := engines.NewTape()
	r := openRig(t, tp, c.limits)
	db := r.open(t, &vfs.Options{Pragmas: c.pragmas, TxMemory: c.txMemory})
	conn := oneConn(t, db)
	for _, s := range c.setup {
		exec(t, conn, s)
	}
	acks := []ack{{contentOf(t, conn), tp.Len()}}
	for _, s := range c.steps {
		before := tp.Len()
		exec(t, conn, s.sql)
		acks = append(acks, ack{contentOf(t, conn), tp.Len()})
		// Where the environment sets another limit, the same steps take other ways.
		if got := tookFrom(tp, before, c.limits); got != s.took && rig.Limits(t, c.limits) == c.limits {
			t.Errorf("%s: took %+v, want %+v", s.sql, got, s.took)
		}
	}
	intact(t, conn)
	return tp, acks
}

// allowed returns the states that a crash may leave when the first n commits
// are what is left of the tape: from the newest that was acknowledged before the
// next durable commit, to the next one, whose transaction may have been under way.
func allowed(tp *engines.Tape, acks []ack, n int) []string {
	next := n // commits from here to the next durable one may have been lost
	for _, c := range tp.Commits(n) {
		if c.Durable {
			break
		}
		next++
	}
	low, high := 0, 0
	for i, a := range acks {
		if a.after <= next {
			low = i
		}
		if a.after < n || i == 0 {
			high = i
		}
	}
	var states []string
	for i := low; i <= min(max(low, high+1), len(acks)-1); i++ {
		states = append(states, acks[i].state)
	}
	return states
}

// checkState opens the store and compares what SQLite finds in it.
func checkState(t *testing.T, tp *engines.Tape, limits batch.Limits, want []string, where string) {
	t.Helper()
	r := openRig(t, tp, limits)
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	got := contentOf(t, db)
	if !slices.Contains(want, got) {
		t.Errorf("%s: the database holds %.60s, want one of %.60q", where, got, want)
	}
	intact(t, db)
	exec(t, db, "create table if not exists after_crash(a)")
	intact(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if used, counted := r.Actor.Used(), rig.Counted(t, r.Actor); used != counted {
		t.Errorf("%s: the actor believes %d bytes are used, its keys hold %d", where, used, counted)
	}
	for e, err := range r.Actor.List(t.Context(), actorstore.ListOptions{Prefix: []byte{actorstore.NamespaceSQLite, 1, 1}, KeysOnly: true}) {
		t.Errorf("%s: %s is left, %v", where, actorstore.Describe(e.Key), err)
	}
	sound(t, r, where)
	if err := r.Actor.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Store.Close(); err != nil {
		t.Error(err)
	}
	if err := tp.Close(); err != nil {
		t.Errorf("%s: %v", where, err)
	}
}

// testTTL is the lease of a rig's store: short, so that another one has its actor soon.
const testTTL = 60 * time.Millisecond

// openRig opens the actor of a store that may have a history. It takes over the actor if another
// host has it.
func openRig(t *testing.T, engine kv.Engine, limits batch.Limits) *fixture {
	t.Helper()
	store, err := actorstore.Open(t.Context(), engine, &actorstore.Options{
		Limits: rig.Limits(t, limits), Host: actorstore.HostOptions{TTL: testTTL},
	})
	if err != nil {
		t.Fatal(err)
	}
	actor, err := store.Named(t.Context(), "lobby", &actorstore.ActorOptions{Force: true, Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{rig.Rig{Store: store, Actor: actor}}
}

// contentOf returns what SQL can see, as far as the cases change it: of each blob its length, its beginning,
// its middle and its end.
func contentOf(t *testing.T, db queryer) string {
	t.Helper()
	content, err := tryContent(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func tryContent(ctx context.Context, db queryer) (content string, err error) {
	var tables int
	err = db.QueryRowContext(ctx, "select count(*) from sqlite_schema where name = 't'").Scan(&tables)
	if err != nil || tables == 0 {
		return "no table", err
	}
	err = db.QueryRowContext(ctx, `select count(*) || ' ' || coalesce(sum(a), 0)
		|| ' ' || coalesce(group_concat(length(b) || hex(substr(b, 1, 16) || substr(b, length(b) / 2, 16) || substr(b, -16))), '')
		|| ' ' || (select group_concat(name) from sqlite_schema where name <> 'after_crash') from t`).Scan(&content)
	return content, err
}
