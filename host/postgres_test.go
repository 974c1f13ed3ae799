//go:build unix

package host

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

// TestPostgresHosts has two hosts on one PostgreSQL, of which the first is cut off from
// it while it counts: the second goes on with what it has acknowledged.
func TestPostgresHosts(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a server")
	}
	t.Parallel() // it waits for the end of a lease
	n := pgtest.Shared(t)
	at := n.URL("schema=" + url.QueryEscape(n.Schema()))
	var cut *faultkv.Engine
	var hosts [2]*Host
	for i := range hosts {
		db, err := pgkv.Open(t.Context(), at, nil)
		must(t, err)
		engine := faultkv.New(db)
		defer func() { must(t, engine.Close()) }()
		if i == 0 {
			cut = engine
		}
		hosts[i], err = Open(t.Context(), engines.Shared(engine), []*Type{killed(), listener()}, &Options{Logger: quiet,
			Store: &greenroom.Options{Host: actorstore.HostOptions{TTL: 12 * time.Second}}})
		must(t, err)
	}
	// The lease is long enough for a machine that stalls for a while: a host that can't register or
	// renew within it has no lease.
	acked := 0
	for range 5 {
		c, err := invoke[int](t.Context(), hosts[0], lobby, "count", nil)
		must(t, err)
		acked = c
	}
	_, err := invoke[int](t.Context(), hosts[1], lobby, "count", nil)
	wantErr(t, err, actorstore.ErrInUse)
	for _, p := range []faultkv.Point{faultkv.BeforeCommit, faultkv.BeforeGet, faultkv.BeforeScan, faultkv.BeforeSnapshot, faultkv.BeforeSync, faultkv.BeforeOutcome} {
		cut.Fail(faultkv.Rule{Point: p, Times: faultkv.Forever})
	}
	if c, err := invoke[int](t.Context(), hosts[0], lobby, "count", nil); err == nil {
		t.Errorf("a host that is cut off has counted to %d", c)
	}
	taken, deadline := false, time.After(testkit.Patience(30*time.Second))
	for tick := time.NewTicker(50 * time.Millisecond); !taken; {
		_, err := invoke[int](t.Context(), hosts[1], lobby, "count", nil)
		if taken = err == nil; !taken {
			wantErr(t, err, actorstore.ErrInUse)
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the actor is still that of the host that was cut off")
		}
	}
	cut.Heal()
	if _, err := invoke[int](t.Context(), hosts[0], lobby, "count", nil); !errors.Is(err, actorstore.ErrInUse) && !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("the first host: %v", err)
	}
	got, err := invoke[[5]int](t.Context(), hosts[1], lobby, "counted", nil)
	must(t, err)
	if want := acked + 1; got != [5]int{want, want, want, want, want} {
		t.Errorf("there are %v, want %d of each", got, want)
	}
	for _, h := range hosts {
		if err := h.Close(t.Context()); err != nil && !errors.Is(err, actorstore.ErrLeaseLost) {
			t.Error(err)
		}
	}
}
