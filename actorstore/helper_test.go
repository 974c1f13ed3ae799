package actorstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

var ctx = context.Background()

// testID is the id that the golden bytes are about.
var testID = actorstore.ID{
	UUID:  [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
	Label: 7,
}

// must fails the test if err is not nil.
var must = testkit.Must

// waitFor and force are how a test opens an actor that another host may have.
var waitFor, force = &actorstore.ActorOptions{Wait: true}, &actorstore.ActorOptions{Force: true}

// onEngines runs test on each engine, empty.
func onEngines(t *testing.T, test func(t *testing.T, eng kv.Engine)) {
	t.Run("memkv", func(t *testing.T) { test(t, memkv.New()) })
	t.Run("memkv, far", func(t *testing.T) { test(t, engines.Far(memkv.New())) })
	t.Run("pebblekv", func(t *testing.T) {
		eng, err := pebblekv.Open(t.TempDir(), &pebblekv.Options{CacheBytes: 8 << 20, MemtableBytes: 4 << 20})
		must(t, err)
		t.Cleanup(func() { must(t, eng.Close()) })
		test(t, eng)
	})
}

// clock is a clock that stands still.
func clock() time.Time { return time.UnixMilli(1_700_000_000_000) }

// openStore opens a store that is closed when the test ends. The environment may
// lower a limit that l leaves open.
func openStore(t testing.TB, eng kv.Engine, l batch.Limits) *actorstore.Store {
	t.Helper()
	l, err := envlimits.Apply(l)
	must(t, err)
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{Limits: l, Now: clock, Host: actorstore.HostOptions{TTL: testTTL}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// testTTL is the lease of the stores of tests: so long that it neither is renewed nor runs
// out while a test runs, however slow the machine is. A test that waits for another host does that
// in a bubble of testing/synctest.
const testTTL = time.Hour

// openActor takes the actor testID over, whatever its owner, until the test ends.
func openActor(t testing.TB, s *actorstore.Store) *actorstore.Actor {
	t.Helper()
	a, err := s.Actor(ctx, testID, &actorstore.ActorOptions{Force: true})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

// user is the key of a user key.
func user(k string) []byte { return actorstore.UserKey([]byte(k)) }

// get returns what r has under key, and whether there is anything.
func get(t testing.TB, r actorstore.Reader, key []byte) (value string, ok bool) {
	t.Helper()
	v, err := r.Get(ctx, key, nil)
	if err == actorstore.ErrNotFound {
		return "", false
	}
	must(t, err)
	return string(v), true
}

// words returns the keys of r in words, in the order of opts.
func words(t testing.TB, r actorstore.Reader, opts actorstore.ListOptions) []string {
	t.Helper()
	all := []string{}
	for e, err := range r.List(ctx, opts) {
		must(t, err)
		all = append(all, actorstore.Describe(e.Key))
	}
	return all
}

var errTest = errors.New("thrown by the test")

// A journal notes what the hooks of batches were called with, in order.
type journal []string

func (j *journal) watch(b *batch.Batch, name string) *batch.Batch {
	b.OnCommit(func() { *j = append(*j, name+" commit") })
	b.OnAbort(func(err error) { *j = append(*j, name+" abort") })
	return b
}

func (j *journal) check(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*j, want) {
		t.Errorf("hooks ran as %q, want %q", *j, want)
	}
	*j = nil
}

// second returns the error of a call with two results.
func second[T any](v T, err error) error { return testkit.Second(v, err) }

// put returns a batch that stores value under the user key k.
func put(k, value string) *batch.Batch {
	var b batch.Batch
	b.Put(user(k), []byte(value))
	return &b
}

// problems checks the store.
func problems(t testing.TB, s *actorstore.Store) []actorstore.Finding {
	t.Helper()
	var all []actorstore.Finding
	for f, err := range s.Check(ctx) {
		must(t, err)
		all = append(all, f)
	}
	return all
}

var smallForks = batch.Limits{Entries: 3, Payload: 30_000, ValueSize: 25_000}

// chunk is the key of page i of the main file.
func chunk(i int) []byte {
	return actorstore.LayoutGreenroom.AppendFileChunk(nil, actorstore.FileMain, uint32(i))
}

// writePages gives the actor n pages that say which they are.
func writePages(t testing.TB, a *actorstore.Actor, n int) {
	t.Helper()
	var b batch.Batch
	b.Mode = batch.Ordered
	for i := range n {
		b.PutPrior(chunk(i), pageOf(i), batch.Absent)
	}
	must(t, a.Commit(ctx, &b))
}

// pageOf returns what writePages writes as page i.
func pageOf(i int) []byte {
	p := make([]byte, 4096)
	copy(p, fmt.Sprint(i))
	return p
}

// openNear opens a store with a cache of so many bytes on a near engine that counts and
// fails.
func openNear(t testing.TB, cacheBytes int64) (*actorstore.Store, *faultkv.Engine) {
	t.Helper()
	eng := faultkv.New(memkv.New())
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{Now: clock, CacheBytes: cacheBytes, Limits: batch.Limits{Storage: 1 << 40}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, eng
}

// checkRefused makes every call of a handle and wants it refused with want.
func checkRefused(t *testing.T, a *actorstore.Actor, want error) {
	t.Helper()
	aborted := false
	b := put("k", "v")
	b.OnAbort(func(err error) { aborted = errors.Is(err, want) })
	got := map[string]error{
		"get":       second(a.Get(ctx, user("k"), nil)),
		"page":      second(a.Page(ctx, user("k"), nil)),
		"put":       a.Put(ctx, user("k"), nil),
		"delete":    a.Delete(ctx, user("k")),
		"range":     a.DeleteRange(ctx, user("k"), nil),
		"apply":     a.Apply(ctx, b),
		"empty":     a.Commit(ctx, new(batch.Batch)),
		"sync":      a.Sync(ctx),
		"drop":      a.Drop(ctx),
		"snapshot":  second(a.Snapshot(ctx)),
		"user get":  second(a.User().Get(ctx, nil, nil)),
		"list none": errors.New("list yielded nothing"),
	}
	for _, err := range a.List(ctx, actorstore.ListOptions{}) {
		got["list none"] = err
	}
	for name, err := range got {
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if !aborted {
		t.Errorf("a refused batch was not aborted with %v", want)
	}
	select {
	case <-a.Done():
	default:
		t.Error("nobody is told that the handle is of no more use")
	}
}

// forgetful is an engine that remembers no commit.
type forgetful struct{ kv.Engine }

func (forgetful) Outcome(context.Context, kv.CommitID) (kv.Outcome, error) {
	return kv.OutcomeUnknown, nil
}

// readPage fails the test unless r has the page i that writePages wrote.
func readPage(t testing.TB, r actorstore.Reader, i int) {
	t.Helper()
	p, err := r.Page(ctx, chunk(i), nil)
	must(t, err)
	if string(p) != string(pageOf(i)) {
		t.Fatalf("page %d begins with %q", i, p[:8])
	}
}

// readCount returns how often the engine was asked since the last time.
func readCount(eng *faultkv.Engine) int64 {
	c := eng.Counts()
	eng.Reset()
	return c.Gets + c.Scans
}

// openFar opens a store with a cache of so many bytes on a far engine that counts and
// fails.
func openFar(t testing.TB, cacheBytes int64) (*actorstore.Store, *faultkv.Engine) {
	t.Helper()
	eng := faultkv.New(engines.Far(memkv.New()))
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{Now: clock, CacheBytes: cacheBytes, Limits: batch.Limits{Storage: 1 << 40}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, eng
}
