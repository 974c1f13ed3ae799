package txntest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// orderLog is the key of the log, behind all others.
const orderLog = "~log"

// testOrder: transactions that read and write in every way, and commits of the engine
// that set and clear, run beside each other. Each notes in a log where it comes: done
// again in that order, one after the other, each must see what it has seen, and the end
// must be the same. Those that only read must have seen one state from their time.
func testOrder(t *testing.T, db *txn.DB) {
	const workers = 5
	each := 100
	if testkit.Short() || db.Engine().Limits().Far {
		each = 25
	}
	seed := rand.Uint64()
	h := &orderHistory{db: db, did: map[string][]orderStep{}}
	suite.Commit(t, db.Engine(), suite.Set(orderLog, ""))
	var wg, engine sync.WaitGroup
	// The engine's commits don't run away from the transactions: in the log is room for
	// these, and no more than a value may have.
	const ahead, forEach = 100, 20
	turns := make(chan struct{}, ahead+workers*each*forEach)
	next := func(n int) {
		for range n {
			turns <- struct{}{}
		}
	}
	next(ahead)
	stop := make(chan struct{})
	for w := range workers {
		g := &orderGenerator{rand.New(rand.NewPCG(seed, uint64(w)))}
		wg.Go(func() {
			for i := range each {
				work := h.update
				if g.rnd.IntN(5) == 0 {
					work = h.view
				}
				if err := work(g, fmt.Sprintf("t%d.%d", w, i)); err != nil {
					t.Errorf("seed %d, transaction %d.%d: %v", seed, w, i, err)
					return
				}
				next(forEach)
			}
		})
	}
	g := &orderGenerator{rand.New(rand.NewPCG(seed, 99))}
	engine.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-turns:
			}
			if err := h.engine(g, fmt.Sprintf("e%d", i)); err != nil {
				t.Errorf("seed %d, engine's commit %d: %v", seed, i, err)
				return
			}
		}
	})
	wg.Wait()
	close(stop)
	engine.Wait()
	if t.Failed() {
		return
	}
	if err := h.check(); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// An orderStep is one step of a transaction, a write or a read with what it saw.
type orderStep struct {
	verb  string // "write", "get", "scan", "key"
	write txWrite
	key   []byte
	scan  kv.Range
	stop  int // the loop ends after so many entries, if it isn't 0
	sel   txn.Selector
	saw   string
}

// do does the step in a transaction.
func (s *orderStep) do(tx *txn.Tx) error {
	s.saw = ""
	switch s.verb {
	case "write":
		return s.write.do(tx)
	case "scan":
		n := 0
		for e, err := range tx.Scan(ctx, s.scan) {
			if err != nil {
				return err
			}
			s.saw += fmt.Sprintf("%s=%s ", e.Key, e.Value)
			if n++; n == s.stop {
				break
			}
		}
		return nil
	}
	v, err := []byte(nil), error(nil)
	if s.verb == "get" {
		v, err = tx.Get(ctx, s.key, nil)
	} else {
		v, err = tx.GetKey(ctx, s.sel, nil)
	}
	if s.saw = fmt.Sprintf("%s %v", v, err == nil); errors.Is(err, kv.ErrNotFound) {
		err = nil
	}
	return err
}

// redo does the step on a state, and returns what it sees.
func (s *orderStep) redo(m suite.Model) (sees string) {
	tx := &txModelTx{m: newTxModel(), seen: m}
	switch s.verb {
	case "write":
		s.write.apply(m)
		return ""
	case "scan":
		for n, k := range tx.scan(s.scan, false) {
			if n == s.stop && n > 0 {
				break
			}
			sees += fmt.Sprintf("%s=%s ", k, m[k])
		}
		return sees
	case "get":
		v, ok := tx.get(s.key, false)
		return fmt.Sprintf("%s %v", v, ok)
	}
	k, ok := tx.key(s.sel, false)
	return fmt.Sprintf("%s %v", k, ok)
}

// An orderHistory is what was done at once.
type orderHistory struct {
	db *txn.DB

	mu    sync.Mutex
	did   map[string][]orderStep // +checklocks:mu
	views []orderView            // +checklocks:mu
}

// An orderView only read, when the log had between from and to bytes.
type orderView struct {
	steps    []orderStep
	from, to int
}

