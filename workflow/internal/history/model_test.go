package history

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A modelState is what a history should be.
type modelState struct {
	entries               map[Location]Entry
	state                 State
	input, output, failed string // "" for none
	waits                 []Wait // nil for none
}

func (s modelState) clone() modelState {
	s.entries = maps.Clone(s.entries)
	return s
}

// A modelTx is a transaction, and what it means: operations that are run one after the
// other on what is there when it lands.
type modelTx struct {
	tx  *Tx
	ops []func(s *modelState, l *landing)
}

// A landing is what a modelTx finds out while it runs.
type landing struct {
	err       error
	gone      map[Location]Entry // with metadata, whose entries aren't there, and may be put yet
	cancelled bool               // before
	output    bool               // whether the output was said
	failed    bool               // whether the error was
	waits     bool               // whether the waits were
	to        *State
}

// A model is the simplest history there is.
type model struct {
	r      *rig
	rng    random
	mem    modelState // what memory should be
	stored modelState // what is stored
	open   []*modelTx
	ids    int
	log    []string
}

// TestModel runs random transactions, several open at once, deferred ones among them, with
// restarts, commits that fail and commits whose outcome gets lost, and compares memory and
// store with a model after every step.
func TestModel(t *testing.T) {
	seeds := testkit.Pick(10, 30, 240)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &model{rng: random{rand.New(rand.NewPCG(uint64(seed), 5))}}
			m.mem.entries, m.stored.entries = map[Location]Entry{}, map[Location]Entry{}
			opts := Options{NewID: func() string { m.ids++; return fmt.Sprint("id", m.ids) }}
			engine := []kv.Engine{memkv.New(), engines.Far(memkv.New())}[seed%2]
			m.r = newRigOn(t, engine, opts, whole)
			for range 150 {
				m.step()
				m.compare()
				if t.Failed() {
					for _, line := range m.log {
						t.Log(line)
					}
					return
				}
			}
		})
	}
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) step() {
	switch n := m.rng.IntN(20); {
	case n == 0:
		m.note("restart")
		m.restart()
	case n == 1:
		m.note("reload")
		must(m.r.t, m.r.h.Reload(ctx))
		m.mem = m.stored.clone()
	case n == 2:
		m.note("flush")
		must(m.r.t, flush(m.r.h))
		m.stored = m.mem.clone()
	case n < 6 && len(m.open) < 3:
		m.note("begin")
		m.open = append(m.open, m.begin())
	case n < 9 && len(m.open) > 0:
		i := m.rng.IntN(len(m.open))
		m.note("land the %dth", i)
		mt := m.open[i]
		m.open = slices.Delete(m.open, i, i+1)
		m.land(mt)
	default:
		m.land(m.begin())
	}
}

// restart loses what is in memory, open transactions too.
func (m *model) restart() {
	m.r.reopen()
	m.mem, m.open = m.stored.clone(), nil
}

func (m *model) location() Location {
	names := []string{"a", "b", "loop", "x/y"}
	path := [][]string{{"a"}, {"b"}, {"loop"}, {"x/y"}, {"a", "b"}, {"a", "x/y"}, {"a", "b", "a"},
		{"loop", "loop~0", "a"}, {"loop", "loop~1", "a"}, {"loop", "loop~1", "b"}, {"loop", "loop~300", "a"}, {"b", "loop", "loop~2", "a"}}
	if m.rng.IntN(8) == 0 {
		return m.r.at(names[m.rng.IntN(4)], fmt.Sprint("n", m.rng.IntN(20)))
	}
	return m.r.at(path[m.rng.IntN(len(path))]...)
}

// begin stages some operations.
func (m *model) begin() *modelTx {
	mt := &modelTx{tx: m.r.h.Begin()}
	many := 1 + m.rng.IntN(4)
	if m.rng.IntN(10) == 0 {
		many = 30
	}
	for range many {
		switch n := m.rng.IntN(20); {
		case n < 8:
			m.put(mt)
		case n < 12:
			m.putMetadata(mt)
		case n < 14:
			m.remove(mt)
		case n < 17:
			m.setState(mt)
		case n < 19:
			m.setValue(mt)
		default:
			m.reset(mt)
		}
	}
	return mt
}

