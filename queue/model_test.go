package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A modelMessage is what a message should be.
type modelMessage struct {
	id         ID
	name       string
	body       string
	priority   int
	debounce   string // by which it is replaced, until it is handed out
	created    time.Time
	deliveries uint32
	hidden     time.Time // not visible before
	leased     bool
	nonce      uint64      // of the receipt by which it is leased
	by         *modelBatch // that has claimed it
	again      uint32      // not 0: that batch may receive it, which was handed out so often
	freed      time.Time   // when the last batch that had claimed it was settled
}

// dies returns when the message becomes a dead letter, if it was received often enough.
func (msg *modelMessage) dies() time.Time {
	if msg.freed.After(msg.hidden) {
		return msg.freed
	}
	return msg.hidden
}

// A modelReceipt is one that was given out.
type modelReceipt struct {
	Receipt
	opening int // of the queue, after which the nonce is good for nothing
}

// A modelKey is what a sender's key stands for.
type modelKey struct {
	id    ID
	until time.Time
}

// A model is the simplest queue there is: a list, looked through from its beginning.
type model struct {
	r        *rig
	rng      *rand.Rand
	messages map[ID]*modelMessage
	gone     map[ID]bool    // and must never be seen again
	receipts []modelReceipt // that were given out, good or not, landed or not
	keys     map[string]modelKey
	openings int
	open     []*modelBatch // those that are staged in at once
	seen     map[ID]bool   // ids that were given
	log      []string
}

// A modelBatch is a batch of the queue, and what it means.
type modelBatch struct {
	b       batch.Batch
	commit  []func()
	claimed []*modelMessage
	added   []*modelMessage // which it may receive
	keys    map[string]ID   // that it is about to take
	renewed []*modelMessage // stored ones that it replaces, and doesn't remove
	until   map[string]time.Time
}

const (
	modelVisibility = 10 * time.Second
	modelReceives   = 3
	modelWindow     = 30 * time.Second
)

// TestModel runs random operations, one by one and staged in several batches at once, with
// restarts, failed commits and commits whose outcome gets lost, and compares what they
// return with a model, and the memory with the store after every step.
func TestModel(t *testing.T) {
	seeds := testkit.Pick(5, 15, 120)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := Options{MaxMessages: 40, Visibility: modelVisibility, MaxReceive: modelReceives, KeyWindow: modelWindow,
					MemoryBytes: []int{-1, 60, 1 << 20}[seed%3]}
				engine := []kv.Engine{memkv.New(), engines.Far(memkv.New())}[seed/3%2]
				m := &model{r: newRigOn(t, engine, opts, batch.Limits{}), rng: rand.New(rand.NewPCG(uint64(seed), 7)),
					messages: map[ID]*modelMessage{}, gone: map[ID]bool{}, keys: map[string]modelKey{}, seen: map[ID]bool{}}
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
		m.reopen()
	case n < 6:
		m.several()
	default:
		var mb modelBatch
		m.stage(&mb)
		m.land(&mb)
	}
}

func (m *model) reopen() {
	m.r.reopen()
	m.openings++
	for id := range m.seen { // those of batches that didn't land may be given again
		if m.messages[id] == nil && !m.gone[id] {
			delete(m.seen, id)
		}
	}
}

// several stages in two batches in turns, and settles them in any order.
func (m *model) several() {
	m.note("two batches")
	var a, b modelBatch
	m.open = []*modelBatch{&a, &b}
	defer func() { m.open = nil }()
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
		synctest.Wait() // a lease may have ended meanwhile
		m.bury()
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
	if m.rng.IntN(3) == 0 {
		mb.b.Late(func(*batch.Batch) error {
			m.note("…more is staged when it is sealed")
			m.stage(mb)
			return nil
		})
	}
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
		m.reopen()
		return false
	}
	if err := m.r.actor.Commit(ctx, &mb.b); err != nil {
		m.r.t.Errorf("commit: %v", err)
	}
	m.landed(mb)
	return true
}

func (m *model) landed(mb *modelBatch) {
	m.giveUp(mb)
	for _, fn := range mb.commit {
		fn()
	}
	for key, id := range mb.keys {
		m.keys[key] = modelKey{id, mb.until[key]}
	}
}

func (m *model) giveUp(mb *modelBatch) {
	m.open = slices.DeleteFunc(m.open, func(o *modelBatch) bool { return o == mb })
	for _, msg := range mb.claimed {
		msg.by, msg.again, msg.freed = nil, 0, time.Now()
	}
}

func (mb *modelBatch) claim(msg *modelMessage) {
	if msg.by == nil {
		msg.by = mb
		mb.claimed = append(mb.claimed, msg)
	}
	msg.again = 0
}
