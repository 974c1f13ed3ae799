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
	"github.com/greenroomdb/greenroom/internal/testkit"
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

	late   bool // the record is made by the first commit that changes it
	memory int  // the newest count
	acked  int  // the count that must survive a crash

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
// is in memory is what is stored.
func TestModel(t *testing.T) {
	seeds := testkit.Pick(20, 100, 800)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk()
				m := &model{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 6)), w: newWorldOn(t, d), d: d, late: seed%2 == 1,
					jobs: map[string]*job{}, ran: map[string]int{}}
				m.run()
			})
		})
	}
}

func (m *model) run() {
	m.w.limits.Entries = 3 // so that batches have many parts
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
	m.check()
	must(m.t, m.w.rec.Close(ctx))
	m.w.healthy()
}

// open opens the record, after a crash or at first.
func (m *model) open() {
	r, err := m.w.tryOpen(&Options{RetryMax: 10 * sec, CreateLate: m.late})
	must(m.t, err)
	must(m.t, r.Schedule().Start(ctx, func(string) Action { return m.action }))
}

func (m *model) step() {
	ops := []struct {
		name string
		do   func()
	}{
		{"mutate", m.mutate}, {"mutate", m.mutate}, {"stage", func() { m.stage(batch.Atomic) }}, {"stage ordered", func() { m.stage(batch.Ordered) }},
		{"apply", m.apply}, {"sync", m.sync},
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

func (m *model) mutate() { m.changed(counter{m.w.rec}.mutate(ctx, add(1))) }

// changed is told what became of a durable change.
func (m *model) changed(err error) {
	switch {
	case err == nil:
		m.memory++
		m.acked = m.memory
	case m.w.actor.Err() != nil:
		m.memory++ // it may have landed
	}
}

// stage changes the state by a commit of five writes, or not at all.
func (m *model) stage(mode batch.Mode) {
	b := batch.Batch{Mode: mode}
	must(m.t, mutate(m.w.rec.In(&b), add(1)))
	for i := range 4 {
		b.Put(actorstore.UserKey([]byte{'w', byte(i)}), []byte{byte(m.memory + 1)})
	}
	m.changed(m.w.actor.Commit(ctx, &b))
}

// apply changes the state without a wait for stable storage.
func (m *model) apply() {
	var b batch.Batch
	must(m.t, mutate(m.w.rec.In(&b), add(1)))
	if m.w.actor.Apply(ctx, &b) == nil || m.w.actor.Err() != nil {
		m.memory++
	}
}

// sync makes durable what was applied.
func (m *model) sync() {
	if m.w.actor.Sync(ctx) == nil {
		m.acked = m.memory
	}
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
	m.open()
	n := got(m.t, m.w.rec)
	if n < m.acked || n > m.memory {
		m.t.Fatalf("count %d after a crash, %d was acknowledged, %d the newest", n, m.acked, m.memory)
	}
	m.memory = n
	if machine { // else no call waited for what is read
		m.acked = n
	}
}

// close closes the record and opens it again.
func (m *model) close() {
	must(m.t, m.w.rec.Close(ctx))
	m.crash()
}

// check compares memory with the store after a step.
func (m *model) check() {
	synctest.Wait()
	r := m.w.rec
	if m.w.actor.Err() != nil {
		return
	}
	if n := got(m.t, r); n != m.memory {
		m.t.Fatalf("count %d, want %d", n, m.memory)
	}
	raw, err := m.w.actor.Get(ctx, recordKey(), nil)
	if err != nil {
		return // it can't be read now
	}
	if _, isKnown := r.prior.Known(); isKnown && r.prior != batch.Stored(len(raw)) {
		m.t.Fatalf("the prior is %v, of %d bytes", r.prior, len(raw))
	}
	stored := m.w.stored()
	if string(stored.State) != string(r.state) {
		m.t.Fatalf("stored is %x, in memory %x", stored.State, r.state)
	}
	events, err := r.Schedule().List()
	must(m.t, err)
	same := slices.EqualFunc(events, stored.Events, func(a, b Event) bool {
		return a.ID == b.ID && a.At.Equal(b.At) && a.Cron == b.Cron && string(a.Args) == string(b.Args)
	})
	if !same {
		m.t.Fatalf("stored events %+v, in memory %+v", stored.Events, events)
	}
	if next := r.sched.stored.At(); !next.Equal(r.Schedule().wakes()) {
		m.t.Fatalf("the alarm is %v, want %v", next, r.Schedule().wakes())
	}
	for _, e := range events {
		due := e.At
		if e.NotBefore.After(due) {
			due = e.NotBefore
		}
		if next := r.Schedule().wakes(); !e.Parked && (next.IsZero() || next.After(due)) {
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
