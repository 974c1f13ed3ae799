package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
)

// workshop is an actor that answers messages with a model, so many at once. fail is asked before each answer lands, and may be nil.
func workshop(at int, fail func(question string, delivery int) error) (kind *Type, most *atomic.Int64) {
	most = &atomic.Int64{}
	var now atomic.Int64
	kind = thing(answered)
	kind.Work = &Work{Names: []string{"ask"}, Concurrency: at, Do: func(ctx context.Context, m *queue.Message) (func(*Context) error, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		var question string
		if err := m.Decode(&question); err != nil {
			return nil, err
		}
		answer, err := model(ctx, question)
		if err == nil && fail != nil {
			err = fail(question, int(m.Deliveries))
		}
		return func(c *Context) error { return note(c, answer) }, err
	}}
	return kind, most
}

func (r *rig) ask(questions ...string) {
	r.Helper()
	for _, q := range questions {
		_, err := r.Send(r.ctx, lobby, queue.Send{Name: "ask", Body: q})
		must(r, err)
	}
}

// TestWork: messages are worked on so many at once, beside turns, for longer than their lease and than an actor stays awake; each lands once.
func TestWork(t *testing.T) {
	kind, most := workshop(2, nil)
	bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
		r.ask("1", "2", "3")
		pass(modelTime - time.Second)
		r.wantAwake(1)
		r.wantAnswers("") // a turn, beside the work
		pass(2 * time.Second)
		r.wantAnswers("re: 1\nre: 2\n")
		pass(modelTime)
		r.wantAnswers("re: 1\nre: 2\nre: 3\n")
		pass(time.Hour)
		r.wantAwake(0)
		r.wantAnswers("re: 1\nre: 2\nre: 3\n")
		if most.Load() != 2 {
			t.Errorf("%d at once", most.Load())
		}
	}, kind)
}

// TestWorkFails: work that fails, or panics, comes again later, and is a dead letter in the end; work of which the results can't land, too.
func TestWorkFails(t *testing.T) {
	var mu sync.Mutex
	tries := map[string]int{}
	kind, _ := workshop(3, func(question string, delivery int) error {
		mu.Lock()
		defer mu.Unlock()
		if tries[question]++; tries[question] != delivery {
			t.Errorf("%s: delivery %d is the attempt %d", question, delivery, tries[question])
		}
		switch {
		case question == "never":
			return &Error{Code: "no_idea", Message: "There is no answer."}
		case question == "doomed":
			return queue.Permanent(errRefused)
		case question == "later" && delivery < 3:
			panic("on purpose")
		}
		return nil
	})
	do := kind.Work.Do
	kind.Work.Do = func(ctx context.Context, m *queue.Message) (func(*Context) error, error) {
		land, err := do(ctx, m)
		if m.Deliveries == 1 && err == nil {
			return func(c *Context) error { return errors.Join(note(c, "half"), errRefused) }, nil
		}
		return land, err
	}
	kind.Queue.MaxReceive = 4
	dead := 0
	bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
		r.ask("never", "later", "once", "doomed")
		pass(time.Hour)
		r.wantAwake(0)
		r.wantAnswers("re: once\nre: later\n")
		must(r, r.Visit(r.ctx, idOf(lobby), func(ctx context.Context, a *greenroom.Actor) error {
			q, err := a.Queue(ctx)
			if err == nil {
				dead, err = q.Redrive(ctx, nil)
			}
			return err
		}))
	}, kind)
	if !slices.Equal([]int{tries["never"], tries["later"], tries["once"], tries["doomed"]}, []int{4, 3, 2, 1}) || dead != 2 {
		t.Errorf("tried %v, dead %d", tries, dead)
	}
}

// TestWorkRestart: a host that is closed gives the message back, and one that is killed leaves it to its lease; the next host does the work, without a call, and what the
// killed one still does lands nowhere.
func TestWorkRestart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		kind, _ := workshop(1, nil)
		bubble(t, Options{IdleTimeout: 10 * time.Second}, func(r *rig) {
			r.ask("why?")
			pass(time.Minute)
			if !killed {
				r.reopen()
				pass(modelTime + time.Second)
				r.wantAnswers("re: why?\n")
				return
			}
			gone := r.crash()
			pass(modelTime + time.Minute)
			r.wantAnswers("re: why?\n")
			_ = gone.Close(r.ctx) // it has lost its store
			r.wantAnswers("re: why?\n")
		}, kind)
	}
}

// TestWorkTypes: a type must say which part of it takes which messages.
func TestWorkTypes(t *testing.T) {
	do := func(context.Context, *queue.Message) (func(*Context) error, error) { return nil, nil }
	message := func(*Context, *greenroom.Message) error { return nil }
	for _, c := range []struct {
		what string
		kind Type
		ok   bool
	}{
		{"all messages", Type{Work: &Work{Do: do}}, true},
		{"others", Type{Work: &Work{Names: []string{"a"}, Do: do}, Message: message, MessageNames: []string{"b"}}, true},
		{"no function", Type{Work: &Work{}}, false},
		{"negative", Type{Work: &Work{Do: do, Concurrency: -1}}, false},
		{"all in two ways", Type{Work: &Work{Do: do}, Message: message, MessageNames: []string{"b"}}, false},
		{"all but some", Type{Work: &Work{Names: []string{"a"}, Do: do}, Message: message}, false},
		{"one in two ways", Type{Work: &Work{Names: []string{"a", "b"}, Do: do}, Message: message, MessageNames: []string{"b"}}, false},
	} {
		c.kind.Name = "thing"
		if err := c.kind.check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrTypes) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
