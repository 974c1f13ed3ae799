package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestCommitOfOnePage(t *testing.T) {
	onEngines(t, func(t *testing.T, below kv.Engine) {
		eng := faultkv.New(below)
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		key, page := actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, 3), make([]byte, 4096)
		prior := batch.Absent
		for range 3 {
			var b batch.Batch
			b.PutPrior(key, page, prior)
			eng.Reset()
			eng.Hook(func(op faultkv.Op) error {
				if op.Point == faultkv.BeforeCommit {
					for _, o := range op.Commit.Ops {
						if o.Kind != kv.OpSet {
							t.Errorf("writing a page clears %x", o.Key)
						}
					}
				}
				return nil
			})
			must(t, a.Commit(ctx, &b))
			c := eng.Counts()
			if c.Bytes = 0; c != (faultkv.Counts{Commits: 1, Durable: 1, Ops: 3}) {
				t.Errorf("writing a page took %+v, want one commit of 3 operations: DATA, METADATA, head", c)
			}
			prior = batch.Stored(len(page))
		}
	})
}

// TestReads: what a commit must know and isn't told costs one Get for each key that is
// there, and two for others; of a large value a scan, too, and of a range nothing else.
func TestReads(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	commit := func(name string, gets, scans int64, fill func(b *batch.Batch)) {
		t.Helper()
		var b batch.Batch
		fill(&b)
		eng.Reset()
		must(t, a.Commit(ctx, &b))
		if c := eng.Counts(); c.Scans != scans || c.Gets != gets || c.Snapshots != 0 || c.Commits != 1 {
			t.Errorf("%s: %+v, want %d gets, %d scans and a commit", name, c, gets, scans)
		}
	}
	k, l, big := user("k"), user("l"), make([]byte, 100_000)
	commit("an actor without keys", 0, 0, func(b *batch.Batch) { b.Put(k, big); b.Put(l, nil); b.DeleteRange(nil, nil); b.Put(k, big) })
	commit("one remembered, one unknown", 2, 0, func(b *batch.Batch) { b.Put(l, nil); b.Put(k, big) })
	commit("one key twice, and remembered", 0, 0, func(b *batch.Batch) { b.Put(k, big); b.Put(k, nil); b.Delete(k) })
	commit("unknown range", 0, 1, func(b *batch.Batch) { b.DeleteRange(k, l); b.Put(k, big) })
	commit("known range", 0, 0, func(b *batch.Batch) {
		b.DeleteRangePrior(k, l, batch.Freed(100_004))
		b.PutPrior(l, big, batch.Stored(0))
	})
	// Of a large value, only the last DATA row and METADATA are read.
	rows := 0
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeScan {
			rows += op.Range.Limit
		}
		return nil
	})
	commit("large value", 1, 1, func(b *batch.Batch) { b.Delete(l) })
	if rows != 2 {
		t.Errorf("to know the size of a large value at most %d rows were read, want 2", rows)
	}
}

func TestCommitEmpty(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	var j journal
	eng.Reset()
	must(t, a.Commit(ctx, j.watch(new(batch.Batch), "b")))
	j.check(t, "b commit")
	if c := eng.Counts(); c != (faultkv.Counts{}) {
		t.Errorf("an empty batch took %+v", c)
	}
	must(t, a.Apply(ctx, put("k", "v")))
	for _, want := range []int64{1, 0} { // what was applied becomes durable, once
		eng.Reset()
		must(t, a.Commit(ctx, new(batch.Batch)))
		if c := eng.Counts(); c != (faultkv.Counts{Syncs: want}) {
			t.Errorf("an empty batch after another took %+v, want %d syncs", c, want)
		}
	}
	if a.Seq() != 1 {
		t.Errorf("empty batches are counted: seq %d", a.Seq())
	}
}

// TestSync: what was applied is waited for once, by the first call.
func TestSync(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	for _, tt := range []struct {
		name  string
		write func(context.Context, *batch.Batch) error
		syncs int64
	}{{"nothing", nil, 0}, {"applied", a.Apply, 1}, {"applied again", a.Apply, 1}, {"durable", a.Commit, 0}} {
		if tt.write != nil {
			must(t, tt.write(ctx, put("k", tt.name)))
		}
		eng.Reset()
		for range 2 {
			must(t, a.Sync(ctx))
		}
		if c := eng.Counts(); c != (faultkv.Counts{Syncs: tt.syncs}) {
			t.Errorf("%s: two Syncs took %+v, want %d", tt.name, c, tt.syncs)
		}
	}
	must(t, a.Close())
	if err := a.Sync(ctx); !errors.Is(err, actorstore.ErrClosed) {
		t.Errorf("closed: got %v, want %v", err, actorstore.ErrClosed)
	}
}

// TestLate: Late functions see what landed before, and may stage.
func TestLate(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	must(t, a.Put(ctx, user("n"), []byte("1")))
	var b batch.Batch
	b.Late(func(b *batch.Batch) error {
		v, err := a.Get(ctx, user("n"), nil)
		b.Final().Put(user("n"), append(v, '1'))
		return err
	})
	must(t, a.Commit(ctx, &b))
	if got, _ := get(t, a, user("n")); got != "11" {
		t.Errorf("got %q", got)
	}
	var j journal
	failing := j.watch(put("n", "x"), "b")
	failing.Late(func(*batch.Batch) error { return errTest })
	if err := a.Commit(ctx, failing); !errors.Is(err, errTest) {
		t.Errorf("got %v, want %v", err, errTest)
	}
	j.check(t, "b abort")
	if err := a.Commit(ctx, failing); !errors.Is(err, batch.ErrSettled) {
		t.Errorf("a settled batch: got %v, want %v", err, batch.ErrSettled)
	}
	must(t, a.Put(ctx, user("n"), nil)) // the lock is free
}

