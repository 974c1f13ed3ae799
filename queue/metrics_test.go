package queue

import (
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/part"

	"github.com/greenroomdb/greenroom/metrics"
)

// A tally is a Sink that keeps sums by the values of labels.
type tally struct {
	mu    sync.Mutex
	sums  map[string]int64
	waits []time.Duration
}

func (s *tally) Add(m *metrics.Metric, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums[m.Labels[0].Value] += n
}

func (s *tally) Observe(_ *metrics.Metric, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, d)
}

// TestMetrics tells a Sink what happened to messages.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &tally{sums: map[string]int64{}}
		r := newRig(t, Options{Env: part.Env{Metrics: sink}, MaxReceive: 2, Visibility: time.Second})
		r.keyed("a", "k")
		r.keyed("a", "k")
		r.enqueue("a", nil)
		r.enqueue("a", nil)
		later(time.Minute)
		msgs := r.try(ReceiveOptions{Count: 3})
		must(t, msgs[0].Complete(ctx, nil))
		must(t, msgs[1].Nack(ctx, time.Hour, nil))
		later(time.Second) // the third one's lease ends
		r.one(ReceiveOptions{})
		later(time.Second) // and again: it becomes a dead letter
		synctest.Wait()
		_, err := r.q.Purge(ctx)
		must(t, err)
		want := map[string]int64{"enqueued": 4, "duplicate": 1, "received": 4, "completed": 1, "returned": 1,
			"expired": 2, "dead": 1, "deleted": 2}
		if !maps.Equal(sink.sums, want) {
			t.Errorf("got %v, want %v", sink.sums, want)
		}
		if len(sink.waits) != 4 || sink.waits[0] != time.Minute {
			t.Errorf("waits %v", sink.waits)
		}
		seen := map[string]bool{}
		for _, m := range Metrics() {
			if key := m.String(); seen[key] || m.Help == "" {
				t.Errorf("metric %s is listed twice, or says nothing", key)
			} else {
				seen[key] = true
			}
		}
	})
}
