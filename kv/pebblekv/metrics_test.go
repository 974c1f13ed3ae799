package pebblekv

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/metrics"
)

// A meter is a metrics.Sink that counts by the kind of file, or by the name of a metric without kinds.
type meter struct {
	mu sync.Mutex
	n  map[string]int64 // +checklocks:mu
}

func (m *meter) Add(what *metrics.Metric, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := what.Name
	if len(what.Labels) > 0 {
		key = what.Labels[0].Value
	}
	m.n[key] += n
}

func (m *meter) Observe(*metrics.Metric, time.Duration) {}

// take returns what was counted of the log, and of all files, since the last take.
func (m *meter) take() (log, all int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log = m.n["log"]
	all = log + m.n["table"] + m.n["other"]
	clear(m.n)
	return log, all
}

// TestFsyncs: the metric has every fsync that reaches the disk, of whatever file, and
// those of the log one for one.
func TestFsyncs(t *testing.T) {
	d, m := newDisk(vfs.NewMem()), &meter{n: map[string]int64{}}
	var below atomic.Int64
	d.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			below.Add(1)
		}
		return nil
	})
	db, err := open("store", &Options{Metrics: m}, d)
	if err != nil {
		t.Fatal(err)
	}
	log, all := m.take()
	if all <= log {
		t.Errorf("to open a new store took %d fsyncs, %d of them of the log: want some of others", all, log)
	}
	total := all
	if err := db.Commit(ctx, numbered(0)); err != nil {
		t.Fatal(err)
	}
	if log, all = m.take(); log != 4 || all != log {
		t.Errorf("the first file of the log took %d fsyncs, %d of them of the log: want one each of its name, the file, the one before it and the record", all, log)
	}
	total += all
	ops := []kv.Op{kv.Set([]byte("k"), []byte("v"))}
	for _, step := range []struct {
		name string
		do   func() error
		want int64
	}{
		{"applied", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}) }, 0},
		{"durable", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops}) }, 1},
		{"applied again", func() error { return db.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}) }, 0},
		{"Sync", func() error { return db.Sync(ctx, db.Incarnation()) }, 1},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if log, all := m.take(); log != step.want || all != step.want {
			t.Errorf("%s: %d fsyncs, %d of them of the log; want %d of the log alone", step.name, all, log, step.want)
		}
		total += step.want
	}
	if err := db.store.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tables := m.of("table")
	if _, all = m.take(); tables == 0 {
		t.Error("a flush took no fsync of a table")
	}
	// Opening the directory's parents is before there is a store.
	if got := total + all; got > below.Load() || got < below.Load()-3 {
		t.Errorf("%d fsyncs were counted, and %d reached the disk", got, below.Load())
	}
}

func (m *meter) of(file string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n[file]
}

// TestSharedFsyncs: durable commits that wait at the same time are counted as few fsyncs.
func TestSharedFsyncs(t *testing.T) {
	const workers = 200
	d, m := newDisk(vfs.NewMem()), &meter{n: map[string]int64{}}
	db, err := open("store", &Options{Metrics: m}, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, numbered(0)); err != nil { // the log's first file
		t.Fatal(err)
	}
	m.take()
	var here, done sync.WaitGroup
	here.Add(workers)
	d.set(func(op errorfs.Op) error { // the first sync waits for all
		if isLog(op) && isSync(op) {
			here.Wait()
		}
		return nil
	})
	within(t, "a commit beside a sync", func() {
		for w := range workers {
			done.Go(func() {
				if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(fmt.Append(nil, w), nil)}, OnApply: here.Done}); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	})
	if log, _ := m.take(); log == 0 || log > 3 {
		t.Errorf("%d durable commits at once took %d fsyncs of the log, want 1 to 3", workers, log)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestFsyncsOf: files are told apart by their names; blobs are tables, too.
func TestFsyncsOf(t *testing.T) {
	for name, want := range map[string]*metrics.Metric{
		"000004.sst": metricTableFsyncs, "000005.blob": metricTableFsyncs,
		"MANIFEST-000001": metricOtherFsyncs, "dir": metricOtherFsyncs,
	} {
		if got := fsyncsOf(name); got != want {
			t.Errorf("%s counts as %s, want %s", name, got.Labels[0].Value, want.Labels[0].Value)
		}
	}
}
