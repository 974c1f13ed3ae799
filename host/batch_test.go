package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// A packer is an actor that takes messages in batches, and keeps what each batch had.
type packer struct {
	mu      sync.Mutex // of what follows
	began   time.Time
	batches [][]int         // what each turn got, landed or not
	at      []time.Duration // when, since began
	fail    func(all []int) error
}

// kind returns its type, of batches of at most count messages named "row".
func (p *packer) kind(count int, linger time.Duration) *Type {
	kind := thing(answered)
	kind.Queue.MaxReceive = 3
	kind.Batch = &Batch{Names: []string{"row"}, Count: count, Linger: linger, Do: func(c *Context, all []*greenroom.Message) error {
		var got []int
		for _, m := range all {
			var n int
			if err := m.Decode(&n); err != nil {
				return err
			}
			got = append(got, n)
			if err := note(c, fmt.Sprint(n)); err != nil {
				return err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.batches, p.at = append(p.batches, got), append(p.at, time.Since(p.began))
		if p.fail != nil {
			return p.fail(got)
		}
		return nil
	}}
	return kind
}

// set changes p while turns may run.
func (p *packer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// want compares what the turns got, and when, and forgets it.
func (p *packer) want(t *testing.T, what string, batches [][]int, at ...time.Duration) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !reflect.DeepEqual(p.batches, batches) || !slices.Equal(p.at, at) {
		t.Errorf("%s: got %v at %v, want %v at %v", what, p.batches, p.at, batches, at)
	}
	p.batches, p.at, p.began = nil, nil, time.Now()
}

func (r *rig) pack(numbers ...int) {
	r.Helper()
	for _, n := range numbers {
		_, err := r.Send(r.ctx, lobby, queue.Send{Name: "row", Body: n})
		must(r, err)
	}
}

// dead returns how many dead letters the lobby has.
func (r *rig) dead(name string) (n int) {
	r.Helper()
	must(r, r.Store().View(r.ctx, lobby.String(), func(v *greenroom.View) error {
		for m, err := range v.Messages(&queue.ListOptions{Names: []string{name + ".dlq"}}) {
			if err != nil {
				return err
			}
			if n++; m.Err != nil {
				r.Errorf("message %s: %v", m.ID, m.Err)
			}
		}
		return nil
	}))
	return n
}

// TestBatchGathers: a turn gets so many messages as soon as they are there, or those that are there when the first has waited for long enough, while the
// actor is kept awake.
func TestBatchGathers(t *testing.T) {
	p := &packer{}
	bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
		p.began = time.Now()
		r.pack(1, 2)
		pass(time.Second)
		r.pack(3, 4)
		pass(0)
		p.want(t, "enough", [][]int{{1, 2, 3}}, time.Second)
		pass(8 * time.Second)
		r.pack(5)
		pass(time.Minute)
		p.want(t, "the time", [][]int{{4, 5}}, 10*time.Second)
		r.wantAwake(0)
		r.pack(6)
		pass(5 * time.Second)
		r.wantAwake(1)
		pass(time.Minute)
		p.want(t, "one", [][]int{{6}}, 10*time.Second)
		r.pack(7, 8, 9, 10, 11, 12, 13)
		pass(time.Minute)
		p.want(t, "many", [][]int{{7, 8, 9}, {10, 11, 12}, {13}}, 0, 0, 10*time.Second)
		r.wantAnswers("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n")
	}, p.kind(3, 10*time.Second))
}

