package queue

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A modelMessage is what a message should be.
type modelMessage struct {
	id         ID
	name       string
	body       string
	deliveries uint32
	hidden     time.Time // not visible before
	leased     bool
	by         *modelBatch // that has claimed it
}

// A model is the simplest queue there is: a list, looked through from its beginning.
type model struct {
	r        *rig
	rng      *rand.Rand
	messages map[ID]*modelMessage
	gone     map[ID]bool // and must never be seen again
	receipts []Receipt   // that were given out, good or not
	log      []string
}

// A modelBatch is a batch of the queue, and what it means.
type modelBatch struct {
	b       batch.Batch
	commit  []func()
	claimed []*modelMessage
	receipt []Receipt
}

const (
	modelVisibility = 10 * time.Second
	modelReceives   = 3
)

// TestModel runs random operations, one by one and staged in several batches at once, with
// restarts, failed commits and commits whose outcome gets lost, and compares what they
// return with a model, and the memory with the store after every step.
func TestModel(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := Options{MaxMessages: 40, Visibility: modelVisibility, MaxReceive: modelReceives, KeyWindow: time.Minute,
					MemoryBytes: []int{-1, 60, 1 << 20}[seed%3]}
				engine := []kv.Engine{memkv.New(), farEngine{memkv.New()}}[seed/3%2]
				m := &model{r: newRigOn(t, engine, opts, batch.Limits{}), rng: rand.New(rand.NewPCG(uint64(seed), 7)),
					messages: map[ID]*modelMessage{}, gone: map[ID]bool{}}
				for range 250 {
					m.step()
					synctest.Wait() // dead letters
					m.bury()
					m.r.verify("after " + m.last())
					m.compare()
					if t.Failed() {
						for _, line := range m.log {
							t.Log(line)
						}
						return
					}
				}
			})
		})
	}
}

func (m *model) last() string {
	if len(m.log) == 0 {
		return "nothing"
	}
	return m.log[len(m.log)-1]
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) name() string { return []string{"a", "b", "c"}[m.rng.IntN(3)] }

// names are some to receive, or none.
func (m *model) names() []string {
	switch m.rng.IntN(3) {
	case 0:
		return []string{m.name(), "a.dlq"}
	case 1:
		return []string{m.name(), m.name()}
	}
	return nil
}

func (m *model) step() {
	switch n := m.rng.IntN(20); {
	case n < 2:
		d := time.Duration(m.rng.IntN(15)) * time.Second
		m.note("%v pass", d)
		later(d)
	case n == 2:
		m.note("restart")
		m.r.reopen()
	case n < 6:
		m.several()
	default:
		var mb modelBatch
		m.stage(&mb)
		m.land(&mb)
	}
}

// several stages in two batches in turns, and settles them in any order.
func (m *model) several() {
	m.note("two batches")
	var a, b modelBatch
	for range 2 + m.rng.IntN(5) {
		if m.rng.IntN(2) == 0 {
			m.stage(&a)
		} else {
			m.stage(&b)
		}
	}
	if m.rng.IntN(4) == 0 {
		m.note("…which take long")
		later(modelVisibility)
		synctest.Wait()
		m.bury()
	}
	first, second := &a, &b
	if m.rng.IntN(2) == 0 {
		first, second = second, first
	}
	if m.land(first) {
		m.land(second)
		return
	}
	m.note("…lost with the queue")
	m.giveUp(second)
}

// stage stages one operation.
func (m *model) stage(mb *modelBatch) {
	switch n := m.rng.IntN(10); {
	case n < 3:
		m.enqueue(mb)
	case n < 6:
		m.receive(mb)
	case n == 6:
		m.delete(mb)
	default:
		m.settle(mb)
	}
}