// update runs a transaction.
func (h *orderHistory) update(g *orderGenerator, name string) error {
	var steps []orderStep
	err := h.db.Update(ctx, func(tx *txn.Tx) error {
		steps = steps[:0]
		for range 1 + g.rnd.IntN(6) {
			s := g.step(g.pick("write", "write", "get", "scan", "key"))
			if err := s.do(tx); err != nil {
				return err
			}
			steps = append(steps, s)
		}
		// Blindly, or whoever comes first would be all that this finds.
		return tx.Atomic(txn.MutationAppendIfFits, []byte(orderLog), []byte(name+" "))
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did[name] = steps
	return err
}

// view runs a transaction that reads.
func (h *orderHistory) view(g *orderGenerator, _ string) error {
	var v orderView
	from, err := h.db.Engine().Get(ctx, []byte(orderLog), nil)
	if err != nil {
		return err
	}
	err = h.db.View(ctx, func(tx *txn.Tx) error {
		v.steps = v.steps[:0]
		for range 1 + g.rnd.IntN(5) {
			s := g.step(g.pick("get", "scan", "key"))
			if err := s.do(tx); err != nil {
				return err
			}
			v.steps = append(v.steps, s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	to, err := h.db.Engine().Get(ctx, []byte(orderLog), nil)
	v.from, v.to = len(from), len(to)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.views = append(h.views, v)
	return err
}

// engine makes a commit of the engine, once it gets its turn in the log.
func (h *orderHistory) engine(g *orderGenerator, name string) error {
	var steps []orderStep
	var ops []kv.Op
	for range 1 + g.rnd.IntN(4) {
		s := g.step("write")
		if s.write.atomic {
			s.write = txWrite{op: kv.Set(s.write.op.Key, []byte(name))}
		}
		steps, ops = append(steps, s), append(ops, s.write.op)
	}
	h.mu.Lock()
	h.did[name] = steps
	h.mu.Unlock()
	for range 50 {
		log, err := h.db.Engine().Get(ctx, []byte(orderLog), nil)
		if err != nil {
			return err
		}
		next := append(slices.Clone(log), name+" "...)
		err = h.db.Engine().Commit(ctx, &kv.Commit{
			Checks: []kv.Check{{Key: []byte(orderLog), Value: log}}, Ops: append(ops, kv.Set([]byte(orderLog), next)),
			Durability: kv.Durability(g.rnd.IntN(2)),
		})
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
	return nil // it never got a turn, and isn't in the log
}

// check does everything again in the order of the log.
func (h *orderHistory) check() error {
	log, err := h.db.Engine().Get(ctx, []byte(orderLog), nil)
	if err != nil {
		return err
	}
	state := suite.Model{orderLog: ""}
	states := []suite.Model{state.Clone()} // after each
	after := map[int]int{0: 0}             // the length of the log to the number of the state
	for _, name := range strings.Fields(string(log)) {
		steps, ok := h.did[name]
		if !ok {
			return fmt.Errorf("%s is in the log, and unknown", name)
		}
		delete(h.did, name)
		for i := range steps {
			if sees := steps[i].redo(state); sees != steps[i].saw {
				return fmt.Errorf("%s, step %d of %+v: saw %q, in its place it sees %q", name, i, steps, steps[i].saw, sees)
			}
		}
		state[orderLog] += name + " "
		states = append(states, state.Clone())
		after[len(state[orderLog])] = len(states) - 1
	}
	for name := range h.did {
		if name[0] == 't' {
			return fmt.Errorf("%s was committed, and isn't in the log", name)
		}
	}
	for _, v := range h.views {
		fits := func(m suite.Model) bool {
			return !slices.ContainsFunc(v.steps, func(s orderStep) bool { return s.redo(m) != s.saw })
		}
		if !slices.ContainsFunc(states[after[v.from]:after[v.to]+1], fits) {
			return fmt.Errorf("no state from %d to %d of the log shows what was seen: %+v", v.from, v.to, v.steps)
		}
	}
	got := suite.Model{}
	for e, err := range h.db.Engine().Scan(ctx, kv.Range{}) {
		if err != nil {
			return err
		}
		got[string(e.Key)] = string(e.Value)
	}
	if g, w := fmt.Sprintf("%q", got), fmt.Sprintf("%q", state); g != w {
		return fmt.Errorf("the store is\n%s, want\n%s", g, w)
	}
	return nil
}

// An orderGenerator makes random steps, on few keys.
type orderGenerator struct{ rnd *rand.Rand }

func (g *orderGenerator) pick(from ...string) string { return from[g.rnd.IntN(len(from))] }

func (g *orderGenerator) key() []byte {
	k := g.pick("a", "b", "c", "d", "e", "f")
	if g.rnd.IntN(5) == 0 {
		k = suite.LongPrefix
	}
	return []byte(k + g.pick("", "", "0", "1", "\x00"))
}

func (g *orderGenerator) step(verb string) orderStep {
	s := orderStep{verb: verb, key: g.key()}
	switch verb {
	case "write":
		s.write = g.write()
	case "scan":
		s.scan = kv.Range{Start: g.key(), End: g.key(), Limit: max(0, g.rnd.IntN(8)-4), Reverse: g.rnd.IntN(2) == 0}
		if g.rnd.IntN(4) == 0 {
			s.scan.Start, s.scan.End = nil, []byte("g")
		}
		s.stop = max(0, g.rnd.IntN(6)-3)
	case "key":
		s.sel = txn.Selector{Key: g.key(), OrEqual: g.rnd.IntN(2) == 0, Offset: g.rnd.IntN(5) - 2}
	}
	return s
}

func (g *orderGenerator) write() txWrite {
	value := []byte(g.pick("", "x", "y", "\x01\x02", "longer"))
	switch n := g.rnd.IntN(10); {
	case n < 4:
		return txWrite{op: kv.Set(g.key(), value)}
	case n < 6:
		return txWrite{op: kv.Clear(g.key())}
	case n < 8:
		return txWrite{op: kv.ClearRange(g.key(), g.key())}
	}
	return txWrite{op: kv.Set(g.key(), value), atomic: true, mutation: txn.Mutation(g.rnd.IntN(10))}
}
