package greenroom_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A history is what transactions have done, and what was said about it.
type history struct {
	states []string // what the actor has after each of them, "" before the first
	acked  int      // so many are on stable storage
	begun  int
}

// crashSteps are transactions that change every part, of which some are larger than one
// commit of the engine where commits are small, and some fail.
var crashSteps = []struct {
	applied bool
	blobs   int
	fails   bool
}{{}, {applied: true}, {blobs: 400}, {fails: true}, {applied: true, blobs: 300}, {applied: true}, {}, {blobs: 200, fails: true}, {applied: true}}

// do does the step of that number, which is the first one of the actor or follows the others.
func (h *history) do(t testing.TB, r *rig, i int) {
	step, no := crashSteps[i], errors.New("no")
	fn := func(tx *greenroom.Tx) error {
		var err error
		if i > 0 {
			err = write(tx, "new")
		} else if err = create(tx); err == nil {
			_, err = tx.Exec("create table blobs(b)")
		}
		if err == nil && step.blobs > 0 {
			_, err = tx.Exec("insert into blobs select randomblob(3000) from generate_series(1, ?)", step.blobs)
		}
		if err == nil && step.fails {
			err = no
		}
		return err
	}
	update := r.actor.Update
	if step.applied {
		update = r.actor.UpdateApplied
	}
	if !step.fails {
		h.begun++
		h.states = append(h.states, crashState(h.begun))
	}
	switch err := update(ctx, fn); {
	case step.fails:
		wantErr(t, "a transaction that fails", err, no)
	case err != nil:
		t.Fatal(err)
	case !step.applied:
		h.acked = h.begun
	}
}

// crashState is what the actor has after n of crashSteps that didn't fail.
func crashState(n int) string {
	value, blobs := "new", 0
	if n == 1 {
		value = "old"
	}
	for i, done := 0, 0; done < n; i++ {
		if !crashSteps[i].fails {
			done++
			blobs += crashSteps[i].blobs
		}
	}
	return fmt.Sprint(has(n, value), ", ", blobs, " blobs")
}

// crashLeft returns what a crash has left of the actor, "" for nothing, and that a transaction
// can follow.
func crashLeft(t testing.TB, r *rig) (state string) {
	t.Helper()
	empty := false
	r.update(t, func(tx *greenroom.Tx) error {
		var tables int
		err := tx.QueryRow("select count(*) from sqlite_schema").Scan(&tables)
		empty = tables == 0
		return err
	})
	if empty {
		raw, err := greenroom.State[string](stateOf{r})
		if err != nil || raw != "" {
			t.Errorf("an actor without tables has the state %q, %v", raw, err)
		}
		return ""
	}
	state = r.holds(t)
	must(t, r.actor.View(ctx, func(v *greenroom.View) error {
		var blobs int
		var sound string
		err := errors.Join(v.QueryRow("select count(*) from blobs").Scan(&blobs), v.QueryRow("pragma integrity_check").Scan(&sound))
		if sound != "ok" {
			t.Errorf("the database is damaged: %s", sound)
		}
		state = fmt.Sprint(state, ", ", blobs, " blobs")
		return err
	}))
	for f, err := range r.store.Lower().Check(ctx) {
		must(t, err)
		t.Errorf("finding: %v", f)
	}
	return state
}

// stateOf reads the state of a rig's actor.
type stateOf struct{ *rig }

func (s stateOf) RawState() (raw []byte, err error) {
	err = s.actor.Update(ctx, func(tx *greenroom.Tx) (err error) {
		raw, err = tx.RawState()
		return err
	})
	return bytes.Clone(raw), err
}

// TestCrash stops transactions that change every part after each commit of the engine, and
// what then makes that good after each of its commits: there is all of a transaction or
// nothing of it, and every one that was waited for.
func TestCrash(t *testing.T) {
	for name, limits := range map[string]batch.Limits{"whole": {AtomicBatches: 1 << 30}, "small commits": {AtomicBatches: 1, Entries: 64}} {
		t.Run(name, func(t *testing.T) {
			tape, h := engines.NewTape(), &history{states: []string{""}}
			r := newRigOn(t, tape, limits)
			known := []history{*h} // by the number of commits
			note := func() {
				for len(known) <= tape.Len() {
					known = append(known, history{acked: known[len(known)-1].acked, begun: h.begun})
				}
				known[tape.Len()].acked = h.acked
			}
			for i := range crashSteps {
				h.do(t, r, i)
				note()
			}
			met := map[string]bool{}
			for n := range known {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					first := tape.At(t, n)
					state := crashLeft(t, newRigOn(t, first, limits))
					i := slices.Index(h.states, state)
					if i < known[n].acked || i > known[n].begun {
						t.Fatalf("it has %q, of %d transactions; %d are durable, %d have begun", state, i, known[n].acked, known[n].begun)
					}
					met[state] = true
					whole := tape.At(t, n)
					for m := range first.Len() {
						if again := crashLeft(t, newRigOn(t, first.At(t, m), limits)); again != state {
							t.Errorf("after a second crash it has %q, not %q", again, state)
						}
					}
					last := newRigOn(t, whole, limits)
					if i > 0 {
						last.update(t, func(tx *greenroom.Tx) error { return write(tx, "new") })
					}
				})
			}
			if len(met) != len(h.states) {
				t.Errorf("of %d states %d were met", len(h.states), len(met))
			}
			if small := tape.Len() > 2*len(crashSteps); small != (limits.AtomicBatches == 1) {
				t.Errorf("%d commits for %d transactions", tape.Len(), len(crashSteps))
			}
		})
	}
}

// TestCrashPebble crashes the disk before and behind every commit, with nothing, a part or
// all of what isn't synced lost.
func TestCrashPebble(t *testing.T) {
	type clone struct {
		disk *pebblekv.CrashDisk
		history
	}
	for name, limits := range map[string]batch.Limits{"whole": {AtomicBatches: 1 << 30}, "small commits": {AtomicBatches: 1, Entries: 64}} {
		t.Run(name, func(t *testing.T) {
			disk, h := pebblekv.NewCrashDisk(), &history{states: []string{""}}
			engine, err := disk.Open(nil)
			must(t, err)
			r := newRigOn(t, engine, limits)
			rnd := rand.New(rand.NewPCG(1, 2))
			var clones []clone
			r.engine.Hook(func(op faultkv.Op) error {
				if op.Point == faultkv.AfterApply || op.Point == faultkv.AfterCommit {
					clones = append(clones, clone{disk.Crash([]int{0, 50, 100}[len(clones)%3], rnd), history{acked: h.acked, begun: h.begun}})
				}
				return nil
			})
			for i := range crashSteps {
				h.do(t, r, i)
			}
			r.engine.Heal()
			for i, c := range clones {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					engine, err := c.disk.Open(nil)
					must(t, err)
					t.Cleanup(func() { must(t, engine.Close()) })
					state := crashLeft(t, newRigOn(t, engine, limits))
					if i := slices.Index(h.states, state); i < c.acked || i > c.begun {
						t.Errorf("it has %q, of %d transactions; %d are durable, %d have begun", state, i, c.acked, c.begun)
					}
				})
			}
		})
	}
}
