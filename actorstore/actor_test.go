package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestActorValues(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		for _, n := range []int{0, 1, 9_999, 10_000, 10_001, 20_000, 131_072, 25_000, 10_000, 3, 0} {
			want := strings.Repeat(string(rune('a'+n%26)), n)
			must(t, a.Put(ctx, user("k"), []byte(want)))
			if got, ok := get(t, a, user("k")); got != want || !ok {
				t.Errorf("%d bytes came back as %d, %v", n, len(got), ok)
			}
			for _, reverse := range []bool{false, true} {
				for e, err := range a.List(ctx, actorstore.ListOptions{Reverse: reverse}) {
					must(t, err)
					if string(e.Value) != want || e.Size != n || !e.Updated.Equal(clock()) || e.Value == nil {
						t.Errorf("listing %d bytes (reverse %v): %d bytes, size %d, %v", n, reverse, len(e.Value), e.Size, e.Updated)
					}
				}
			}
			if want := int64(len("\x04k") + 2 + n); a.Used() != want {
				t.Errorf("with %d bytes: %d used, want %d", n, a.Used(), want)
			}
			// What an earlier, longer value had is gone.
			if got, want := physicalRows(t, eng), layout.RowsOf(int64(n))+1; got != want {
				t.Errorf("%d bytes lie in %d rows, want %d", n, got, want)
			}
		}
		must(t, a.Delete(ctx, user("k")))
		if _, ok := get(t, a, user("k")); ok || a.Used() != 0 || physicalRows(t, eng) != 0 {
			t.Errorf("after delete: there %v, %d used, %d rows", ok, a.Used(), physicalRows(t, eng))
		}
	})
}

// physicalRows counts the rows of testID's keys.
func physicalRows(t testing.TB, eng kv.Reader) int {
	t.Helper()
	p := layout.NewPrefix(layout.ID(testID))
	n := 0
	for _, err := range eng.Scan(ctx, kv.Range{Start: p[:], End: layout.AppendAbove(slices.Clone(p[:]))}) {
		must(t, err)
		n++
	}
	return n
}

func TestGetAppends(t *testing.T) {
	a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
	must(t, a.Put(ctx, user("k"), []byte("value")))
	for name, read := range map[string]func(key, dst []byte) ([]byte, error){
		"Get":  func(key, dst []byte) ([]byte, error) { return a.Get(ctx, key, dst) },
		"Page": func(key, dst []byte) ([]byte, error) { return a.Page(ctx, key, dst) },
	} {
		if got, err := read(user("k"), []byte("dst ")); string(got) != "dst value" || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if got, err := read(user("none"), []byte("dst ")); string(got) != "dst " || err != actorstore.ErrNotFound {
			t.Errorf("%s of a missing key: got %q, %v", name, got, err)
		}
	}
}

func TestPage(t *testing.T) {
	eng := faultkv.New(memkv.New())
	a := openActor(t, openStore(t, eng, batch.Limits{}))
	for n, want := range map[int]int{1: 1, 4096: 4096, 10_000: 10_000, 25_000: 10_000} {
		must(t, a.Put(ctx, user("k"), make([]byte, n)))
		eng.Reset()
		got, err := a.Page(ctx, user("k"), nil)
		if len(got) != want || err != nil {
			t.Errorf("the page of %d bytes: %d, %v, want %d", n, len(got), err, want)
		}
		if c := eng.Counts(); c != (faultkv.Counts{Gets: 1}) {
			t.Errorf("a page took %+v, want one Get", c)
		}
	}
	must(t, a.Put(ctx, user("k"), nil))
	if _, err := a.Page(ctx, user("k"), nil); err != actorstore.ErrNotFound {
		t.Errorf("the page of an empty value: got %v, want %v", err, actorstore.ErrNotFound)
	}
}

