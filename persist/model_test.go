package persist

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A model is what a record must be. Counts only grow, so that a state is told by its
// number: what was acknowledged is a lower bound of what is stored, what was written in
// memory an upper one.
type model struct {
	t   *testing.T
	rnd *rand.Rand
	w   *world
	d   *disk
	s   *State[count]
	c   *telling

	memory int // the newest count
	acked  int // the count that must survive a crash
	gone   bool

	conns  map[string]int // as set
	ackedC map[string]int // that must survive

	mu   sync.Mutex      // of what the action uses, for the race detector
	jobs map[string]*job // that must be there, or have run
	ran  map[string]int  // how often each action was called
	next int
	fail bool // actions fail
}

// A job is what the model knows of an event.
type job struct {
	at        time.Time
	unsure    bool // whether it is stored
	cancelled bool // for sure

}

// TestModel makes random operations, with restarts and failed writes between them: no
// acknowledged state is lost, no event is lost or runs after it was cancelled, and what
// is in memory is what is stored once it is saved.
func TestModel(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk()
				m := &model{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 6)), w: newWorldOn(t, d), d: d, c: &telling{}, conns: map[string]int{},
					ackedC: map[string]int{}, jobs: map[string]*job{}, ran: map[string]int{}}
				m.run()
			})
		})
	}
}

func (m *model) run() {
	m.w.limits.Entries = 3 // so that saves have many parts
	m.open()
	for range 5 + m.draw(80) {
		m.step()
		m.check()
	}
	m.crash()
	m.locked(func() { m.fail = false })
	pass(time.Hour)
	for id, j := range m.jobs {
		if !j.cancelled && !j.unsure && m.ran[id] == 0 {
			m.t.Errorf("event %s of %v never ran", id, j.at)
		}
	}
	m.save(now)
	must(m.t, m.w.rec.Close(ctx))
	m.equal()
	m.w.healthy()
}

// open opens the record, after a crash or at first.
func (m *model) open() {
	r, err := m.w.tryOpen(&Options{Connections: m.c, RetryMax: 10 * sec})
	must(m.t, err)
	m.s, err = OpenState[count](ctx, r, nil)
	must(m.t, err)
	must(m.t, r.Schedule().Start(ctx, func(string) Action { return m.action }))
	m.gone = false
}

func (m *model) step() {
	ops := []struct {
		name string
		do   func()
	}{
		{"mutate", m.mutate}, {"mutate", m.mutate}, {"stage", m.stage}, {"connection", m.connection},
		{"save", func() { m.save(now) }}, {"save applied", func() { m.save(&SaveOptions{Immediate: true, Applied: true}) }},
		{"save later", func() { m.save(&SaveOptions{MaxWait: sec}) }},
		{"schedule", m.schedule}, {"schedule", m.schedule}, {"cancel", m.cancel}, {"pass", m.pass},
		{"fail", func() { m.locked(func() { m.fail = !m.fail }) }},
		{"refuse", func() { m.w.refuse(1 + m.draw(3)) }},
		{"tear", func() { m.w.eng.Tear(m.draw(4)) }},
		{"unknown", func() { m.w.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply, Err: kv.ErrUnknownOutcome}) }},
		{"heal", m.w.eng.Heal}, {"crash", m.crash}, {"close", m.close},
	}
	op := ops[m.draw(len(ops))]
	m.t.Log(op.name)
	op.do()
	if m.w.actor.Err() != nil { // as a host does, whose actor refuses everything
		m.crash()
	}
}

func (m *model) draw(n int) int { return m.rnd.IntN(n) }

func (m *model) mutate() {
	if m.s.Mutate(ctx, add(1)) == nil {
		m.memory++
	}
}

// stage changes the state by a commit, or not at all.
func (m *model) stage() {
	var b batch.Batch
	m.s.StageMutate(&b, add(1))
	b.Put(actorstore.UserKey([]byte("with")), []byte{byte(m.memory + 1)})
	switch err := m.w.actor.Commit(ctx, &b); {
	case err == nil:
		m.memory++
		m.acked = m.memory
	case m.w.actor.Err() != nil:
		m.memory++ // it may have landed
	}
}

func (m *model) connection() {
	id := fmt.Sprint(m.draw(8))
	m.conns[id]++
	m.c.set(id, m.conns[id])
}

func (m *model) save(o *SaveOptions) {
	memory, conns := m.memory, clone(m.conns)
	if m.w.rec.Save(ctx, o) == nil && !o.Applied {
		m.acked, m.ackedC = memory, conns
	}
	synctest.Wait()
}

