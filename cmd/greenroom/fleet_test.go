//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

const (
	// fleetHostCount is how many hosts serve the store.
	fleetHostCount = 3
	// fleetEach is for how many answers a client a load is watched before and after something happens.
	fleetEach = 5
)

// beginFleet starts hosts, and a load on them that has begun.
func beginFleet(ctx context.Context, t *testing.T, size fleetSize) *fleetLoad {
	t.Helper()
	n := pgtest.Shared(t)
	l := newFleetLoad(ctx, startFleet(t, n.URL("schema="+n.Schema()), fleetHostCount), size)
	l.begin(ctx)
	l.more(ctx, t)
	return l
}

// more waits until the load has gone on for a while.
func (l *fleetLoad) more(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := l.awaitMore(ctx, fleetEach*(len(l.callers)+len(l.talkers))); err != nil {
		l.stop()
		l.report(t)
		t.Fatalf("there are only %d answers: %v", l.answered, err)
	}
}

// end stops the load, and compares what its clients were told with what is there.
func (l *fleetLoad) end(ctx context.Context, t *testing.T) {
	t.Helper()
	l.stop()
	for i := range l.callers[0].counters {
		actor := fmt.Sprintf("counter/%d", i)
		if sum, ok := l.callers[0].get(ctx, actor); ok {
			l.reportAll(t, l.check(actor, sum))
		}
	}
	rooms := map[string][]*fleetTalker{}
	for _, c := range l.talkers {
		rooms[c.room] = append(rooms[c.room], c)
	}
	gaps := 0
	for room, guests := range rooms {
		l.endRoom(ctx, t, room, guests)
		for _, c := range guests {
			gaps += c.gaps
		}
	}
	l.report(t)
	t.Logf("%d calls were answered, %d tries did nothing, and clients missed something %d times while their sockets were open", l.answered, l.again, gaps)
}

// endRoom looks at a room whose guests say nothing any more: all of them get what is said last, have all that was said, and are the connections that the room has.
func (l *fleetLoad) endRoom(ctx context.Context, t *testing.T, room string, guests []*fleetTalker) {
	t.Helper()
	for _, c := range guests {
		c.catchUp(ctx)
	}
	guests[0].say(ctx, "the end", true)
	last := guests[0].whole
	for _, c := range guests {
		for c.ws != nil && c.heard < last {
			if _, o := c.read(ctx); o != fleetDone {
				t.Errorf("%s isn't sent message %d: the last one was %d", c.name, last, c.heard)
				break
			}
		}
		if c.whole != last || len(c.log) != int(last) {
			t.Errorf("%s knows %d messages of %s, and all until %d, of %d", c.name, len(c.log), room, c.whole, last)
		}
	}
	l.reportAll(t, l.check(room, last))
	texts := map[string]bool{}
	for _, text := range guests[0].log {
		texts[text] = true
	}
	if len(texts) != int(last) {
		t.Errorf("%d messages of %s have %d texts", last, room, len(texts))
	}
	var names, want []string
	guests[0].call(ctx, "people", "", struct{}{}, &names)
	for _, c := range guests {
		want = append(want, c.name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("the connections of %s are those of %q, want %q", room, names, want)
	}
}

// report reports the faults that clients have noted.
func (l *fleetLoad) report(t *testing.T) {
	t.Helper()
	l.reportAll(t, l.faults)
	if t.Failed() {
		for i, h := range l.hosts.list {
			t.Logf("host %d: %.4000s", i, &h.stderr)
		}
	}
}

func (l *fleetLoad) reportAll(t *testing.T, faults []string) {
	t.Helper()
	for i, f := range faults {
		if i == 20 {
			t.Errorf("and %d more", len(faults)-i)
			return
		}
		t.Error(f)
	}
}

// TestFleetRolling restarts hosts one after the other under load, each with the next version of the types' schemas. No call fails, each is done once, sockets at the hosts that stay are not closed, and those
// of a host that ends are closed with 1012 and go on elsewhere.
func TestFleetRolling(t *testing.T) {
	if testkit.Short() && !testkit.Race {
		t.Skip("it starts processes")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(10*time.Second)+testkit.Pick(0, 0, 4*time.Minute))
	defer cancel()
	l := beginFleet(ctx, t, fleetForm())
	began, lasts := time.Now(), testkit.Pick(0, 0, 2*time.Minute)
	for n := 0; n < fleetHostCount || time.Since(began) < lasts; n++ {
		l.hosts.schema = 2 + n/fleetHostCount
		l.hosts.restart(ctx, t, n%fleetHostCount)
		l.more(ctx, t)
	}
	l.end(ctx, t)
	l.upgraded(ctx, t)
	for _, c := range l.talkers {
		if c.sockets < 2 {
			t.Errorf("%s has had %d sockets, though each host has ended", c.name, c.sockets)
		}
	}
}

// upgraded tests that each actor was brought up from version to version, once, to one that all hosts know.
func (l *fleetLoad) upgraded(ctx context.Context, t *testing.T) {
	t.Helper()
	store, err := storeurl.Open(ctx, l.hosts.url, greenroom.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for name := range l.actors {
		if err := store.View(ctx, name, func(v *greenroom.View) error {
			var got, want string
			last := l.hosts.schema
			if v.Info().Attributes.Schema == uint64(last-1) {
				last--
			}
			for i := range last {
				want += fmt.Sprint(i+1, " ")
			}
			err := v.QueryRow("select group_concat(version, ' ') || ' ' from (select version from upgrade order by rowid)").Scan(&got)
			if got != want {
				t.Errorf("%s was brought up to %s, one after the other, want %s", name, got, want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

// fleetForm returns the size of the load. In the quick form most calls would be those of clients that wait until the actors of a host that was killed may be taken over, so they
// rest longer.
func fleetForm() fleetSize {
	return testkit.Pick(fleetSize{12, 6, 8, 2, 40 * time.Millisecond}, fleetSize{24, 9, 16, 4, 160 * time.Millisecond}, fleetSize{120, 40, 80, 20, 40 * time.Millisecond})
}

// TestFleetKilled kills a host under load. Calls that were under way there may have been done; with a key they are done once. All actors go on elsewhere.
func TestFleetKilled(t *testing.T) {
	if testkit.Short() && !testkit.Race {
		t.Skip("it starts processes")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(20*time.Second))
	defer cancel()
	l := beginFleet(ctx, t, fleetForm())
	killed := l.now()
	l.hosts.kill(0)
	began := time.Now()
	if err := l.await(ctx, func() bool {
		for _, a := range l.actors {
			if a.began <= killed {
				return false
			}
		}
		return true
	}); err != nil {
		t.Errorf("an actor has not answered since: %v", err)
	}
	t.Logf("all actors have answered %v after the kill", time.Since(began))
	l.hosts.replace(t, 0)
	l.more(ctx, t)
	l.end(ctx, t)
	// A call with a key that was under way is made again, and each of the hosts may lose it once before all see that one has died.
	for _, c := range l.callers {
		if c.doubts > fleetHostCount {
			t.Errorf("caller %d had one call under way, and it may have been done %d times", c.id, c.doubts)
		}
	}
	for _, c := range l.talkers {
		if c.doubts > fleetHostCount {
			t.Errorf("%s had one call under way, and it may have been done %d times", c.name, c.doubts)
		}
	}
}