func TestActorOptions(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	if _, err := s.Actor(ctx, actorstore.ID{}, nil); !errors.Is(err, actorstore.ErrID) {
		t.Errorf("zero id: got %v, want %v", err, actorstore.ErrID)
	}
	if _, err := s.Actor(ctx, testID, &actorstore.ActorOptions{MustExist: true}); !errors.Is(err, actorstore.ErrUnknownActor) {
		t.Errorf("MustExist: got %v, want %v", err, actorstore.ErrUnknownActor)
	}
	for _, name := range []string{strings.Repeat("n", actorstore.MaxName+1), "\xff"} {
		if _, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: name}); !errors.Is(err, actorstore.ErrName) {
			t.Errorf("name %q: got %v, want %v", name, err, actorstore.ErrName)
		}
	}
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), nil))
	must(t, a.Close())
	a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{MustExist: true})
	must(t, err)
	must(t, a.Close())
	must(t, a.Close())
}

func TestClosedHandle(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a := openActor(t, s)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	must(t, a.Close())
	checkRefused(t, a, actorstore.ErrClosed)
	if err := a.Err(); err != nil {
		t.Errorf("a closed handle is unhealthy: %v", err)
	}
	if _, ok := get(t, snap, user("k")); ok {
		t.Error("the snapshot of an empty actor has a key")
	}
	must(t, snap.Close())
	must(t, snap.Close())
	for name, err := range map[string]error{"get": testkit.Second(snap.Get(ctx, user("k"), nil)), "page": testkit.Second(snap.Page(ctx, user("k"), nil))} {
		if !errors.Is(err, actorstore.ErrClosed) {
			t.Errorf("%s of a closed snapshot: got %v, want %v", name, err, actorstore.ErrClosed)
		}
	}
}

func TestDrop(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		s := openStore(t, eng, batch.Limits{})
		neighbours := [2]actorstore.ID{testID, testID}
		neighbours[0].Label--
		neighbours[1].Label++
		for i, id := range neighbours {
			n, err := s.Actor(ctx, id, &actorstore.ActorOptions{Name: fmt.Sprint("neighbour ", i)})
			must(t, err)
			must(t, n.Put(ctx, user("k"), []byte("v")))
			must(t, n.Close())
		}
		for _, name := range []string{"dropped", "again"} { // dropping frees name and actor
			a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: name})
			must(t, err)
			select {
			case <-a.Done():
				t.Error("a handle is done before it has begun")
			default:
			}
			if a.Seq() != 0 || a.Used() != 0 || a.Name() != name {
				t.Errorf("a new actor has seq %d, %d bytes, name %q", a.Seq(), a.Used(), a.Name())
			}
			must(t, a.Put(ctx, user("big"), make([]byte, 50_000)))
			must(t, a.Put(ctx, actorstore.LayoutGreenroom.AppendFileMeta(nil, actorstore.FileMain), nil))
			must(t, a.Drop(ctx))
			checkRefused(t, a, actorstore.ErrClosed)
			if _, err := s.View(ctx, testID); !errors.Is(err, actorstore.ErrUnknownActor) {
				t.Errorf("a view of what was dropped: %v", err)
			}
		}
		count := 0
		for _, err := range eng.Scan(ctx, kv.Range{}) {
			must(t, err)
			count++
		}
		// Two neighbours of DATA, METADATA, head, name, name row; the format; and how far the index is built.
		if count != 2*5+2 {
			t.Errorf("%d rows are left, want 12", count)
		}
	})
}

func TestDropOfNothing(t *testing.T) {
	eng := faultkv.New(memkv.New())
	s := openStore(t, eng, batch.Limits{})
	a := openActor(t, s)
	eng.Reset()
	must(t, a.Drop(ctx))
	if c := eng.Counts(); c.Commits != 0 {
		t.Errorf("dropping an actor that doesn't exist took %d commits", c.Commits)
	}
	openActor(t, s)
}

func TestSnapshot(t *testing.T) {
	onEngines(t, func(t *testing.T, eng kv.Engine) {
		a := openActor(t, openStore(t, eng, batch.Limits{}))
		must(t, a.Put(ctx, user("k"), []byte("old")))
		snap, err := a.Snapshot(ctx)
		must(t, err)
		must(t, a.Put(ctx, user("k"), []byte("new")))
		must(t, a.Put(ctx, user("l"), []byte("new")))
		if got, _ := get(t, snap, user("k")); got != "old" || snap.Seq() != 1 {
			t.Errorf("the snapshot of commit %d shows %q", snap.Seq(), got)
		}
		if p, err := snap.Page(ctx, user("k"), nil); string(p) != "old" || err != nil {
			t.Errorf("the snapshot's page is %q, %v", p, err)
		}
		if got := words(t, snap, actorstore.ListOptions{}); !slices.Equal(got, []string{"user/k"}) {
			t.Errorf("the snapshot lists %q", got)
		}
		must(t, snap.Close())
	})
}

