package actorstore

import (
	"context"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

var ctx = context.Background()

// testID is the id that the golden bytes are about.
var testID = ID{
	UUID:  [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
	Label: 7,
}

// must fails the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onEngines runs test on each engine, empty.
func onEngines(t *testing.T, test func(t *testing.T, eng kv.Engine)) {
	t.Run("memkv", func(t *testing.T) { test(t, memkv.New()) })
	t.Run("memkv, far", func(t *testing.T) { test(t, far{memkv.New()}) })
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
func openStore(t testing.TB, eng kv.Engine, l batch.Limits) *Store {
	t.Helper()
	l, err := envlimits.Apply(l)
	must(t, err)
	s, err := Open(ctx, eng, &Options{Limits: l, Now: clock, Host: HostOptions{TTL: testTTL}})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// testTTL is the lease of the stores of tests: so long that it neither is renewed nor runs
// out while a test runs, however slow the machine is. A test that waits for another host does that
// in a bubble of testing/synctest.
const testTTL = time.Hour

// openActor takes the actor testID over, whatever its owner, until the test ends.
func openActor(t testing.TB, s *Store) *Actor {
	t.Helper()
	a, err := s.Actor(ctx, testID, &ActorOptions{Force: true})
	must(t, err)
	t.Cleanup(func() { must(t, a.Close()) })
	return a
}

// user is the key of a user key.
func user(k string) []byte { return UserKey([]byte(k)) }

// get returns what r has under key, and whether there is anything.
func get(t testing.TB, r Reader, key []byte) (value string, ok bool) {
	t.Helper()
	v, err := r.Get(ctx, key, nil)
	if err == ErrNotFound {
		return "", false
	}
	must(t, err)
	return string(v), true
}

// words returns the keys of r in words, in the order of opts.
func words(t testing.TB, r Reader, opts ListOptions) []string {
	t.Helper()
	all := []string{}
	for e, err := range r.List(ctx, opts) {
		must(t, err)
		all = append(all, Describe(e.Key))
	}
	return all
}
