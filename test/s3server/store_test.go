package s3server

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A store is one that workers commit to. The n-th commit of a worker writes n to the worker's row "n", and bytes that follow from
// its name and n to another row: so a state tells how many commits of each worker are in it, and must have as many in all as its number.
type store struct {
	t   *testing.T
	dir string
	db  *pebblekv.DB

	mu   sync.Mutex
	made map[string]int // commits of each worker that were acknowledged  +checklocks:mu
}

// newStore makes an empty store.
func newStore(t *testing.T) *store {
	s := &store{t: t, dir: filepath.Join(t.TempDir(), "store"), made: map[string]int{}}
	s.open()
	return s
}

// open opens the store until the test ends.
func (s *store) open() {
	s.t.Helper()
	db, err := pebblekv.Open(s.dir, &pebblekv.Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		s.t.Fatal(err)
	}
	s.db = db
	s.t.Cleanup(func() { _ = db.Close() }) // it may be closed already
}

// rowsPer is how many rows with bytes a worker has.
const rowsPer = 50

// row returns what the n-th commit of a worker writes.
func row(worker string, n int) (key string, value []byte) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(worker))+uint64(worker[0])))
	value = make([]byte, 8*(16+r.IntN(300)))
	for i := 0; i < len(value); i += 8 {
		binary.LittleEndian.PutUint64(value[i:], r.Uint64())
	}
	return fmt.Sprintf("%s/%03d", worker, n%rowsPer), value
}

// commit makes a worker's next commit, of which every other one is durable.
func (s *store) commit(ctx context.Context, worker string) error {
	s.mu.Lock()
	n := s.made[worker] + 1
	s.mu.Unlock()
	key, value := row(worker, n)
	c := &kv.Commit{Ops: []kv.Op{
		{Kind: kv.OpSet, Key: []byte(key), Value: value},
		{Kind: kv.OpSet, Key: []byte(worker + "/n"), Value: fmt.Append(nil, n)},
	}}
	for i := range c.ID {
		c.ID[i] = byte(rand.Uint32())
	}
	if n%2 == 0 {
		c.Durability = kv.Durable
	}
	if err := s.db.Commit(ctx, c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[worker] = n
	return nil
}

// load starts workers, which commit some hundred times a second until ctx ends. They send to commits after each one, if that is received from.
func (s *store) load(ctx context.Context, workers int) (commits chan struct{}) {
	commits = make(chan struct{})
	var wg sync.WaitGroup
	for i := range workers {
		worker := string(rune('a' + i))
		wg.Go(func() {
			tick := time.NewTicker(4 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				if err := s.commit(context.WithoutCancel(ctx), worker); err != nil {
					s.t.Error(err)
					return
				}
				<-tick.C
				select {
				case commits <- struct{}{}:
				default:
				}
			}
		})
	}
	go func() { wg.Wait(); close(commits) }()
	return commits
}

// counts returns how many commits of each worker were acknowledged.
func (s *store) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.made)
}

// restore restores a state, and tests that it is one that a store had. It returns the commits of each worker in it.
func restore(t *testing.T, a *archive.Archive, m archive.Bookmark) map[string]int {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	if err := a.Restore(t.Context(), m, dir, nil); err != nil {
		t.Fatalf("restore %s: %v", m, err)
	}
	return stateOf(t, dir, m.Number)
}

// stateOf tests that the store in a directory has a state with a number of commits, and returns those of each worker.
func stateOf(t *testing.T, dir string, number uint64) map[string]int {
	t.Helper()
	db, err := pebblekv.Open(dir, &pebblekv.Options{CacheBytes: 1 << 20, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	snapshot, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	rows, made, all := map[string]string{}, map[string]int{}, 0
	for e, err := range snapshot.Scan(t.Context(), kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if worker, ok := strings.CutSuffix(string(e.Key), "/n"); ok {
			n := 0
			if _, err := fmt.Sscan(string(e.Value), &n); err != nil {
				t.Fatal(err)
			}
			made[worker] = n
			all += n
		} else {
			rows[string(e.Key)] = string(e.Value)
		}
	}
	want := map[string]string{}
	for worker, n := range made {
		for i := max(1, n-rowsPer+1); i <= n; i++ {
			key, value := row(worker, i)
			want[key] = string(value)
		}
	}
	if uint64(all) != number || !maps.Equal(rows, want) {
		t.Fatalf("as of commit %d it has %d, by worker %v, and %d rows, want %d", number, all, made, len(rows), len(want))
	}
	return made
}