// land commits a batch, or lets it fail, and reports whether the queue is as it was.
func (m *model) land(mb *modelBatch) (alive bool) {
	e := m.r.engine
	switch m.rng.IntN(12) {
	case 0:
		m.note("…given up")
		mb.b.Abort(errors.New("given up"))
		m.giveUp(mb)
		return true
	case 1:
		m.note("…the commit fails")
		fault := e.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
		err := m.r.actor.Commit(ctx, &mb.b)
		if fault.Remove(); err == nil && fault.Hits() > 0 {
			m.r.t.Error("the commit succeeded")
		}
		if fault.Hits() == 0 { // nothing was to be committed
			m.landed(mb)
			return true
		}
		m.giveUp(mb)
		return true
	case 2:
		point := []faultkv.Point{faultkv.BeforeCommit, faultkv.AfterApply}[m.rng.IntN(2)]
		m.note("…the outcome is lost, at point %d", point)
		fault := e.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
		err := m.r.actor.Commit(ctx, &mb.b)
		if fault.Remove(); fault.Hits() == 0 {
			m.landed(mb)
			return true
		}
		if _, again := m.r.q.TryReceive(ctx, nil); err == nil || again == nil {
			m.r.t.Errorf("commit says %v, and then %v", err, again)
		}
		if point == faultkv.AfterApply {
			m.landed(mb)
		} else {
			m.giveUp(mb)
		}
		m.r.reopen()
		return false
	}
	if err := m.r.actor.Commit(ctx, &mb.b); err != nil {
		m.r.t.Errorf("commit: %v", err)
	}
	m.landed(mb)
	return true
}

func (m *model) landed(mb *modelBatch) {
	for _, msg := range mb.claimed {
		msg.by = nil
	}
	for _, fn := range mb.commit {
		fn()
	}
	m.receipts = append(m.receipts, mb.receipt...)
}

func (m *model) giveUp(mb *modelBatch) {
	for _, msg := range mb.claimed {
		msg.by = nil
	}
}

func (mb *modelBatch) claim(msg *modelMessage) {
	if msg.by == nil {
		msg.by = mb
		mb.claimed = append(mb.claimed, msg)
	}
}

func (m *model) enqueue(mb *modelBatch) {
	s := Send{Name: m.name(), Body: fmt.Sprint("body ", m.rng.IntN(1e6))}
	if m.rng.IntN(4) == 0 {
		s.Delay = time.Duration(1+m.rng.IntN(20)) * time.Second
	}
	id, err := m.r.q.StageEnqueue(&mb.b, s)
	if m.note("enqueue %v: %v, %v", s, id, err); err != nil {
		if !errors.Is(err, ErrFull) {
			m.r.t.Error(err)
		}
		return
	}
	if m.messages[id] != nil || m.gone[id] {
		m.r.t.Errorf("id %s was given before", id)
	}
	msg := &modelMessage{id: id, name: s.Name, body: s.Body.(string)}
	if s.Delay > 0 {
		msg.hidden = time.Now().Add(s.Delay)
	}
	mb.commit = append(mb.commit, func() { m.messages[id] = msg })
}

// visible returns the messages that should be handed out, in order.
func (m *model) visible(names []string, now time.Time) (msgs []*modelMessage) {
	for _, msg := range m.messages {
		if msg.by == nil && !msg.hidden.After(now) && (len(names) == 0 || slices.Contains(names, msg.name)) {
			msgs = append(msgs, msg)
		}
	}
	slices.SortFunc(msgs, func(a, b *modelMessage) int { return cmp.Compare(a.id, b.id) })
	return msgs
}

func (m *model) receive(mb *modelBatch) {
	o := ReceiveOptions{Names: m.names(), Count: 1 + m.rng.IntN(3), AtMostOnce: m.rng.IntN(4) == 0}
	msgs, err := m.r.q.StageReceive(ctx, &mb.b, &o)
	m.note("receive %+v: %v, %v", o, ids(msgs), err)
	must(m.r.t, err)
	want := m.visible(o.Names, time.Now())
	want = want[:min(len(want), o.Count)]
	if len(msgs) != len(want) {
		m.r.t.Errorf("got %v, want %d messages", ids(msgs), len(want))
		return
	}
	for i, msg := range want {
		got := msgs[i]
		if got.ID != msg.id || got.Name != msg.name || text(m.r.t, got.Body) != msg.body || got.Deliveries != msg.deliveries+1 {
			m.r.t.Errorf("got %+v, want %+v", got, msg)
		}
		mb.claim(msg)
		if o.AtMostOnce {
			mb.commit = append(mb.commit, func() { m.remove(msg) })
			continue
		}
		r := got.Receipt()
		mb.receipt = append(mb.receipt, r)
		mb.commit = append(mb.commit, func() {
			msg.deliveries, msg.leased, msg.hidden = r.Deliveries, true, got.Until
		})
		if m.rng.IntN(3) == 0 { // complete it right away
			must(m.r.t, m.r.q.StageComplete(&mb.b, r, nil))
			m.note("complete %s in the same batch", r)
			mb.commit = append(mb.commit, func() { m.remove(msg) })
		}
	}
}

