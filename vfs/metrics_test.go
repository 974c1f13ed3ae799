package vfs_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/vfs"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/metrics/prom"
)

// A tally is a Sink that adds up.
type tally struct {
	mu    sync.Mutex
	sums  map[*metrics.Metric]int64
	times map[*metrics.Metric]int
	calls int
}

func newTally() *tally {
	return &tally{sums: map[*metrics.Metric]int64{}, times: map[*metrics.Metric]int{}}
}

func (s *tally) Add(m *metrics.Metric, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if n < 1 || m.Kind != metrics.Counter {
		panic(fmt.Sprintf("add %d to %s", n, m.Name))
	}
	s.sums[m] += n
}

func (s *tally) Observe(m *metrics.Metric, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if d < 0 || m.Kind != metrics.Timer {
		panic(fmt.Sprintf("observe %v of %s", d, m.Name))
	}
	s.times[m]++
}

// What a Sink is told is what Stats counts, on every path.
func TestMetrics(t *testing.T) {
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, batch.Limits{})
			sink := newTally()
			db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{Env: part.Env{Metrics: sink}, TxMemory: 1, Pragmas: []string{"cache_size=10", "journal_mode=" + mode}})
			if err != nil {
				t.Fatal(err)
			}
			exec(t, db, "create table t(a integer primary key, b)")
			exec(t, db, "insert into t(b) values (1)")
			exec(t, db, "with n(i) as (select 1 union all select i+1 from n where i < 1000) insert into t(b) select randomblob(3000) from n")
			exec(t, db, "update t set b = randomblob(3000)")
			one[int](t, db, "select sum(length(b)) from t")
			d, err := vfs.DatabaseOf(vfs.VFSOf(db), vfs.MountName)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			stats := d.Stats()
			seen := 0
			for m, want := range vfs.Told(&stats) {
				if got := sink.sums[m]; got != want {
					t.Errorf("%s: %d, want %d", m, got, want)
				} else if got > 0 {
					seen++
				}
			}
			if seen < 4 || sink.times[vfs.ApplyTime] == 0 || sink.times[vfs.DurableTime] == 0 {
				t.Errorf("%d counters moved; %+v", seen, stats)
			}
		})
	}
}

// Every counter of Stats but one is told, and what is told has a place in Prometheus.
func TestMetricsList(t *testing.T) {
	var stats vfs.Stats
	v := reflect.ValueOf(&stats).Elem()
	told := 0
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(i) + 1)
		n := 0
		for _, is := range vfs.Told(&stats) {
			if is == int64(i)+1 {
				n++
			}
		}
		name := v.Type().Field(i).Name
		if n > 1 || n == 0 && name != "MostBehind" {
			t.Errorf("Stats.%s is told %d times", name, n)
		}
		told += n
	}
	if all := len(vfs.Told(&stats)); told != all {
		t.Errorf("%d of %d metrics are fields of Stats", told, all)
	}
	if _, err := prom.New(vfs.Metrics()...); err != nil {
		t.Error(err)
	}
}

// A transaction that finds its pages in the cache tells a Sink little.
func TestMetricsCost(t *testing.T) {
	r := newRig(t, batch.Limits{})
	sink := newTally()
	db := r.open(t, &vfs.Options{Env: part.Env{Metrics: sink}, MaxConns: 1})
	exec(t, db, "create table t(a integer primary key, b); insert into t(b) values (1)")
	one[int](t, db, "select b from t")
	before := sink.calls
	for range 100 {
		one[int](t, db, "select b from t")
	}
	if n := sink.calls - before; n > 0 {
		t.Errorf("%d calls for 100 reads of the cache", n)
	}
}

// A failure is counted once, however often it is met.
func TestMetricsFailure(t *testing.T) {
	r := newRig(t, batch.Limits{})
	sink := newTally()
	db := r.open(t, &vfs.Options{Env: part.Env{Metrics: sink}})
	exec(t, db, "create table t(a)")
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.AfterApply {
			return errInjected
		}
		return nil
	})
	for range 3 {
		if _, err := db.ExecContext(t.Context(), "insert into t values (1)"); err == nil {
			t.Error("no error")
		}
	}
	r.Engine.Hook(nil)
	if n := sink.sums[vfs.Failures]; n != 1 {
		t.Errorf("%d failures", n)
	}
}
