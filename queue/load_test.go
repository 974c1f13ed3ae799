package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestMetadata makes them anew when they are missing, damaged or behind: an id that was
// given is never given again.
func TestMetadata(t *testing.T) {
	damage := map[string]func(r *rig){
		"missing": func(r *rig) { must(r.t, r.actor.Delete(ctx, metadataKey(layout))) },
		"empty":   func(r *rig) { r.stored(metadataKey(layout), nil) },
		"cut":     func(r *rig) { r.stored(metadataKey(layout), []byte{4, 0, 1}) },
		"newer":   func(r *rig) { r.stored(metadataKey(layout), []byte{5, 0, 1}) },
		"long":    func(r *rig) { r.stored(metadataKey(layout), make([]byte, 25_000)) },
		"behind":  func(r *rig) { r.stored(metadataKey(layout), (&metadata{1, 0}).append(nil)) },
		"size":    func(r *rig) { r.stored(metadataKey(layout), (&metadata{4, 77}).append(nil)) },
		"end": func(r *rig) {
			r.stored(metadataKey(layout), (&metadata{math.MaxUint64, 3}).append(nil))
		},
		"absurd": func(r *rig) {
			r.stored(metadataKey(layout), (&metadata{lastID + 2, 3}).append(nil))
		},
		"full": func(r *rig) {
			r.stored(metadataKey(layout), (&metadata{4, math.MaxUint32}).append(nil))
		},
		"zero": func(r *rig) { r.stored(metadataKey(layout), (&metadata{0, 3}).append(nil)) },
	}
	for what, damage := range damage {
		r := newRig(t, Options{})
		for range 3 {
			r.enqueue("a", "x")
		}
		must(t, r.q.Close())
		damage(r)
		r.wantNoWrites(what)
		if id := r.enqueue("a", nil); id != 4 {
			t.Errorf("%s: the next id is %s", what, id)
		}
		r.verify(what)
		r.reopen()
		if r.q.numbers.rebuilt {
			t.Errorf("%s: they were not stored right", what)
		}
		wantIDs(t, what, ids(r.try(ReceiveOptions{Count: 9})), 1, 2, 3, 4)
		r.verify(what + ", opened again")
	}
}

// wantNoWrites opens the queue, which must write nothing.
func (r *rig) wantNoWrites(what string) {
	r.t.Helper()
	if c := r.counted(r.open2); c.Commits > 0 {
		r.t.Errorf("%s: opening made %d commits", what, c.Commits)
	}
}

// TestMetadataRowDamaged makes them anew when the rows of their value are damaged, too.
func TestMetadataRowDamaged(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	must(t, r.q.Close())
	r.damage(metadataKey(layout))
	r.wantNoWrites("damaged rows")
	if id := r.enqueue("a", nil); id != 2 {
		t.Errorf("the next id is %s", id)
	}
	r.reopen()
	if r.q.numbers.rebuilt || r.q.Stats().Next != 3 {
		t.Errorf("next %s, or they were not stored right", r.q.Stats().Next)
	}
}

// damage removes a row of a key.
func (r *rig) damage(key []byte) {
	r.t.Helper()
	rows := r.rowsOf(key)
	must(r.t, r.engine.Unwrap().Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(rows[len(rows)-1])}}))
}

// rowsOf returns the physical keys of a key's rows.
func (r *rig) rowsOf(key []byte) (rows [][]byte) {
	r.t.Helper()
	before := r.physical()
	value, err := r.actor.Get(ctx, key, nil)
	must(r.t, err)
	must(r.t, r.actor.Delete(ctx, key))
	after := r.physical()
	for k := range before {
		if _, there := after[k]; !there {
			rows = append(rows, []byte(k))
		}
	}
	must(r.t, r.actor.Put(ctx, key, value))
	slicesSort(rows)
	return rows
}

func (r *rig) physical() map[string]bool {
	r.t.Helper()
	all := map[string]bool{}
	for e, err := range r.engine.Unwrap().Scan(ctx, kv.Range{}) {
		must(r.t, err)
		all[string(e.Key)] = true
	}
	return all
}