// TestBatchPoisoned: of ten messages one makes each turn fail that has it. It ends as a dead letter, and the nine others are done, each by itself;
// new messages come in batches meanwhile. An error that Permanent has marked counts when the message is by itself.
func TestBatchPoisoned(t *testing.T) {
	for _, permanent := range []bool{false, true} {
		p := &packer{fail: func(all []int) error {
			if !slices.Contains(all, 4) {
				return nil
			}
			if permanent {
				return queue.Permanent(errRefused)
			}
			panic("on purpose")
		}}
		bubble(t, Options{IdleTimeout: time.Second}, func(r *rig) {
			p.began = time.Now()
			r.pack(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
			pass(0)
			p.want(t, "at once", [][]int{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, 0)
			r.wantAnswers("")
			r.pack(11, 12)
			pass(time.Hour)
			r.wantAnswers("1\n2\n3\n5\n6\n7\n8\n9\n10\n11\n12\n")
			want := map[int]int{4: 2}
			if permanent {
				want[4] = 1
			}
			for _, all := range p.batches {
				if all[0] < 11 && len(all) > 1 || all[0] == 11 && len(all) != 2 {
					t.Errorf("a turn got %v", all)
				}
				if all[0] == 4 {
					want[4]--
				}
			}
			if n := r.dead("row"); n != 1 || want[4] != 0 {
				t.Errorf("there are %d dead letters; the turns got %v", n, p.batches)
			}
		}, p.kind(10, 10*time.Second))
	}
}

// TestBatchRestart: messages that wait for others when the host is closed are taken by the next host, when the first has waited for long enough.
func TestBatchRestart(t *testing.T) {
	p := &packer{}
	bubble(t, Options{}, func(r *rig) {
		p.began = time.Now()
		r.pack(1, 2)
		pass(4 * time.Second)
		r.reopen()
		p.want(t, "closed", nil)
		p.set(func() { p.began = p.began.Add(-4 * time.Second) })
		pass(time.Minute)
		p.want(t, "opened again", [][]int{{1, 2}}, 10*time.Second)
		p.set(func() { p.fail = func([]int) error { return errRefused } })
		r.pack(3, 4, 5)
		pass(0)
		p.want(t, "failed", [][]int{{3, 4, 5}}, 0)
		r.reopen()
		p.set(func() { p.fail = nil })
		pass(time.Minute)
		if len(p.batches) != 3 {
			t.Errorf("after a batch that failed the next host gets %v", p.batches)
		}
		r.wantAnswers("1\n2\n3\n4\n5\n")
	}, p.kind(3, 10*time.Second))
}

// TestBatchSettled: what Do settles itself stays as it says.
func TestBatchSettled(t *testing.T) {
	kind := thing(answered)
	times := map[string]int{}
	kind.Batch = &Batch{Count: 9, Linger: time.Second, Do: func(c *Context, all []*greenroom.Message) error {
		var err error
		for i, m := range all {
			if times[m.Name]++; times[m.Name] == 1 && m.Name == "later" {
				err = errors.Join(err, m.Nack(time.Minute, nil))
			}
			err = errors.Join(err, note(c, fmt.Sprint(m.Name, " ", i+1, " of ", len(all))))
		}
		return err
	}}
	bubble(t, Options{}, func(r *rig) {
		for _, name := range []string{"a", "later", "b"} {
			_, err := r.Send(r.ctx, lobby, queue.Send{Name: name})
			must(t, err)
		}
		pass(time.Hour)
		r.wantAnswers("a 1 of 3\nlater 2 of 3\nb 3 of 3\nlater 1 of 1\n")
	}, kind)
}

// TestBatchTooLarge: a batch of which no commit has room is given back in several, and then done one by one.
func TestBatchTooLarge(t *testing.T) {
	p := &packer{}
	kind := p.kind(40, time.Second)
	bubble(t, Options{Store: &greenroom.Options{Limits: batch.Limits{AtomicBatches: 1, Entries: 16}}}, func(r *rig) {
		var numbers []int
		want := ""
		for n := range 40 {
			numbers = append(numbers, n)
			want += fmt.Sprintln(n)
		}
		r.pack(numbers...)
		pass(time.Hour)
		r.wantAnswers(want)
		if len(p.batches) != 41 || len(p.batches[0]) != 40 {
			t.Errorf("the turns got %v", p.batches)
		}
	}, kind)
}

// TestBatchTypes: what takes messages says which ones if something else does, too.
func TestBatchTypes(t *testing.T) {
	do := func(*Context, []*greenroom.Message) error { return nil }
	work := func(context.Context, *queue.Message) (func(*Context) error, error) { return nil, nil }
	message := func(*Context, *greenroom.Message) error { return nil }
	flow := NewWorkflow(func(*workflow.Context, int) (int, error) { return 0, nil }, nil)
	a := []string{"a"}
	for what, tt := range map[string]struct {
		kind Type
		good bool
	}{
		"all":                  {Type{Batch: &Batch{Count: 1, Do: do}}, true},
		"others":               {Type{Batch: &Batch{Names: a, Count: 2, Do: do}, Message: message, MessageNames: []string{"b"}}, true},
		"no function":          {Type{Batch: &Batch{Count: 2}}, false},
		"no count":             {Type{Batch: &Batch{Do: do}}, false},
		"negative":             {Type{Batch: &Batch{Count: 2, Linger: -1, Do: do}}, false},
		"one attempt":          {Type{Batch: &Batch{Count: 2, Do: do}, Queue: greenroom.QueueOptions{MaxReceive: 1}}, false},
		"all in two ways":      {Type{Batch: &Batch{Count: 2, Do: do}, Message: message, MessageNames: a}, false},
		"all but some":         {Type{Batch: &Batch{Names: a, Count: 2, Do: do}, Message: message}, false},
		"one in two ways":      {Type{Batch: &Batch{Names: a, Count: 2, Do: do}, Message: message, MessageNames: []string{"b", "a"}}, false},
		"work as well":         {Type{Batch: &Batch{Names: a, Count: 2, Do: do}, Work: &Work{Names: a, Do: work}}, false},
		"beside a workflow":    {Type{Batch: &Batch{Count: 2, Do: do}, Workflow: flow}, false},
		"names and a workflow": {Type{Batch: &Batch{Names: a, Count: 2, Do: do}, Workflow: flow}, true},
	} {
		tt.kind.Name = "thing"
		if err := tt.kind.check(); (err == nil) != tt.good || err != nil && !errors.Is(err, ErrTypes) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
