package actorstore_test

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLazyConcurrent has a writer, and readers that know what each state must show.
// Commit n writes n under every key whose number + 1 divides n, and some commits delete
// instead.
func TestLazyConcurrent(t *testing.T) {
	commits := testkit.Pick(400, 1000, 8000)
	for _, tt := range []struct {
		what  string
		open  func(testing.TB, int64) (*actorstore.Store, *faultkv.Engine)
		cache int64
	}{
		{"far", openFar, 0}, {"far", openFar, 4000}, {"far", openFar, -1},
		{"near", openNear, 0}, {"near", openNear, 4000}, {"near", openNear, -1},
	} {
		t.Run(fmt.Sprint(tt.what, " cache=", tt.cache), func(t *testing.T) {
			s, eng := tt.open(t, tt.cache)
			eng.Hook(func(faultkv.Op) error { runtime.Gosched(); return nil })
			a := openActor(t, s)
			var readers sync.WaitGroup
			done := make(chan struct{})
			for i := range 4 {
				readers.Go(func() {
					for turn := i; ; turn++ {
						select {
						case <-done:
							return
						default:
						}
						if err := lookAround(a, eng.Limits().Far, turn); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for n := 1; n <= commits; n++ {
				var b batch.Batch
				for k := range concurrentKeys {
					switch {
					case n%(k+1) != 0:
					case n%5 == 0:
						b.DeleteRange(concurrentKey(k), concurrentKey(k+1))
					case n%3 == 0:
						b.Delete(concurrentKey(k))
					default:
						b.Put(concurrentKey(k), []byte("-1")) // which no reader may see
						b.Put(concurrentKey(k), []byte(strconv.Itoa(n)))
					}
				}
				if err := a.Apply(ctx, &b); err != nil {
					t.Fatal(err)
				}
			}
			close(done)
			readers.Wait()
		})
	}
}

// TestLazyWhole: no reader sees a part of a commit, also not while it is being entered.
func TestLazyWhole(t *testing.T) {
	t.Run("far", func(t *testing.T) { testWhole(t, engines.Far(memkv.New())) })
	t.Run("near", func(t *testing.T) { testWhole(t, memkv.New()) })
}

func testWhole(t *testing.T, eng kv.Engine) {
	const keys, commits = 300, 60
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{Limits: batch.Limits{Entries: keys}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	a := openActor(t, s)
	put := func(n int) {
		var b batch.Batch
		for i := range keys {
			b.Put(chunk(i), strconv.AppendInt(nil, int64(n), 10))
		}
		must(t, a.Apply(ctx, &b))
	}
	put(1)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			seen := 0
			for i := 0; seen < commits; i = (i + keys - 1) % keys {
				v, err := a.Page(ctx, chunk(i), nil)
				got, _ := strconv.Atoi(string(v))
				seq := int(a.Seq())
				if !eng.Limits().Far {
					seq++ // as in lookNewest
				}
				if err != nil || got < seen || got > seq {
					t.Errorf("key %d is %d, %v, after %d and in state %d", i, got, err, seen, seq)
					return
				}
				seen = got
			}
		})
	}
	for n := 2; n <= commits; n++ {
		put(n)
	}
	readers.Wait()
}

const concurrentKeys = 7

func concurrentKey(k int) []byte { return user(fmt.Sprintf("key%d", k)) }

// concurrentValue is what state seq has under key k, 0 for nothing.
func concurrentValue(seq, k int) int {
	for n := seq; n > 0; n-- {
		if n%(k+1) == 0 {
			if n%5 == 0 || n%3 == 0 {
				return 0
			}
			return n
		}
	}
	return 0
}

// lookAround reads the actor, and a snapshot of it.
func lookAround(a *actorstore.Actor, far bool, turn int) (err error) {
	if err := lookNewest(a, far, turn); err != nil {
		return err
	}
	open, lists := a.PageSnapshot, turn%4 == 0
	if lists {
		open = a.Snapshot
	}
	snap, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if turn%5 == 0 {
		if _, err := snap.Prefetch(ctx, user(""), nil, 4); err != nil {
			return err
		}
	}
	for range 3 {
		for k := range concurrentKeys {
			got, err := concurrentRead(snap, k, (turn+k)%2 == 0)
			if want := concurrentValue(int(snap.Seq()), k); got != want || err != nil {
				return fmt.Errorf("key %d of state %d is %d, %v, want %d", k, snap.Seq(), got, err, want)
			}
		}
		runtime.Gosched()
	}
	if lists {
		return lookList(snap)
	}
	return nil
}

// lookNewest reads a key of the newest state, which while that goes on may be one of
// several, but none that is over.
func lookNewest(a *actorstore.Actor, far bool, turn int) error {
	k, before := turn%concurrentKeys, int(a.Seq())
	got, err := concurrentRead(a, k, turn%3 == 0)
	if err != nil {
		return err
	}
	after := int(a.Seq())
	if !far {
		after++ // the engine shows a commit before the handle knows that it has
	}
	for seq := before; seq <= after; seq++ {
		if got == concurrentValue(seq, k) {
			return nil
		}
	}
	return fmt.Errorf("key %d is %d between state %d and %d", k, got, before, after)
}

func lookList(snap *actorstore.Snapshot) error {
	left := 0
	for k := range concurrentKeys {
		if concurrentValue(int(snap.Seq()), k) > 0 {
			left++
		}
	}
	for e, err := range snap.List(ctx, actorstore.ListOptions{Prefix: user("key")}) {
		if err != nil {
			return err
		}
		k := int(e.Key[len(e.Key)-1] - '0')
		if want := concurrentValue(int(snap.Seq()), k); string(e.Value) != strconv.Itoa(want) {
			return fmt.Errorf("key %d of state %d is listed as %s, want %d", k, snap.Seq(), e.Value, want)
		}
		left--
	}
	if left != 0 {
		return fmt.Errorf("the list of state %d lacks %d entries", snap.Seq(), left)
	}
	return nil
}

func concurrentRead(r actorstore.Reader, k int, whole bool) (int, error) {
	read := r.Page
	if whole {
		read = r.Get
	}
	v, err := read(ctx, concurrentKey(k), nil)
	if err == actorstore.ErrNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}
