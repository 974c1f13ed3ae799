package kv_test

import (
	"fmt"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/metrics/prom"
)

// A counted store counts what is done with typed keys.
type counted struct {
	*direct
	sums  map[*metrics.Metric]int64
	times map[*metrics.Metric]time.Duration
}

func (c *counted) KeySink() metrics.Sink                      { return c }
func (c *counted) Add(m *metrics.Metric, n int64)             { c.sums[m] += n }
func (c *counted) Observe(m *metrics.Metric, d time.Duration) { c.times[m] += d }

// A countedKey is a memberKey with metrics.
type countedKey struct{ memberKey }

var countedKeys = kv.NewKeyMetrics("counted")

func (k *countedKey) KeyMetrics() *kv.KeyMetrics { return countedKeys }

func TestKeyMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{mixed(t), map[*metrics.Metric]int64{}, map[*metrics.Metric]time.Duration{}}
		slow := struct {
			spy2
			*counted
		}{spy2{c, func() { time.Sleep(time.Second) }}, c}
		in := kv.In(readWriteSink{slow.spy2, c, c}, sub())
		k := countedKey{under{"b"}.member(1)}
		_, err := kv.Get(ctx, in, k)
		must(t, err)
		_, err = kv.Get(ctx, in, profileKey{under{"b"}})
		must(t, err)
		_, err = kv.Exists(ctx, in, k)
		must(t, err)
		must(t, kv.Put(in, visitsKey{under{"b"}}, 3))
		must(t, kv.Add(in, visitsKey{under{"b"}}, 3))
		must(t, kv.Delete(in, k))
		n := len(words(t, kv.All[countedKey](ctx, in, kv.Sub(under{"b"}), nil)))
		must(t, kv.DeleteSubspace(in, sub("x")))
		var got []string
		for m, n := range c.sums {
			got = append(got, fmt.Sprintf("%s %s %d", m.Name, m.Value, n))
		}
		for m, d := range c.times {
			got = append(got, fmt.Sprintf("%s %s %v", m.Name, m.Value, d))
		}
		sort.Strings(got)
		equal(t, "counted", got,
			"kv_key_bytes get 12", "kv_key_bytes mutate 8", "kv_key_bytes put 8",
			"kv_key_entries matched 3", "kv_key_entries skipped 4",
			"kv_key_operations delete 1", "kv_key_operations delete_subspace 1", "kv_key_operations exists 1",
			"kv_key_operations get 2", "kv_key_operations mutate 1", "kv_key_operations put 1", "kv_key_operations scan 1",
			"kv_key_packs counted 3", "kv_key_read exists 0s", "kv_key_read get 0s", "kv_key_read scan 7s", "kv_key_unpacks counted 3")
		if n != 3 {
			t.Errorf("%d members are left", n)
		}
		// What is counted is what a Sink can be told beforehand.
		known := map[*metrics.Metric]bool{}
		for _, m := range append(kv.KeyOperationMetrics(), countedKeys.Metrics()...) {
			known[m] = true
		}
		for m := range c.sums {
			if !known[m] {
				t.Errorf("%s %s is not in the lists", m.Name, m.Value)
			}
		}
		for m := range c.times {
			if !known[m] || m.Kind != metrics.Timer {
				t.Errorf("%s %s is not in the lists, or of another kind", m.Name, m.Value)
			}
		}
	})
	if _, err := prom.New(append(kv.KeyOperationMetrics(), countedKeys.Metrics()...)...); err != nil {
		t.Error(err)
	}
}

type readWriteSink struct {
	kv.Reader
	kv.Mutator
	kv.Metered
}