func slicesSort(keys [][]byte) {
	for i := range keys {
		for j := i; j > 0 && bytes.Compare(keys[j-1], keys[j]) > 0; j-- {
			keys[j-1], keys[j] = keys[j], keys[j-1]
		}
	}
}

// TestQuarantine sets aside what can't be read: it is listed, isn't lost, and isn't
// in the way.
func TestQuarantine(t *testing.T) {
	r := newRigWith(t, Options{MaxMessages: 6}, batch.Limits{})
	for range 9 {
		if _, err := r.q.Enqueue(ctx, Send{Name: "a", Body: "x"}); err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	must(t, r.q.Close())
	good, err := r.actor.Get(ctx, appendMessageKey(layout, nil, 1), nil)
	must(t, err)
	r.stored(appendMessageKey(layout, nil, 2), []byte("\x04\x00rubbish"))
	r.stored(appendMessageKey(layout, nil, 3), append(bytes.Clone(good), 0))
	r.stored(appendMessageKey(layout, nil, 4), append([]byte{rankedVersion + 1, 0}, good[2:]...))
	r.stored([]byte{actorstore.NamespaceQueue, 9}, good)
	r.damage(appendMessageKey(layout, nil, 5))
	r.wantNoWrites("quarantine")
	bad := r.q.Quarantined()
	var got []ID
	for _, b := range bad {
		got = append(got, b.ID)
		if want := map[bool]error{true: actorstore.ErrNewerFormat, false: actorstore.ErrCorrupt}[b.ID == 4]; !errors.Is(b.Err, want) {
			t.Errorf("message %s: %v", b.ID, b.Err)
		}
	}
	wantIDs(t, "quarantined", got, 2, 3, 4, 5, 0)
	if s := r.q.Stats(); s.Quarantined != 5 || s.Messages != 2 || s.Next != 7 {
		t.Errorf("stats %+v", s)
	}
	// There is room for the good ones, however many bad ones there are.
	for want := range 4 {
		if id := r.enqueue("b", nil); id != ID(7+want) {
			t.Errorf("id %s", id)
		}
	}
	wantIDs(t, "received", ids(r.try(ReceiveOptions{Count: 99})), 1, 6, 7, 8, 9, 10)
	// They are listed, deleted on demand, and stay if that fails.
	snap, err := r.actor.Snapshot(ctx)
	must(t, err)
	listed := map[ID]bool{}
	for m, err := range List(ctx, snap, time.Now(), nil) {
		must(t, err)
		listed[m.ID] = m.Err != nil
	}
	must(t, snap.Close())
	if len(listed) != 11 || !listed[2] || !listed[0] || listed[1] || !listed[5] {
		t.Errorf("listed %v", listed)
	}
	var b batch.Batch
	must(t, r.q.In(&b).Delete(2))
	wantErr(t, "twice", r.q.In(&b).Delete(2), ErrGone)
	b.Abort(nil)
	removed, err := r.q.Delete(ctx, 2, 3, 4)
	must(t, err)
	wantIDs(t, "removed", removed, 2, 3, 4)
	// One that has lost its METADATA row can be removed, and isn't charged any more.
	removed, err = r.q.Delete(ctx, 5)
	must(t, err)
	wantIDs(t, "removed", removed, 5)
	if n := len(r.q.Quarantined()); n != 1 {
		t.Errorf("%d are left", n)
	}
}

// TestDamagedLater sets a message aside that becomes unreadable while the queue is open.
func TestDamagedLater(t *testing.T) {
	r := newRig(t, Options{MemoryBytes: -1})
	for range 3 {
		r.enqueue("a", "x")
	}
	r.stored(appendMessageKey(layout, nil, 1), []byte("\x04\x00rubbish"))
	must(t, r.actor.Delete(ctx, appendMessageKey(layout, nil, 2)))
	waits, err := r.q.Expect(1)
	must(t, err)
	wantIDs(t, "received", ids(r.try(ReceiveOptions{Count: 9})), 3)
	soon, cancel := context.WithTimeout(ctx, testkit.Patience(time.Second))
	defer cancel()
	_, err = waits.Wait(soon)
	wantErr(t, "nobody can answer", err, ErrNoAnswer)
	wantErr(t, "and why", err, actorstore.ErrCorrupt)
	if bad := r.q.Quarantined(); len(bad) != 2 || !errors.Is(bad[0].Err, actorstore.ErrCorrupt) || !errors.Is(bad[1].Err, actorstore.ErrNotFound) {
		t.Errorf("quarantined %+v", bad)
	}
}

// TestPages opens queues around the length of a page, with damage in it.
func TestPages(t *testing.T) {
	for _, n := range []int{0, 1, pageSize - 1, pageSize, pageSize + 1, 2*pageSize + 1} {
		for _, damaged := range []int{0, 1, n / 2, n} {
			r := newRigWith(t, Options{MaxMessages: -1}, whole)
			if n > 0 {
				_, err := r.q.EnqueueAll(ctx, make([]Send, n))
				must(t, err)
			}
			must(t, r.q.Close())
			want := n
			if damaged > 0 && n > 0 {
				r.damage(appendMessageKey(layout, nil, ID(damaged)))
				want--
			}
			r.open2()
			if got := r.q.Len(); got != want || r.q.Stats().Next != ID(n+1) || len(r.q.Quarantined()) != n-want {
				t.Errorf("%d messages, the %dth damaged: %d are there, next %s", n, damaged, got, r.q.Stats().Next)
			}
		}
	}
}

// TestIDsBeyond: a message with an id out of reach of counting is received as any, and
// doesn't use up all ids below it.
func TestIDsBeyond(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	must(t, r.q.Close())
	odd := []ID{lastID + 1, math.MaxUint64 - 1, math.MaxUint64}
	for _, id := range odd {
		r.stored(appendMessageKey(layout, nil, id), (&record{name: "a", body: []byte{0xf6}}).encode())
	}
	r.open2()
	if id := r.enqueue("a", nil); id != 2 {
		t.Errorf("id %s", id)
	}
	got := r.try(ReceiveOptions{Count: 9})
	wantIDs(t, "received", ids(got), append([]ID{1, 2}, odd...)...)
	must(t, got[4].Complete(ctx, nil))
	must(t, got[3].Nack(ctx, 0, nil))
	r.verify("in the end")
	r.reopen()
	if id := r.enqueue("a", nil); id != 3 || r.q.numbers.rebuilt {
		t.Errorf("id %s after a restart", id)
	}
	r.verify("after a restart")
}

// TestIDsOfKeys: an id that a sender's key stands for is never given again, though nothing
// else knows of it any more.
func TestIDsOfKeys(t *testing.T) {
	r := newRig(t, Options{})
	id := r.keyed("a", "k")
	r.one(ReceiveOptions{AtMostOnce: true})
	must(t, r.q.Close())
	must(t, r.actor.Delete(ctx, metadataKey(layout)))
	r.open2()
	if next := r.enqueue("a", nil); next == id {
		t.Errorf("id %s was given twice", next)
	}
	r.verify("in the end")
}

// TestIDsEnd refuses when there are no ids left, instead of beginning anew.
func TestIDsEnd(t *testing.T) {
	r := newRig(t, Options{})
	must(t, r.q.Close())
	r.stored(metadataKey(layout), (&metadata{lastID, 0}).append(nil))
	r.open2()
	if id := r.enqueue("a", nil); id != lastID {
		t.Errorf("id %s", id)
	}
	_, err := r.q.Enqueue(ctx, Send{})
	wantErr(t, "the last", err, ErrNoIDs)
	r.reopen()
	_, err = r.q.Enqueue(ctx, Send{})
	wantErr(t, "the last", err, ErrNoIDs)
	r.verify("in the end")
	if got := fmt.Sprint(r.q.Stats().Next); got != (lastID + 1).String() {
		t.Errorf("next %s", got)
	}
}