func (m *model) remove(msg *modelMessage) {
	delete(m.messages, msg.id)
	m.gone[msg.id] = true
}

func (m *model) delete(mb *modelBatch) {
	id := ID(1 + m.rng.IntN(len(m.messages)+len(m.gone)+2))
	err := m.r.q.StageDelete(&mb.b, id)
	m.note("delete %s: %v", id, err)
	msg := m.messages[id]
	switch {
	case msg == nil:
		wantErr(m.r.t, "delete", err, ErrGone)
	case msg.by == mb && err != nil: // it may be gone for mb
		wantErr(m.r.t, "delete", err, ErrGone)
	case msg.by != nil && msg.by != mb:
		wantErr(m.r.t, "delete", err, ErrBusy)
	default:
		must(m.r.t, err)
		mb.claim(msg)
		mb.commit = append(mb.commit, func() { m.remove(msg) })
	}
}

// settle completes, gives back or extends by one of the receipts that were given out.
func (m *model) settle(mb *modelBatch) {
	if len(m.receipts) == 0 {
		return
	}
	r := m.receipts[len(m.receipts)-1-m.rng.IntN(min(6, len(m.receipts)))]
	msg := m.messages[r.ID]
	now := time.Now()
	var want error
	switch {
	case msg == nil:
		want = ErrGone
	case msg.by != nil && msg.by != mb:
		want = ErrBusy
	case msg.by == mb: // what mb has done to it is not in the model yet
		return
	case !msg.leased || msg.deliveries != r.Deliveries || !msg.hidden.After(now):
		want = ErrLeaseOver
	}
	delay := time.Duration(m.rng.IntN(3)) * 5 * time.Second
	var err error
	var then func()
	what := "complete"
	switch m.rng.IntN(3) {
	case 0:
		err, then = m.r.q.StageComplete(&mb.b, r, nil), func() { m.remove(msg) }
	case 1:
		what = "nack"
		err = m.r.q.StageNack(ctx, &mb.b, r, delay)
		var dead ID
		if err == nil && msg != nil && msg.deliveries >= modelReceives && msg.name != "a.dlq" && len(msg.name) == 1 {
			dead = m.r.q.next - 1
		}
		then = func() {
			if dead != 0 {
				m.die(msg, dead)
				return
			}
			msg.leased, msg.hidden = false, now.Add(delay)
		}
	default:
		what = "extend"
		err = m.r.q.StageExtend(ctx, &mb.b, r, delay+time.Second)
		then = func() { msg.hidden = now.Add(delay + time.Second) }
	}
	m.note("%s %s, %v: %v", what, r, delay, err)
	if want != nil || err != nil {
		wantErr(m.r.t, what, err, want)
		return
	}
	mb.claim(msg)
	mb.commit = append(mb.commit, then)
}

// die moves a message to its dead-letter name.
func (m *model) die(msg *modelMessage, dead ID) {
	m.remove(msg)
	m.messages[dead] = &modelMessage{id: dead, name: msg.name + ".dlq", body: msg.body, deliveries: msg.deliveries}
}

// bury lays aside what the alarm should have, in the order in which the leases ended,
// behind all others.
func (m *model) bury() {
	now := time.Now()
	dying := m.visible([]string{"a", "b", "c"}, now)
	dying = slices.DeleteFunc(dying, func(msg *modelMessage) bool { return msg.deliveries < modelReceives })
	slices.SortStableFunc(dying, func(a, b *modelMessage) int { return a.hidden.Compare(b.hidden) })
	for i, msg := range dying {
		m.die(msg, m.r.q.next-ID(len(dying)-i))
	}
}

// compare holds what is in memory against the model.
func (m *model) compare() {
	q := m.r.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, msg := range m.messages {
		it := q.index.byID[id]
		if it == nil {
			m.r.t.Errorf("message %s is lost", id)
			continue
		}
		if visible := !msg.hidden.After(time.Now()); it.line.name != msg.name || it.deliveries != msg.deliveries || (it.state == ready) != visible {
			m.r.t.Errorf("message %s is %+v, want %+v", id, it, msg)
		}
	}
	if n := len(q.index.byID); n != len(m.messages) {
		m.r.t.Errorf("%d messages, want %d", n, len(m.messages))
	}
}