// A between calls at, unless it is nil, when a commit is visible, and OnApply hasn't been called.
type between struct {
	kv.Engine
	at func()
}

func (e *between) Commit(ctx context.Context, c *kv.Commit) error {
	if e.at == nil {
		return e.Engine.Commit(ctx, c)
	}
	watched := *c
	watched.OnApply = func() {
		e.at()
		c.OnApply()
	}
	return e.Engine.Commit(ctx, &watched)
}

// TestSnapshotDuringCommit: a snapshot taken while a commit is being applied says
// which of the two states it is.
func TestSnapshotDuringCommit(t *testing.T) {
	below := memkv.New()
	eng := faultkv.New(below)
	over := &between{Engine: eng}
	s := openStore(t, over, batch.Limits{})
	a := openActor(t, s)
	must(t, a.Put(ctx, user("k"), []byte("0")))
	var seqs []uint64
	pin := func() {
		snap, err := a.Snapshot(ctx)
		must(t, err)
		seqs = append(seqs, snap.Seq())
		if got, _ := get(t, snap, user("k")); got != fmt.Sprint(snap.Seq()-1) {
			t.Errorf("the snapshot of commit %d shows %q", snap.Seq(), got)
		}
		must(t, snap.Close())
	}
	eng.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			pin()
		}
		return nil
	})
	over.at = pin
	b := put("k", "1")
	b.OnCommit(pin)
	must(t, a.Commit(ctx, b))
	over.at = nil
	if want := []uint64{1, 2, 2}; !slices.Equal(seqs, want) {
		t.Errorf("snapshots before, while and after say %d, want %d", seqs, want)
	}
	eng.Hook(nil)
	eng.Reset()
	snap, err := a.Snapshot(ctx)
	must(t, err)
	must(t, snap.Close())
	if c := eng.Counts(); c != (faultkv.Counts{Snapshots: 1}) {
		t.Errorf("a snapshot at rest took %+v, want nothing else", c)
	}
}

// TestCloseBeforeCommit: a commit that waited for its turn while the handle was
// closed is refused.
func TestCloseBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := openActor(t, openStore(t, memkv.New(), batch.Limits{}))
		got := make(chan error, 2)
		var j journal
		first := put("k", "first")
		first.Late(func(*batch.Batch) error {
			go func() { got <- a.Commit(ctx, j.watch(put("k", "second"), "second")) }()
			synctest.Wait()
			go func() { got <- a.Close() }()
			synctest.Wait()
			return nil
		})
		must(t, a.Commit(ctx, first))
		if err := errors.Join(<-got, <-got); !errors.Is(err, actorstore.ErrClosed) {
			t.Errorf("got %v, want %v", err, actorstore.ErrClosed)
		}
		j.check(t, "second abort")
		if a.Seq() != 1 {
			t.Errorf("seq %d", a.Seq())
		}
	})
}

func TestView(t *testing.T) {
	s := openStore(t, memkv.New(), batch.Limits{})
	a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Name: "n"})
	must(t, err)
	must(t, a.Put(ctx, user("k"), []byte("v")))
	v, err := s.View(ctx, testID) // beside the owner
	must(t, err)
	want := actorstore.ActorInfo{ID: testID, Name: "n", Created: time.UnixMilli(clock().UnixMilli()), Used: 5, Seq: 1, Epoch: 1}
	if !reflect.DeepEqual(v.Info(), want) || v.Seq() != 1 {
		t.Errorf("got %+v, seq %d, want %+v", v.Info(), v.Seq(), want)
	}
	must(t, a.Put(ctx, user("k"), []byte("w"))) // the owner was not disturbed
	if got, _ := get(t, v, user("k")); got != "v" {
		t.Errorf("the view shows %q", got)
	}
	if err := v.User().Put(ctx, []byte("k"), nil); !errors.Is(err, actorstore.ErrReadOnly) {
		t.Errorf("writing to a view: got %v, want %v", err, actorstore.ErrReadOnly)
	}
	must(t, v.Close())
	must(t, a.Close())
}