func clone(m map[string]int) map[string]int {
	c := map[string]int{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (m *model) schedule() {
	m.next++
	id := fmt.Sprint("e", m.next)
	at := time.Now().Add(time.Duration(m.draw(20)) * sec)
	j := &job{at: at}
	m.locked(func() { m.jobs[id] = j })
	if _, err := m.w.rec.Schedule().Add(ctx, Job{ID: id, Action: id, At: at}); err != nil {
		m.locked(func() { j.unsure = true })
	}
	synctest.Wait()
}

// locked is for what the action uses, too.
func (m *model) locked(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
}

func (m *model) cancel() {
	if m.next == 0 {
		return
	}
	id := fmt.Sprint("e", 1+m.draw(m.next))
	found, err := m.w.rec.Schedule().Cancel(ctx, id)
	m.locked(func() {
		if j := m.jobs[id]; err != nil {
			j.unsure = true // it may be gone
		} else {
			if !found && m.ran[id] == 0 && !j.unsure && !j.cancelled {
				m.t.Errorf("event %s is lost", id)
			}
			j.cancelled = true
		}
	})
	synctest.Wait()
}

func (m *model) pass() { pass(time.Duration(1+m.draw(30)) * sec) }

// action is what all events call.
func (m *model) action(_ context.Context, f *Firing) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := f.Event.ID
	if j := m.jobs[id]; j.cancelled {
		m.t.Errorf("event %s ran after it was cancelled", id)
	} else if time.Now().Before(j.at) {
		m.t.Errorf("event %s ran at %v, before %v", id, time.Now(), j.at)
	}
	if m.ran[id]++; m.fail {
		return errors.New("no")
	}
	f.Batch().Put(actorstore.UserKey([]byte("done "+id)), nil)
	return nil
}

// crash ends the process and begins another one; sometimes the machine ends, with what is
// not on stable storage.
func (m *model) crash() {
	m.w.eng.Heal()
	m.w.leave()
	machine := m.draw(2) == 0
	if machine {
		m.d = m.d.crash(m.t, m.draw(30))
		m.w.eng = faultkv.New(m.d)
	}
	m.c.mu.Lock()
	m.c.items = map[string]int{}
	m.c.mu.Unlock()
	m.c.dirty = batch.Dirty[string]{}
	m.open()
	n := got(m.t, m.s)
	if n < m.acked || n > m.memory {
		m.t.Fatalf("count %d after a crash, %d was acknowledged, %d the newest", n, m.acked, m.memory)
	}
	m.memory = n
	if machine { // else nobody has waited for what is read
		m.acked = n
	}
	for id, v := range m.ackedC {
		if got := m.connectionIn(id); got < v || got > m.conns[id] {
			m.t.Fatalf("connection %s is %d, %d was acknowledged", id, got, v)
		}
	}
	for id := range m.conns {
		m.conns[id] = m.connectionIn(id)
	}
	if machine {
		m.ackedC = clone(m.conns)
	}
}

func (m *model) connectionIn(id string) int {
	v, err := m.w.actor.Get(ctx, actorstore.AppendConnection(nil, id), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return 0
	}
	must(m.t, err)
	return int(v[0])
}

// close closes the record and opens it again: then everything must be there.
func (m *model) close() {
	memory, conns := m.memory, clone(m.conns)
	if m.w.rec.Close(ctx) == nil {
		m.acked, m.ackedC = memory, conns
		m.w.eng.Heal() // reading, too
		m.equal()
	}
	m.crash()
}

// equal compares what is stored with what is in memory.
func (m *model) equal() {
	if n := m.w.countIn(); n != m.memory {
		m.t.Fatalf("stored %d, in memory %d", n, m.memory)
	}
	for id, v := range m.conns {
		if n := m.connectionIn(id); n != v {
			m.t.Fatalf("connection %s: stored %d, in memory %d", id, n, v)
		}
	}
}

// check compares memory with the store after a step.
func (m *model) check() {
	synctest.Wait()
	r := m.w.rec
	if m.w.actor.Err() != nil {
		return
	}
	if n := got(m.t, m.s); n != m.memory {
		m.t.Fatalf("count %d, want %d", n, m.memory)
	}
	saved := r.Saved()
	raw, err := m.w.actor.Get(ctx, recordKey(), nil)
	if err != nil {
		return // torn
	}
	if _, isKnown := r.prior.Known(); isKnown && r.prior != batch.Stored(len(raw)) {
		m.t.Fatalf("the prior is %v, of %d bytes", r.prior, len(raw))
	}
	stored := m.w.stored()
	if saved && string(stored.State) != string(r.state) {
		m.t.Fatalf("saved, and stored is %x, in memory %x", stored.State, r.state)
	}
	events, err := r.Schedule().List()
	must(m.t, err)
	same := slices.EqualFunc(events, stored.Events, func(a, b Event) bool {
		return a.ID == b.ID && a.At.Equal(b.At) && a.Cron == b.Cron && string(a.Args) == string(b.Args)
	})
	if !same {
		m.t.Fatalf("stored events %+v, in memory %+v", stored.Events, events)
	}
	if next := r.sched.stored.At(); !next.Equal(r.Schedule().Next()) {
		m.t.Fatalf("the alarm is %v, want %v", next, r.Schedule().Next())
	}
	for _, e := range events {
		due := e.At
		if e.NotBefore.After(due) {
			due = e.NotBefore
		}
		if next := r.Schedule().Next(); !e.Parked && (next.IsZero() || next.After(due)) {
			m.t.Fatalf("the alarm is %v, and an event is due at %v", next, due)
		}
	}
	for id, j := range m.jobs {
		there := slices.ContainsFunc(events, func(e Event) bool { return e.ID == id })
		_, err := m.w.actor.Get(ctx, actorstore.UserKey([]byte("done "+id)), nil)
		switch {
		case err == nil && there:
			m.t.Fatalf("event %s is done and there", id)
		case err != nil && !there && !j.cancelled && !j.unsure:
			m.t.Fatalf("event %s is lost", id)
		}
	}
}