// TestPanics: a panic under the commit lock leaves a handle that can be
// used, if nothing is in doubt.
func TestPanics(t *testing.T) {
	recovered := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	var j journal
	late := j.watch(put("k", "late"), "late")
	late.Late(func(*batch.Batch) error { panic("late") })
	hook := put("k", "hook")
	hook.OnCommit(func() { panic("hook") })
	if v := recovered(func() { must(t, a.Commit(ctx, late)) }); v != "late" {
		t.Errorf("recovered %v", v)
	}
	j.check(t, "late abort")
	if v := recovered(func() { must(t, a.Commit(ctx, hook)) }); v != "hook" {
		t.Errorf("recovered %v", v)
	}
	must(t, a.Err())
	if got, _ := get(t, a, user("k")); got != "hook" || a.Seq() != 1 {
		t.Errorf("got %q, seq %d", got, a.Seq())
	}
	must(t, a.Put(ctx, user("k"), nil))
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			panic("engine")
		}
		return nil
	})
	if v := recovered(func() { must(t, a.Put(ctx, user("k"), nil)) }); v != "engine" {
		t.Errorf("recovered %v", v)
	}
	checkRefused(t, a, actorstore.ErrPoisoned)
}

// A deaf engine doesn't call OnApply once it is on.
type deaf struct {
	kv.Engine
	on bool
}

func (d *deaf) Commit(ctx context.Context, c *kv.Commit) error {
	if d.on {
		return nil
	}
	return d.Engine.Commit(ctx, c)
}

func TestEngineBreaksContract(t *testing.T) {
	eng := &deaf{Engine: memkv.New()}
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	eng.on = true
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		must(t, a.Put(ctx, user("k"), nil))
	}()
	checkRefused(t, a, actorstore.ErrPoisoned)
}

// TestPipeline: while one commit waits for stable storage, the next one is applied,
// and hooks run in the order of the commits.
func TestPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowSync{Engine: memkv.New(), release: make(chan struct{})}
		a := openActor(t, openStore(t, slow, batch.Limits{}))
		var j journal
		done := make(chan error)
		for i := range 3 {
			go func() { done <- a.Commit(ctx, j.watch(put("k", fmt.Sprint(i)), fmt.Sprint(i))) }()
			synctest.Wait() // it is applied, and waits
		}
		if got, _ := get(t, a, user("k")); got != "2" || a.Seq() != 3 {
			t.Errorf("before any is durable: %q, seq %d", got, a.Seq())
		}
		j.check(t, "0 commit", "1 commit", "2 commit")
		close(slow.release)
		for range 3 {
			must(t, <-done)
		}
	})
}

// A slowSync is an engine whose commits become durable when release is closed.
type slowSync struct {
	kv.Engine
	release chan struct{}
}

func (s *slowSync) Shared() *sync.Map { return kv.Shared(s.Engine) }

func (s *slowSync) Commit(ctx context.Context, c *kv.Commit) error {
	// The engine may use c until it returns: check that it isn't reused.
	text := func() string { return fmt.Sprintf("%x", []any{c.ID, c.Checks, c.Ops}) }
	before := text()
	if err := s.Engine.Commit(ctx, c); err != nil || c.Durability == kv.Applied {
		return err
	}
	<-s.release
	if after := text(); after != before {
		return fmt.Errorf("the commit was changed while it waited:\n%s\n%s", before, after)
	}
	return nil
}

// TestLockWait: waiting for the commit lock ends with the context.
func TestLockWait(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	var j journal
	b := put("k", "outer")
	b.Late(func(*batch.Batch) error {
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if err := a.Commit(canceled, j.watch(put("k", "inner"), "inner")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		return nil
	})
	must(t, a.Commit(ctx, b))
	j.check(t, "inner abort")
}

// TestConcurrent: many goroutines write and read one actor; what they count is
// right in the end.
func TestConcurrent(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		const writers, rounds = 4, 40
		hooks := 0 // guarded by the commit lock
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range rounds {
					b := put(fmt.Sprint(w), strings.Repeat("v", i))
					b.OnCommit(func() { hooks++ })
					b.Late(func(b *batch.Batch) error {
						b.Put(user("last"), []byte{byte(hooks)})
						return nil
					})
					if err := a.Apply(ctx, b); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				last := uint64(0)
				for range rounds {
					snap, err := a.Snapshot(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					v, err := snap.Get(ctx, user("last"), nil)
					if snap.Seq() < last || err == nil && uint64(v[0]) != snap.Seq()-1 {
						t.Errorf("the snapshot of commit %d, after %d, shows that of %d: %v", snap.Seq(), last, v, err)
					}
					last = snap.Seq()
					if err := snap.Close(); err != nil {
						t.Error(err)
					}
					for _, err := range a.List(ctx, actorstore.ListOptions{}) {
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		if hooks != writers*rounds || a.Seq() != writers*rounds || a.Used() != 8+writers*(4+rounds-1) {
			t.Errorf("%d hooks, seq %d, %d used", hooks, a.Seq(), a.Used())
		}
	})
}
