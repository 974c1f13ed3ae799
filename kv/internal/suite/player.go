package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Replay runs a script on an empty engine and on the oracle, and returns an error that names the first line at which
// they differ. The random tests print what they did as such a script. Each line is
//
//	NAME: STEP; STEP; …
//
// (see Step), where NAME is engine, a snapshot once its step open was done, or a transaction once its step begin was.
// The engine's own writes and checks are collected and applied by its step commit.
//
// A transaction's first read pins its state, and must be of a key that it hasn't written. After every commit of one
// the whole state is compared, and whether there was a conflict: on an engine that is txn.Exact always, on others
// where what was read has another value.
func Replay(eng kv.Engine, script string) error {
	p := NewPlayer(eng)
	for i, line := range strings.Split(strings.TrimSpace(script), "\n") {
		if err := p.Play(strings.TrimSpace(line)); err != nil {
			return errors.Join(fmt.Errorf("line %d, %s: %w", i+1, line, err), p.Close())
		}
	}
	return p.Close()
}

// A Player runs the lines of a script, see Replay.
type Player struct {
	eng    kv.Engine
	db     *txn.DB // nil without a transaction yet
	oracle oracle
	actors map[string]*actor
	// Conflicts counts those that were wanted and found.
	Conflicts int
}

// An actor is what has a name in a script, with its oracle.
type actor struct {
	reader kv.Reader
	snap   kv.Snapshot // nil for others
	tx     *txn.Tx     // nil for others
	txs    oracleTx
	state  Model   // what is read, if not by a transaction
	writes []*Step // what the engine's next commit applies and checks
}

// NewPlayer returns one for an empty engine.
func NewPlayer(eng kv.Engine) *Player {
	p := &Player{eng: eng, oracle: oracle{state: Model{}}, actors: map[string]*actor{}}
	p.actors["engine"] = &actor{reader: eng, state: p.oracle.state}
	return p
}

// Close ends what the script left open.
func (p *Player) Close() error {
	var errs []error
	for _, a := range p.actors {
		errs = append(errs, a.end())
	}
	return errors.Join(errs...)
}

func (a *actor) end() error {
	if a.tx != nil {
		a.tx.Cancel()
	}
	if a.snap != nil {
		return a.snap.Close()
	}
	return nil
}

// Play runs one line.
func (p *Player) Play(line string) error {
	name, text, _ := strings.Cut(line, ": ")
	steps, err := Parse(text)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := p.step(name, s); err != nil {
			return err
		}
	}
	return nil
}

func (p *Player) step(name string, s *Step) (err error) {
	a := p.actors[name]
	switch {
	case s.Verb == "begin" || s.Verb == "open":
		p.actors[name], err = p.open(s.Verb)
		return err
	case a == nil:
		return fmt.Errorf("there is no %q", name)
	case s.Verb == "commit" && a.tx == nil:
		return p.apply(a, s.Durable)
	case s.Verb == "commit":
		delete(p.actors, name)
		return p.commit(a, s.Saw)
	case s.Verb == "cancel" || s.Verb == "close":
		delete(p.actors, name)
		return a.end()
	case a.tx == nil && (s.Writes() || s.Verb == "is" || s.Verb == "absent"):
		a.writes = append(a.writes, s)
		return nil
	}
	return a.do(s)
}

// open begins a transaction, or opens a snapshot.
func (p *Player) open(verb string) (*actor, error) {
	if verb == "open" {
		s, err := p.eng.Snapshot(context.Background())
		return &actor{reader: s, snap: s, state: p.oracle.state.Clone()}, err
	}
	if p.db == nil {
		db, err := txn.New(p.eng, &txn.Options{MaxAge: time.Hour})
		if err != nil {
			return nil, err
		}
		p.db = db
	}
	tx, err := p.db.Begin(context.Background())
	return &actor{reader: tx, tx: tx, txs: oracleTx{o: &p.oracle}}, err
}

// do does a step that reads, or writes in a transaction.
func (a *actor) do(s *Step) error {
	var want string
	if a.tx != nil {
		want = a.txs.do(s)
	} else {
		want, _ = s.Redo(a.state)
	}
	got, err := s.Do(context.Background(), a.tx, a.reader)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("got  %s\nwant %s", got, want)
	}
	if s.Saw != "" && got != s.Saw {
		return fmt.Errorf("got  %s\nthe script wants %s", got, s.Saw)
	}
	return nil
}

// apply makes a commit of the engine.
func (p *Player) apply(a *actor, durable bool) error {
	steps := a.writes
	a.writes = nil
	c := &kv.Commit{Durability: kv.Applied}
	if durable {
		c.Durability = kv.Durable
	}
	for _, s := range steps {
		switch {
		case s.Verb == "mutation":
			return fmt.Errorf("%v: the engine has no atomic operations", s.Mutation)
		case s.Writes():
			c.Ops = append(c.Ops, s.Op())
		default:
			c.Checks = append(c.Checks, kv.Check{Key: s.Key, Value: s.Value, Absent: s.Verb == "absent"})
		}
	}
	err := p.eng.Commit(context.Background(), c)
	if !p.oracle.state.holds(steps) {
		if !errors.Is(err, kv.ErrConflict) {
			return fmt.Errorf("got error %v, want %w", err, kv.ErrConflict)
		}
		return nil
	}
	if err != nil {
		return err
	}
	p.oracle.commit(slices.DeleteFunc(steps, func(s *Step) bool { return !s.Writes() }))
	return p.compare()
}

// commit commits a transaction, which must be ok or a conflict as wanted.
func (p *Player) commit(a *actor, outcome string) error {
	want := a.txs.conflicts()
	err := a.tx.Commit(context.Background())
	switch {
	case err != nil && !errors.Is(err, kv.ErrConflict):
		return err
	case txn.TransactorOf(p.eng).TxCaps().Has(txn.Exact) && want != (err != nil):
		return fmt.Errorf("got error %w, want a conflict: %v; it has read %q", err, want, a.txs.reads)
	case outcome != "" && (outcome == "conflict") != (err != nil):
		return fmt.Errorf("got error %w, the script wants %s", err, outcome)
	case err == nil && a.txs.outdated():
		return fmt.Errorf("committed, and what it has read is not so any more: %q", a.txs.reads)
	case err != nil:
		p.Conflicts++
	case len(a.txs.writes) > 0:
		p.oracle.commit(a.txs.writes)
	}
	return p.compare()
}

// compare compares the newest states, which reads alone would not show soon beside transactions.
func (p *Player) compare() error {
	if p.db == nil {
		return nil
	}
	return p.actors["engine"].do(&Step{Verb: "scan"})
}

// Random plays so many lines, and prints them when one goes wrong.
func Random(t *testing.T, p *Player, line func() string, n int) {
	t.Helper()
	var script strings.Builder
	for range n {
		line := line()
		script.WriteString(line + "\n")
		if err := p.Play(line); err != nil {
			t.Errorf("%s: %v\nthe script up to there, for kvtest.Replay:\n%s", line, err, script.String())
			break
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("closing snapshots: %v", err)
	}
}
