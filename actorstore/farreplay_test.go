package actorstore_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// Lines of a script on a far engine that counts and fails:
//
//	pages NAME                       a snapshot by PageSnapshot
//	prefetch READER START END LIMIT
//	fail get|scan|entry|snapshot N   the Nth next one fails; the line it strikes is
//	                                 run again
//	lose before|after                the engine can't say what became of the next
//	                                 commit, which it didn't make, or did; the handle
//	                                 is opened again
//	steal KEY SIZE                   another store takes the actor over and writes; the
//	                                 handle is opened again
//	away KEY SIZE                    the same while the handle is closed

// farReplayer returns a replayer on a far engine.
func farReplayer(cacheBytes int64) *replayer {
	below := engines.Far(memkv.New())
	return &replayer{
		eng: faultkv.New(below), below: below, opts: actorstore.Options{CacheBytes: cacheBytes},
		restart: func(eng kv.Engine) (kv.Engine, error) { return eng, nil },
	}
}

// runFar runs a line that is not one for every engine.
func (r *replayer) runFar(w []string) error {
	eng, ok := r.eng.(*faultkv.Engine)
	if !ok {
		return fmt.Errorf("unknown operation %q", w[0])
	}
	switch w[0] {
	case "pages":
		s, err := r.actor.PageSnapshot(ctx)
		if err == nil {
			r.snaps[w[1]] = pinned{s, r.actor, maps.Clone(r.model), r.seq, true}
		}
		return err
	case "prefetch":
		return r.prefetch(w[1:])
	case "fail":
		n, err := strconv.Atoi(w[2])
		point := map[string]faultkv.Point{
			"get": faultkv.BeforeGet, "scan": faultkv.BeforeScan, "entry": faultkv.BeforeEntry, "snapshot": faultkv.BeforeSnapshot,
		}[w[1]]
		eng.Fail(faultkv.Rule{Point: point, Skip: n - 1})
		return err
	case "lose":
		point := faultkv.AfterApply
		if w[1] == "before" {
			point = faultkv.BeforeCommit
		}
		eng.Fail(faultkv.Rule{Point: point, Err: kv.ErrUnknownOutcome})
		return nil
	case "steal":
		return errors.Join(r.steal(w), r.reopenFailed(actorstore.ErrFenced))
	case "away":
		eng.Heal()
		if err := r.actor.Close(); err != nil {
			return err
		}
		return errors.Join(r.steal(w), r.reopenByID())
	}
	return fmt.Errorf("unknown operation %q", w[0])
}

// again runs a line, and once more if a fault struck. What closes the handle isn't
// struck: its snapshots might be lost with it.
func (r *replayer) again(line string) error {
	eng := r.eng.(*faultkv.Engine)
	if line == "reopen" || line == "restart" {
		eng.Heal()
	}
	err := r.run(line)
	if errors.Is(err, faultkv.ErrInjected) {
		eng.Heal()
		err = r.run(line)
	}
	return err
}

// mishap says what becomes of the model after a commit that a fault struck; next is
// what it would have become.
func (r *replayer) mishap(err error, b *batch.Batch, subs []batch.Sub, next contents) error {
	var part *batch.OrderedError
	landed := 0
	if errors.As(err, &part) {
		landed = part.Landed
	}
	lost := errors.Is(err, kv.ErrUnknownOutcome)
	if lost {
		// The one that was lost is there as its id says.
		reopened := r.reopenFailed(actorstore.ErrPoisoned)
		if reopened != nil {
			return reopened
		}
		if d := r.actor.Doubt(); d == nil {
			return errors.New("there is no doubt")
		} else if d.Outcome == kv.OutcomeApplied {
			landed++
		}
	}
	for _, s := range subs[:min(landed, len(subs))] {
		for _, o := range s.Ops {
			r.model.apply(o)
		}
	}
	r.seq += uint64(landed)
	if landed > 0 && b.Mode == batch.Atomic {
		r.model = next
	}
	if lost || landed > 0 && errors.Is(err, faultkv.ErrInjected) {
		r.eng.(*faultkv.Engine).Heal()
		return nil
	}
	return err
}

