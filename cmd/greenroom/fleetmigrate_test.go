//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestMigrateKilled brings up actors that sleep, beside hosts that wake some of them, with a program that is killed three times: each is brought up once, and one that can't be is listed and stays as
// it is.
func TestMigrateKilled(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(20*time.Second)+testkit.Pick(0, 0, 3*time.Minute))
	defer cancel()
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	actors := testkit.Pick(0, 500, 10_000)
	makeCounters(ctx, t, url, actors)
	dir := t.TempDir()
	for _, m := range upgrades(2) {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d_step.sql", m.Version)), []byte(m.SQL), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hosts := &fleetHosts{url: url, schema: 2}
	for range fleetHostCount {
		hosts.list = append(hosts.list, hosts.start(t, anyPort))
	}
	calls, stop := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for i := range fleetHostCount {
		callers.Go(func() { wakeCounters(calls, t, hosts.pick(i), actors) })
	}
	migrate := []string{"migrate", url, "--type", "counter", "--dir", dir}
	text, err := json.Marshal(append(migrate, "--rate", testkit.Pick("0", "240", "1000")))
	if err != nil {
		t.Fatal(err)
	}
	for k := range 3 {
		p := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHostChild$")
		p.Env = append(os.Environ(), hostArgs+"="+string(text))
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		for ctx.Err() == nil && upCounters(ctx, t, url) < (k+1)*actors/10 {
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("it ended by itself: %v", err)
		}
	}
	stop()
	callers.Wait()
	before := counterSchemas(ctx, t, url, actors, false)
	if before[1] == 0 || before[2] == 0 {
		t.Errorf("after the kills there are %v by version", before)
	}
	r := program(ctx, strings.NewReader(""), append(migrate, "--canary", "1", "--parallel", "4")...)
	if r.code != serving.ExitFailed || strings.Count(r.stderr, "greenroom: counter/odd: migration 2 step: ") != 1 || strings.Count(r.stderr, "\n") != 2 {
		t.Errorf("at last: status %d, %s", r.code, r.stderr)
	}
	if got := counterSchemas(ctx, t, url, actors, true); got[2] != actors || got[1] != 1 {
		t.Errorf("there are %v by version", got)
	}
}

// makeCounters makes actors with the first version of the schema, and counter/odd, which can't be brought up to the second one.
func makeCounters(ctx context.Context, t *testing.T, url string, n int) {
	t.Helper()
	store, err := storeurl.Open(ctx, url, greenroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	names := make(chan string)
	for range 16 {
		work.Go(func() {
			for name := range names {
				a, err := store.Actor(ctx, name, nil)
				if err == nil {
					err = errors.Join(a.Update(ctx, func(tx *greenroom.Tx) error {
						if strings.HasSuffix(name, "odd") {
							if _, err := tx.Exec("create table upgrade(version integer check (version < 2))"); err != nil {
								return err
							}
						}
						_, err := upgrades(1).Run(tx)
						return err
					}), a.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	names <- "counter/odd"
	for i := range n {
		names <- fmt.Sprintf("counter/%d", i)
	}
	close(names)
	work.Wait()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// upCounters returns how many actors have the second version of the schema.
func upCounters(ctx context.Context, t *testing.T, url string) (n int) {
	store, err := storeurl.Open(ctx, url, greenroom.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for a, err := range store.Actors(ctx, &greenroom.ActorsOptions{Prefix: "counter/"}) {
		if err != nil {
			t.Fatal(err)
		}
		if a.Attributes.Schema == 2 && !strings.HasPrefix(a.Name, "counter/new ") {
			n++
		}
	}
	return n
}

// wakeCounters calls actors, so that they wake, until ctx ends. An actor that the program has, or had as it was killed, is refused (421), and one that moves may be (503).
func wakeCounters(ctx context.Context, t *testing.T, h *fleetHost, n int) {
	for ctx.Err() == nil {
		name := fmt.Sprint(rand.IntN(n * 10)) // some of them, so that the program has enough to do
		if rand.IntN(10) > 0 {
			name = "new " + name
		}
		var got map[string]int
		err := h.post(ctx, "/actors/counter/"+name+"/actions/get", struct{}{}, &got)
		if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "503") && !strings.Contains(err.Error(), "421") {
			t.Errorf("%s: %v", name, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// counterSchemas returns how many of the actors have each version, and tests that each was brought up from one to the next, once.
func counterSchemas(ctx context.Context, t *testing.T, url string, n int, all bool) map[uint64]int {
	t.Helper()
	store, err := storeurl.Open(ctx, url, greenroom.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	counts := map[uint64]int{}
	for i := range n + 1 {
		name := fmt.Sprint("counter/", i)
		if i == n {
			name = "counter/odd"
		}
		if err := store.View(ctx, name, func(v *greenroom.View) error {
			at := v.Info().Attributes.Schema
			counts[at]++
			if !all && i%20 > 0 {
				return nil
			}
			var got string
			err := v.QueryRow("select group_concat(version, ' ') from (select version from upgrade order by rowid)").Scan(&got)
			if want := map[uint64]string{1: "1", 2: "1 2"}[at]; got != want {
				t.Errorf("%s, of version %d, was brought up to %q", name, at, got)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	return counts
}
