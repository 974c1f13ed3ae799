package archive

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
)

// epochsIn returns the numbers of the epochs that are in a bucket.
func epochsIn(t *testing.T, b bucket.Bucket) (all []uint64) {
	t.Helper()
	for o, err := range b.List(t.Context(), epochPrefix) {
		if err != nil {
			t.Fatal(err)
		}
		n, _ := parseNumber(epochPrefix, o.Name)
		all = append(all, n)
	}
	return all
}

// removeEpochs is Collect days later.
func removeEpochs(t *testing.T, b bucket.Bucket) {
	t.Helper()
	if _, err := Collect(t.Context(), &watched{b, func(string) {}}, time.Time{}); err != nil {
		t.Error(err)
	}
}

// other returns a store that is a copy, after so many Writers of it.
func (m *model) other(b bucket.Bucket, writers int) *model {
	m.t.Helper()
	if err := m.db.Sync(m.t.Context(), 0); err != nil {
		m.t.Fatal(err)
	}
	o := &model{t: m.t, dir: copyFolder(m.t, m.dir), bucket: b, opts: m.opts, rnd: m.rnd, rows: maps.Clone(m.rows), states: maps.Clone(m.states)}
	for range writers {
		o.open()
		o.start()
		o.sync()
		o.stop()
	}
	return o
}

// TestEpochsRemoved tests that old epochs are removed, that young ones stay, and that Writers count on.
func TestEpochsRemoved(t *testing.T) {
	b := buckettest.NewMemory()
	m := newModel(t, 81, b)
	m.commit(5)
	for range 5 {
		m.start()
		m.sync()
		m.stop()
		m.open()
	}
	if _, err := Collect(t.Context(), b, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if all := epochsIn(t, b); !slices.Equal(all, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("young epochs: %d are left", all)
	}
	for last := uint64(5); last < 8; last++ {
		removeEpochs(t, b)
		if all := epochsIn(t, b); !slices.Equal(all, []uint64{last}) {
			t.Errorf("%d are left, want %d", all, last)
		}
		m.start()
		m.commit(1)
		m.wantLines(1)
		m.stop()
		m.open()
	}
}

// TestEpochAges tests that of several old epochs the last one stays, with all that are younger.
func TestEpochAges(t *testing.T) {
	b := buckettest.NewMemory()
	m := newModel(t, 82, b)
	for range 5 {
		m.start()
		m.sync()
		m.stop()
		m.open()
	}
	if _, err := Collect(t.Context(), &aged{b, epochName(3)}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if all := epochsIn(t, b); !slices.Equal(all, []uint64{3, 4, 5}) {
		t.Errorf("%d are left", all)
	}
}

// TestFencedLongAgo tests that a Writer is fenced although it slept until the epoch behind its own was removed.
func TestFencedLongAgo(t *testing.T) {
	b := buckettest.NewMemory()
	m := newModel(t, 83, b)
	clock := m.clock()
	m.commit(5)
	m.start()
	m.sync()
	m.other(b, 3)
	removeEpochs(t, b)
	if all := epochsIn(t, b); !slices.Equal(all, []uint64{4}) {
		t.Fatalf("%d are left", all)
	}
	clock.Add(int64(24 * time.Hour))
	m.commit(1)
	<-m.w.done
	if err := m.w.Close(); !errors.Is(err, ErrFenced) {
		t.Error(err)
	}
}

// beforePut is a bucket that calls before when an object of a name is about to be stored.
type beforePut struct {
	bucket.Bucket
	name   string
	before func()
}

func (b *beforePut) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if name == b.name && b.before != nil {
		before := b.before
		b.before = nil
		before()
	}
	return b.Bucket.Put(ctx, name, body, how)
}

// TestTakenLate tests that a number which is free because its epoch was removed is nothing that a Writer can begin with, nor an Erase.
func TestTakenLate(t *testing.T) {
	memory := buckettest.NewMemory()
	b := &beforePut{Bucket: memory, name: epochName(2)}
	m := newModel(t, 84, b)
	m.commit(5)
	m.start()
	m.sync()
	m.stop()
	m.open()
	reached, others := make(chan struct{}), make(chan struct{})
	b.before = func() { // in a goroutine of the Writer
		close(reached)
		<-others
	}
	m.start()
	<-reached
	m.other(memory, 3)
	removeEpochs(t, memory)
	close(others)
	<-m.w.done
	if err := m.w.Close(); !errors.Is(err, ErrFenced) {
		t.Error(err)
	}
	if all := epochsIn(t, memory); !slices.Equal(all, []uint64{2, 4}) {
		t.Errorf("the epochs are %d", all)
	}
	removeEpochs(t, memory)
	b.name, b.before = epochName(5), func() {
		m.other(memory, 3)
		removeEpochs(t, memory)
	}
	w := &eraser{a: &Archive{bucket: b}}
	if err := w.fence(t.Context()); !errors.Is(err, ErrFenced) {
		t.Error(err)
	}
	m.start() // it has the last epoch then
	m.commit(1)
	m.wantLines(1)
	if all := epochsIn(t, memory); !slices.Equal(all, []uint64{5, 7, 8}) {
		t.Errorf("the epochs are %d", all)
	}
}

// aged is a bucket of which the objects up to a name were stored long ago.
type aged struct {
	bucket.Bucket
	upto string
}

func (b *aged) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	return func(yield func(bucket.Object, error) bool) {
		for o, err := range b.Bucket.List(ctx, prefix) {
			if o.Name <= b.upto {
				o.Modified = time.Time{}
			}
			if !yield(o, err) {
				return
			}
		}
	}
}
