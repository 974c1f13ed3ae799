//go:build unix

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
)

var (
	forFlag   = flag.Duration("for", 20*time.Second, "how long TestChaos goes on")
	seedFlag  = flag.Uint64("seed", 0, "what happens in TestChaos, and in which order; 0 is any")
	kindsFlag = flag.String("kinds", strings.Join(slices.Sorted(maps.Keys(kinds)), ","), "what happens in TestChaos")
)

// clients is how many call at once.
const clients = 16

// What a run must have seen at least, or it goes on: so a slow machine takes longer and
// doesn't see less.
const (
	leastAnswered = 20  // calls behind events of each kind
	leastJoint    = 100 // calls of two actors that were answered
	leastMoves    = 10  // of actors, from one process to another
)

// patience is how much longer than asked for a run may take for that, and how long letters
// may be under way when all is over.
const patience = 5 * time.Minute

// TestChaos breaks things while clients call, and then asks the checker.
func TestChaos(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	names := strings.Split(*kindsFlag, ",")
	for _, name := range names {
		if kinds[name] == nil {
			t.Fatalf("nothing is called %q", name)
		}
	}
	t.Logf("-seed %d -for %v -kinds %s", seed, *forFlag, *kindsFlag)
	w := newWorld(t, seed)
	f := newFronts(w.machines)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calling sync.WaitGroup
	for i := range clients {
		c := &client{number: i, rand: rand.New(rand.NewPCG(seed, uint64(i+1))), fronts: f, history: w.history}
		calling.Go(func() { c.run(ctx) })
	}
	w.settle(f) // nothing is broken before there is something
	w.chaos(names)
	close(w.over)
	w.work.Wait()
	cancel()
	calling.Wait()
	w.settle(f)
	w.judge(f)
}