// steal writes to the actor through another store.
func (r *replayer) steal(w []string) error {
	r.eng.(*faultkv.Engine).Heal()
	key := []byte(unquote(w[1]))
	n, err := strconv.Atoi(w[2])
	if err != nil {
		return err
	}
	other, err := actorstore.Open(ctx, r.eng, &r.opts)
	if err != nil {
		return err
	}
	a, err := other.Actor(ctx, testID, &actorstore.ActorOptions{Name: "model"})
	if err != nil {
		return errors.Join(err, other.Close())
	}
	value := r.value(n)
	next := maps.Clone(r.model)
	next[string(key)] = value
	switch err := a.Put(ctx, key, []byte(value)); {
	case err == nil:
		r.model = next
		r.seq++
	case !errors.Is(err, actorstore.ErrQuota):
		return err
	}
	return errors.Join(a.Close(), other.Close())
}

// reopenFailed opens the handle again after it has failed because of want, and closes
// its snapshots, which must say so, too.
func (r *replayer) reopenFailed(want error) error {
	r.eng.(*faultkv.Engine).Heal()
	for name, p := range r.snaps {
		if p.owner != r.actor {
			continue
		}
		for key := range p.model {
			if _, err := p.snap.Page(ctx, []byte(key), nil); !errors.Is(err, want) {
				return fmt.Errorf("page of a snapshot: got %v, want %w", err, want)
			}
			break
		}
		if err := p.snap.Close(); err != nil {
			return err
		}
		delete(r.snaps, name)
	}
	if _, err := r.actor.Get(ctx, user("k"), nil); !errors.Is(err, want) {
		return fmt.Errorf("get of a handle: got %v, want %w", err, want)
	}
	if err := r.actor.Close(); err != nil {
		return err
	}
	return r.reopenByID()
}

func (r *replayer) prefetch(w []string) (err error) {
	limit, err := strconv.Atoi(w[3])
	if err != nil {
		return err
	}
	p, ok := r.snaps[w[0]]
	if !ok {
		snap, err := r.actor.PageSnapshot(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, snap.Close()) }()
		p = pinned{snap, r.actor, r.model, r.seq, true}
	}
	var end []byte
	if w[2] != "-" {
		end = []byte(unquote(w[2]))
	}
	n, err := p.snap.Prefetch(ctx, []byte(unquote(w[1])), end, limit)
	if limit > 0 && n > limit || n > 0 && r.actor.CacheBytes() == 0 {
		return fmt.Errorf("prefetched %d", n)
	}
	return err
}

// farLine makes a random line of those that want a far engine, or any other.
func (g *generator) farLine() string {
	switch g.rnd.IntN(24) {
	case 0, 1, 2:
		g.made++
		g.snaps = append(g.snaps, fmt.Sprint("s", g.made))
		return "pages " + g.snaps[len(g.snaps)-1]
	case 3, 4, 5:
		return fmt.Sprintf("prefetch %s %s %s %d", g.pick(append([]string{"actor"}, g.snaps...)...), g.pick("-", g.key()), g.pick("-", g.key()), g.rnd.IntN(4))
	case 6:
		return fmt.Sprintf("fail %s %d", g.pick("get", "scan", "entry", "snapshot"), 1+g.rnd.IntN(3))
	case 7:
		if g.rnd.IntN(3) == 0 {
			return "lose " + g.pick("before", "after")
		}
	case 8:
		if g.rnd.IntN(3) == 0 {
			return fmt.Sprintf("%s %s %d", g.pick("steal", "away"), g.key(), 1+g.rnd.IntN(9000))
		}
	}
	for {
		// A drop that is lost, or half done, is tested elsewhere.
		if line := g.line(); line != "drop" {
			return line
		}
	}
}

// TestRandomFar is TestRandom with everything that can happen on a far engine.
func TestRandomFar(t *testing.T) {
	steps := testkit.Pick(100, 400, 6000)
	for name, cacheBytes := range map[string]int64{"cache": 0, "tiny cache": 30_000, "no cache": -1} {
		for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
			t.Run(fmt.Sprint(name, "/seed=", seed), func(t *testing.T) {
				replay(t, farReplayer(cacheBytes), func(t *testing.T, r *replayer) {
					g := &generator{rnd: rand.New(rand.NewPCG(seed, 1))}
					runRandom(t, r.again, steps, func() string {
						// Those of a handle that failed are gone.
						g.snaps = slices.DeleteFunc(g.snaps, func(name string) bool { _, ok := r.snaps[name]; return !ok })
						return g.farLine()
					})
				})
			})
		}
	}
}