// run returns what mt makes of s.
func (mt *modelTx) run(s modelState) (modelState, error) {
	s = s.clone()
	l := &landing{gone: map[Location]Entry{}, cancelled: s.state == Cancelled}
	for _, op := range mt.ops {
		op(&s, l)
	}
	if l.to != nil && l.err == nil {
		if !s.state.may(*l.to) {
			return s, ErrTransition
		}
		s.state = *l.to
		if !l.output && (s.state == Completed || s.state == Failed || s.state == RollingBack) {
			s.output = ""
		}
		if !l.failed && s.state == Completed {
			s.failed = ""
		}
		if !l.waits && (s.state.over() || s.state == RollingBack) {
			s.waits = nil
		}
	}
	if l.err == nil && len(l.gone) > 0 {
		l.err = errInvalid
	}
	return s, l.err
}

// land commits a transaction, defers it, or lets it fail.
func (m *model) land(mt *modelTx) {
	t, e := m.r.t, m.r.Engine
	want, wantErr := mt.run(m.mem)
	if wantErr != nil {
		m.note("…refused: %v", wantErr)
		if err := mt.tx.Commit(ctx); !errors.Is(err, wantErr) {
			t.Errorf("got error %v, want %v", err, wantErr)
		}
		mt.tx.Free()
		return
	}
	switch m.rng.IntN(10) {
	case 0:
		m.note("…given up")
		var b batch.Batch
		mt.tx.Stage(&b)
		must(t, b.Seal())
		b.Abort(nil)
		m.open = append(m.open, mt)
		return
	case 1:
		m.note("…the commit fails")
		fault := e.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
		err := mt.tx.Commit(ctx)
		if fault.Remove(); fault.Hits() > 0 {
			if !errors.Is(err, batch.ErrTooLarge) {
				t.Errorf("got %v", err)
			}
			m.open = append(m.open, mt) // can be tried again
			return
		}
		must(t, err)
	case 2:
		point := []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply}[m.rng.IntN(2)]
		m.note("…the outcome is lost, at point %d", point)
		fault := e.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
		err := mt.tx.Commit(ctx)
		if fault.Remove(); fault.Hits() == 0 {
			must(t, err)
			break
		}
		if err == nil || m.r.h.failure() == nil {
			t.Errorf("commit says %v, and then %v", err, m.r.h.failure())
		}
		if point == faultkv.AfterApply {
			m.stored = want.clone()
		}
		m.restart()
		return
	case 3, 4:
		if !m.defers(mt) {
			must(t, mt.tx.Commit(ctx))
			break
		}
		m.note("…deferred")
		must(t, mt.tx.Defer())
		mt.tx.Free()
		m.mem = want
		return
	case 5:
		m.note("…with something else")
		var b batch.Batch
		b.Put([]byte{4}, []byte{byte(m.rng.Uint32())})
		mt.tx.Stage(&b)
		must(t, m.r.Actor.Commit(ctx, &b))
	default:
		must(t, mt.tx.Commit(ctx))
	}
	mt.tx.Free() // whose memory others use from here on
	m.mem, m.stored = want, want.clone()
}

// defers reports whether mt can be deferred.
func (m *model) defers(mt *modelTx) bool {
	m.r.h.mu.Lock()
	defer m.r.h.mu.Unlock()
	return !mt.tx.removing(&m.r.h.m)
}

// compare compares memory and store with what they should be.
func (m *model) compare() {
	t := m.r.t
	t.Helper()
	stored, damages := m.r.read()
	if len(damages) > 0 {
		t.Errorf("damage: %v", damages)
	}
	for what, pair := range map[string]struct {
		got  *Snapshot
		want modelState
	}{"in memory": {m.r.h.Snapshot(), m.mem}, "stored": {stored, m.stored}} {
		got := modelState{entries: map[Location]Entry{}, state: pair.got.State, input: string(pair.got.Input), output: string(pair.got.Output), waits: pair.got.Rested}
		if pair.got.Error != nil {
			got.failed = pair.got.Error.Error()
		}
		for _, e := range pair.got.Entries {
			got.entries[e.Location] = e
		}
		if !reflect.DeepEqual(got, pair.want) {
			t.Errorf("%s: got %+v\nwant %+v", what, got, pair.want)
		}
	}
	if reflect.DeepEqual(m.mem, m.stored) && m.r.h.dirty.Len() == 0 {
		m.r.verify("the same")
	}
	for f, err := range m.r.Store.Check(ctx) {
		must(t, err)
		t.Errorf("check: %s", f)
	}
}