// newWorld starts the server, and the machines.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{TB: t, rand: rand.New(rand.NewPCG(seed, 0)), dir: keptDir(t), history: newHistory(), over: make(chan struct{})}
	w.node = pgtest.Start(t)
	for i := range 3 {
		m := &machine{t: t, name: string(rune('a' + i))}
		if i > 0 { // the first one's processes don't know one another
			m.host = "host " + m.name
		}
		m.proxy, m.url = pgtest.NewProxy(t, w.node.URL(""))
		var err error
		if m.log, err = os.Create(filepath.Join(w.dir, "host-"+m.name+".log")); err != nil {
			t.Fatal(err)
		}
		w.machines = append(w.machines, m)
		m.work.Go(m.run)
		t.Cleanup(func() {
			m.signal(syscall.SIGKILL) // it has ended, unless the test failed
			m.close()
			if err := m.log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

// keptDir returns a folder that stays if the test fails.
func keptDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "greenroom-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what there is to look at is in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// chaos breaks one thing after the other, each of the kinds in every round, until the time is
// up and enough was seen.
func (w *world) chaos(names []string) {
	begun, seen := time.Now(), map[string]int{}
	var round []string
	for {
		if len(round) == 0 {
			missing := w.missing(names, seen)
			if past := time.Since(begun); past > *forFlag && missing == "" {
				break
			} else if past > *forFlag+patience {
				w.Errorf("after %v: %s", past, missing)
				break
			}
			round = slices.Clone(names)
			w.rand.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		name := round[0]
		round = round[1:]
		before, joint, moves := w.history.progress()
		at := w.history.now()
		ended := w.history.happened(name, "")
		what := kinds[name](w)
		ended()
		w.Logf("%8v %s %s (%d answered, %d of two actors, %d moves)", at.Round(time.Millisecond), name, what, before, joint, moves)
		<-time.After(w.upTo(2500)) // of what clients see now
		after, _, _ := w.history.progress()
		seen[name] += after - before
	}
	w.Logf("answered behind each kind of event: %v", seen)
}

// missing says what a run hasn't seen enough of.
func (w *world) missing(names []string, seen map[string]int) string {
	for _, name := range names {
		if seen[name] < leastAnswered {
			return fmt.Sprintf("behind %s %d calls were answered, want %d", name, seen[name], leastAnswered)
		}
	}
	switch _, joint, moves := w.history.progress(); {
	case moves < leastMoves:
		return fmt.Sprintf("actors have moved %d times, want %d", moves, leastMoves)
	case joint < leastJoint:
		return fmt.Sprintf("%d calls of two actors were answered, want %d", joint, leastJoint)
	}
	return ""
}

// settle waits until every machine has a host, and every actor answers through some host.
func (w *world) settle(f *fronts) {
	w.Helper()
	for _, m := range w.machines {
		w.await("host "+m.name, func() error {
			if m.at() == "" {
				return errNoHost
			}
			return nil
		})
	}
	for i := range actors {
		w.await(counterKey(i), func() error {
			return f.call(w.Context(), w.any(), counterKey(i), "get", nil, &answer{})
		})
	}
}

// await tries something until it works, for some minutes.
func (w *world) await(what string, try func() error) {
	w.Helper()
	var err error
	if pglocal.Poll(func() (bool, error) { err = try(); return err == nil, nil }) != nil {
		w.stacks()
		w.Fatalf("%s doesn't answer: %v", what, err)
	}
}

// stacks has the hosts write what they do to their logs, and end.
func (w *world) stacks() {
	for _, m := range w.machines {
		m.mu.Lock()
		m.killed = true
		m.mu.Unlock()
		m.signal(syscall.SIGQUIT)
	}
	w.Logf("what the hosts were doing is in %s", w.dir)
}

// list reads a list of numbers, from whatever host has the actor.
func (w *world) list(f *fronts, actor string) (ids []int) {
	w.Helper()
	w.await(actor, func() error { return f.call(w.Context(), w.any(), actor, "list", nil, &ids) })
	return ids
}

// read reads the lists of some actors at one moment, from whatever host can have them all: they sleep soon.
func (w *world) read(f *fronts, some ...int) reading {
	w.Helper()
	r := reading{Actors: some, Begin: w.history.now()}
	w.await(fmt.Sprint("actors ", some), func() (err error) {
		r.Lists, err = ask[[]int](w.Context(), f, w.any(), some, "list", several{})
		return err
	})
	r.End = w.history.now()
	w.history.readings = append(w.history.readings, r)
	return r
}

// judge asks the checker, compares the letters that have come with those that were sent, and
// ends the hosts.
func (w *world) judge(f *fronts) {
	answered, joint, moves := w.history.progress()
	w.Logf("%d calls were answered, %d of two actors, actors moved %d times; not answered: %v", answered, joint, moves, w.history.why)
	var group []int
	for i := firstJoint; i < actors; i++ {
		group = append(group, i)
	}
	all := w.read(f, group...)
	for _, torn := range halves(w.history.calls, all) {
		w.Error(torn)
	}
	w.holds(all)
	var lists [][]int
	for i := range firstJoint {
		r := w.read(f, i)
		w.holds(r)
		lists = append(lists, r.Lists...)
	}
	for _, i := range group {
		w.holds(all.of(i))
	}
	for i, want := range append(lists, all.Lists...) {
		if w.Failed() {
			break // of an increment that was lost a letter may be there, or never come
		}
		w.letters(f, i, want)
	}
	for _, m := range w.machines {
		m.close()
	}
}

// holds asks the checker about the actors of a reading.
func (w *world) holds(r reading) {
	w.Helper()
	ops := operations(w.history.calls, r)
	v := check(ops)
	w.Logf("actors %v: %d calls, lists of %v: %s in %v", r.Actors, len(ops), r.lengths(), v.result, v.took)
	if v.result != porcupine.Ok {
		w.Errorf("actors %v: %s: see %s", r.Actors, v.result, w.show(r, v))
		return
	}
	// The same with an increment lost in one list is to be found out.
	less, lost := r.lose()
	if v := check(operations(w.history.calls, less)); v.result != porcupine.Illegal {
		w.Errorf("actors %v, without the increment %d in the list of %d: %s after %v", r.Actors, lost, r.Actors[0], v.result, v.took)
	}
	if len(r.Actors) > 1 && len(halves(w.history.calls, less)) != 1 {
		w.Errorf("the increment %d, lost in the list of %d, isn't found missing", lost, r.Actors[0])
	}
}

// letters waits until a ledger has everything that its counter has sent: each letter once and
// in order.
func (w *world) letters(f *fronts, actor int, want []int) {
	w.Helper()
	var got []int
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if got = w.list(f, ledgerKey(actor)); len(got) >= len(want) {
			break
		}
		<-time.After(3 * idle) // constant calls would keep the actor where it is
	}
	if !slices.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		w.Errorf("actor %d has sent %d letters, and %d have come; the first that differs is number %d", actor, len(want), len(got), i)
	}
}

// show writes what happened and the checker's picture of it, and returns where that is.
func (w *world) show(r reading, v verdict) string {
	name := "actor"
	for _, i := range r.Actors {
		name += fmt.Sprint("-", i)
	}
	page := filepath.Join(w.dir, name+".html")
	w.create(page, func(out io.Writer) error { return v.picture(out, w.history.events) })
	w.create(filepath.Join(w.dir, "history.jsonl"), w.history.write)
	return page
}

// create writes a file.
func (w *world) create(name string, write func(io.Writer) error) {
	out, err := os.Create(name)
	if err == nil {
		err = errors.Join(write(out), out.Close())
	}
	if err != nil {
		w.Error(err)
	}
}
