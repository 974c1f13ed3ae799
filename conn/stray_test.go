package conn

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// readable returns the records that can be read, by id.
func (r *room) readable() map[ID]Record {
	r.t.Helper()
	all := map[ID]Record{}
	for s, err := range List(ctx, r.actor) {
		must(r.t, err)
		if s.Err == nil {
			all[s.ID] = *s.Record
		}
	}
	return all
}

// discardStray removes that many runs of stray rows, and nothing else.
func (r *room) discardStray(runs int64) {
	t := r.t
	t.Helper()
	was, used, found := r.readable(), r.actor.Used(), len(r.set.Quarantined())
	f := r.refuse()
	if err := r.set.DiscardStray(ctx); !errors.Is(err, batch.ErrTooLarge) || len(r.set.Quarantined()) != found {
		t.Errorf("refused: %v", err)
	}
	f.Remove()
	r.eng.Reset()
	must(t, r.set.DiscardStray(ctx))
	if c := r.eng.Counts(); c.Commits != runs {
		t.Errorf("%d commits for %d runs", c.Commits, runs)
	}
	if got := r.readable(); len(r.set.Quarantined()) != 0 || r.actor.Used() != used || !reflect.DeepEqual(got, was) {
		t.Errorf("%d are quarantined, %d bytes used after %d; stored %v, before %v",
			len(r.set.Quarantined()), r.actor.Used(), used, got, was)
	}
	r.healthy() // there are no such rows any more
	r.eng.Reset()
	must(t, r.set.DiscardStray(ctx))
	if c := r.eng.Counts(); c.Commits != 0 {
		t.Errorf("%d commits for nothing", c.Commits)
	}
	r.same()
	r.crash()
	r.same()
}

// breaksOff has a row lie before those of a record, whose key breaks off.
func (r *room) breaksOff(id ID) {
	row := r.rows(id)[0]
	r.write(kv.Set(bytes.Clone(row[:bytes.LastIndex(row, []byte{0, 0})]), nil))
}

// wrapsTwo has a row lie behind those of a record, whose key wraps two.
func (r *room) wrapsTwo(id ID) {
	row := r.rows(id)[0]
	n := bytes.LastIndex(row, []byte{0, 0})
	r.write(kv.Set(append(bytes.Clone(row[:n]), 0, 1), nil))
}

// TestDiscardStray removes rows from everywhere among the connections, also where nothing
// stands.
func TestDiscardStray(t *testing.T) {
	r := open(t, Options{})
	for n := range 5 {
		r.create(n)
	}
	conns := r.set.Conns()
	r.breaksOff(conns[0].ID())
	r.wrapsTwo(conns[2].ID())
	r.breaksOff(conns[2].ID())
	r.wrapsTwo(conns[4].ID())
	r.crash()
	r.discardStray(3) // what is on both sides of a record goes together

	conns = r.set.Conns()
	row := r.rows(conns[0].ID())[0]
	for _, c := range conns {
		r.disconnect(c)
	}
	r.write(kv.Set(bytes.Clone(row[:bytes.LastIndex(row, []byte{0, 0})]), nil))
	r.crash()
	r.discardStray(1)
	if len(r.set.Conns()) != 0 || r.actor.Used() != 0 {
		t.Errorf("%d connections, %d bytes used", len(r.set.Conns()), r.actor.Used())
	}
}

// TestDiscardStrayBehindDamage: what stands behind damage is removed when that is.
func TestDiscardStrayBehindDamage(t *testing.T) {
	r := open(t, Options{})
	for n := range 3 {
		r.create(n)
	}
	conns := r.set.Conns()
	first, bad := conns[0].ID(), conns[1].ID()
	rows := r.rows(bad)
	r.wrapsTwo(bad)
	r.wrapsTwo(first)
	r.breaksOff(conns[2].ID())
	r.write(kv.Clear(rows[len(rows)-1]))
	r.crash()
	if err := r.set.DiscardStray(ctx); !errors.Is(err, actorstore.ErrCorrupt) {
		t.Errorf("behind a damaged record: %v", err)
	}
	must(t, r.set.Discard(ctx, bad))
	must(t, r.set.DiscardStray(ctx))
	if len(r.set.Quarantined()) != 0 || len(r.set.Conns()) != 2 {
		t.Errorf("%d are quarantined, %d there", len(r.set.Quarantined()), len(r.set.Conns()))
	}
	r.same()
	r.healthy()
}

// TestDiscardStrayUnreadable: a record that can't be read stays as it is before such rows.
func TestDiscardStrayUnreadable(t *testing.T) {
	r := open(t, Options{})
	c := r.create(0)
	newer := []byte{200, 0, 1, 2, 3}
	must(t, r.actor.Put(ctx, key(c.ID()), newer))
	r.wrapsTwo(c.ID())
	r.crash()
	used := r.actor.Used()
	must(t, r.set.DiscardStray(ctx))
	if v, err := r.actor.Get(ctx, key(c.ID()), nil); err != nil || !bytes.Equal(v, newer) || r.actor.Used() != used {
		t.Errorf("stored %x, %v; %d bytes used, before it %d", v, err, r.actor.Used(), used)
	}
	if left := r.set.Quarantined(); len(left) != 1 || left[0].ID != c.ID() {
		t.Errorf("quarantined: %+v", left)
	}
	r.healthy()
}
