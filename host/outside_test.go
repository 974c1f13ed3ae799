package host

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// outsides are what code past the host gives actors that sleep to do, the lobby or a fork of the lobby's neighbour.
var outsides = []struct {
	what  string
	do    func(t *testing.T, s *greenroom.Store)
	after time.Duration // until it is due
	times int           // how often it is done
}{
	{"a message", update(func(tx *greenroom.Tx) error {
		_, err := tx.Enqueue(queue.Send{Name: "word"})
		return err
	}), 0, 1},
	{"a message for later", update(func(tx *greenroom.Tx) error {
		_, err := tx.Enqueue(queue.Send{Name: "word", Delay: time.Hour})
		return err
	}), time.Hour, 1},
	{"an event", update(func(tx *greenroom.Tx) error {
		_, err := tx.After(0, "ring")
		return err
	}), 0, 1},
	{"a fork", func(t *testing.T, s *greenroom.Store) {
		must(t, s.View(t.Context(), neighbour.String(), func(v *greenroom.View) error {
			_, err := s.Lower().Fork(t.Context(), v.Lower().Snapshot, &actorstore.ForkOptions{Name: "thing/copy", Wake: true})
			return err
		}))
	}, 12*time.Hour - time.Minute, 2},
}

var neighbour = Address{"thing", "neighbour"}

func update(fn func(tx *greenroom.Tx) error) func(t *testing.T, s *greenroom.Store) {
	return func(t *testing.T, s *greenroom.Store) {
		a, err := s.Actor(t.Context(), lobby.String(), nil)
		must(t, err)
		must(t, a.Update(t.Context(), fn))
		must(t, a.Close())
	}
}

// TestOutside: what code past the host stores is done: within a second of when it is due if the code is in the host's process,
// which is always so on an engine that one process has open, and else within Rescan.
func TestOutside(t *testing.T) {
	for _, far := range []bool{false, true} {
		for _, own := range []bool{true, false} {
			for _, outside := range outsides {
				t.Run(fmt.Sprintf("far=%v,own=%v,%s", far, own, outside.what), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var d diary
						r, store := withOutside(t, &d, far, own)
						within := time.Second
						if far && !own {
							within += r.Host.opts.Rescan
						}
						outside.do(t, store)
						if outside.after > 0 {
							pass(outside.after - time.Second)
							d.want(t)
							pass(time.Second)
						}
						pass(within)
						if n := len(d.read()); n != outside.times {
							t.Errorf("it was done %d times, want %d", n, outside.times)
						}
						r.close()
						must(t, store.Close())
					})
				})
			}
		}
	}
}

// withOutside returns a host whose lobby sleeps and whose neighbour waits for a message, and the host's store, or another one on the engine.
func withOutside(t *testing.T, d *diary, far, own bool) (*rig, *greenroom.Store) {
	var engine kv.Engine = memkv.New()
	if far {
		engine = engines.Shared(engine)
	}
	r := newRigOn(t, engine, Options{IdleTimeout: time.Second}, rightType(d))
	_, err := invoke[any](r.ctx, r.Host, lobby, "begin", nil)
	must(t, err)
	_, err = r.Send(r.ctx, neighbour, queue.Send{Name: "word", Delay: 12 * time.Hour})
	must(t, err)
	pass(time.Minute)
	r.wantAsleep(1)
	if own {
		return r, r.Store()
	}
	store, err := greenroom.New(r.ctx, engine, nil)
	must(t, err)
	return r, store
}

// TestIdleReads: an idle host reads the index once in each Rescan, looks for rows of before once a minute, and does nothing else.
func TestIdleReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := faultkv.New(memkv.New())
		h, err := Open(t.Context(), engines.Shared(engine), []*Type{rightType(&diary{})}, &Options{Logger: quiet})
		must(t, err)
		synctest.Wait() // it has looked whether the index is whole
		before := engine.Counts()
		pass(10 * time.Minute)
		c := engine.Counts()
		if scans := c.Scans - before.Scans; scans < 119 || scans > 132 || c.Gets != before.Gets || c.Commits != before.Commits {
			t.Errorf("in ten minutes %d scans, %d gets, %d commits", scans, c.Gets-before.Gets, c.Commits-before.Commits)
		}
		must(t, h.Close(t.Context()))
	})
}
