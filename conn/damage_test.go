package conn

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// rows returns the engine's keys of the rows that hold a connection's record, DATA first.
func (r *room) rows(id ID) (rows [][]byte) {
	r.t.Helper()
	for e, err := range r.eng.Unwrap().Scan(ctx, kv.Range{}) {
		must(r.t, err)
		if bytes.Contains(e.Key, append([]byte{5, 1}, key(id)...)) {
			rows = append(rows, bytes.Clone(e.Key))
		}
	}
	if len(rows) < 2 {
		r.t.Fatalf("%q has %d rows", id, len(rows))
	}
	return rows
}

// write changes rows, past everybody.
func (r *room) write(ops ...kv.Op) {
	r.t.Helper()
	must(r.t, r.eng.Unwrap().Commit(ctx, &kv.Commit{Ops: ops}))
}

// damages are what may become of the rows of one record, DATA first and METADATA last.
// stray says that all that is wrong are rows that belong to no record; lost that it isn't
// the rows of the record that say what is wrong, but its value.
var damages = []struct {
	what        string
	ops         func(rows [][]byte) []kv.Op
	stray, lost bool
}{
	{what: "METADATA is missing", ops: func(rows [][]byte) []kv.Op {
		return []kv.Op{kv.Clear(rows[len(rows)-1])}
	}},
	{what: "METADATA can't be read", ops: func(rows [][]byte) []kv.Op {
		return []kv.Op{kv.Set(rows[len(rows)-1], []byte{0xff})}
	}},
	{what: "a row of the value is missing", lost: true, ops: func(rows [][]byte) []kv.Op {
		return []kv.Op{kv.Clear(rows[0])}
	}},
	{what: "a row of the value is short", ops: func(rows [][]byte) []kv.Op {
		return []kv.Op{kv.Set(rows[0], []byte{4})}
	}},
	{what: "a row of the value is empty", ops: func(rows [][]byte) []kv.Op {
		return []kv.Op{kv.Set(rows[len(rows)-2], nil)}
	}},
	{what: "there is a row of another kind behind it", stray: true, ops: func(rows [][]byte) []kv.Op {
		other := bytes.Clone(rows[len(rows)-1])
		other[len(other)-1]++
		return []kv.Op{kv.Set(other, nil)}
	}},
	{what: "there is a row before the value", ops: func(rows [][]byte) []kv.Op {
		return []kv.Op{kv.Set(bytes.Clone(rows[0][:len(rows[0])-1]), nil)}
	}},
	{what: "a key that breaks off before it", stray: true, ops: func(rows [][]byte) []kv.Op {
		return []kv.Op{kv.Set(bytes.Clone(rows[0][:bytes.LastIndex(rows[0], []byte{0, 0})]), nil)}
	}},
	{what: "a key that wraps two, behind it", stray: true, ops: func(rows [][]byte) []kv.Op {
		n := bytes.LastIndex(rows[0], []byte{0, 0})
		return []kv.Op{kv.Set(append(bytes.Clone(rows[0][:n]), 0, 1), nil)}
	}},
}

// Damage below a record, of the rows that hold it, doesn't keep other connections from being there, and
// isn't made worse. Discard removes what is left, and the quota is exact again.
func TestDamagedRows(t *testing.T) {
	for _, d := range damages {
		for which := range 3 {
			for _, large := range []bool{false, true} {
				if large == (d.what == "a row of the value is empty") || !large && d.what == "a row of the value is short" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%v", d.what, which, large), func(t *testing.T) {
					r := open(t, Options{})
					for n := range 3 {
						c := r.create(n)
						if large {
							r.setState(c, bytes.Repeat([]byte("state"), 3000))
						}
					}
					var ids []ID
					for _, c := range r.set.Conns() {
						ids = append(ids, c.ID())
					}
					bad := ids[which]
					r.write(d.ops(r.rows(bad))...)
					r.crash()
					if d.stray {
						bad = ""
					}
					r.damaged(ids, bad, !d.stray && (large || !d.lost))
				})
			}
		}
	}
}

// damaged checks a Set of connections of which one, if any, is damaged: its rows, or only
// its value.
func (r *room) damaged(ids []ID, bad ID, rows bool) {
	t, stray := r.t, bad == ""
	t.Helper()
	var there []ID
	for _, c := range r.set.Conns() {
		there = append(there, c.ID())
	}
	sound := slices.DeleteFunc(slices.Clone(ids), func(id ID) bool { return id == bad })
	if !slices.Equal(there, sound) {
		t.Errorf("there are %v, want %v", there, sound)
	}
	found := r.set.Quarantined()
	if len(found) != 1 || !errors.Is(found[0].Err, actorstore.ErrCorrupt) || found[0].Stray != stray || found[0].Damaged != rows || found[0].ID != bad {
		t.Fatalf("quarantined: %+v", found)
	}
	r.listed(ids)
	c, _ := r.set.Get(sound[0])
	r.setState(c, "changed")
	for _, c := range r.set.Conns() {
		r.disconnect(c)
	}
	if stray {
		if err := r.set.Discard(ctx, ""); !errors.Is(err, ErrUnknown) {
			t.Errorf("stray rows were discarded: %v", err)
		}
		r.discardStray(1)
		return
	}
	must(t, r.set.Discard(ctx, bad))
	if err := r.set.Discard(ctx, bad); !errors.Is(err, ErrUnknown) || len(r.set.Quarantined()) != 0 {
		t.Errorf("discarded twice: %v", err)
	}
	r.crash()
	if n := len(r.set.Quarantined()) + len(r.set.Conns()); n != 0 {
		t.Errorf("%d are left", n)
	}
	r.create(7)
	r.healthy()
}

// listed checks that all readers list the ids, and the same.
func (r *room) listed(ids []ID) {
	t := r.t
	t.Helper()
	snap, err := r.actor.Snapshot(ctx)
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	view, err := r.store.View(ctx, r.actor.ID())
	must(t, err)
	defer func() { must(t, view.Close()) }()
	for _, reader := range []actorstore.Reader{r.actor, snap, view} {
		var got []ID
		for s, err := range List(ctx, reader) {
			must(t, err)
			if s.Err == nil != (s.Record != nil) {
				t.Errorf("%T: %+v", reader, s)
			}
			if !s.Stray {
				got = append(got, s.ID)
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%T lists %v, want %v", reader, got, ids)
		}
		for range List(ctx, reader) {
			break // also at the first, whatever that is
		}
	}
}

// Much damage at once: each of it is found, in order, and what is discarded first doesn't
// take from the quota what others have in it.
func TestDamageEverywhere(t *testing.T) {
	r := open(t, Options{})
	for n := range 40 {
		r.setState(r.create(n), bytes.Repeat([]byte("x"), n*1000))
	}
	var ids, bad []ID
	for i, c := range r.set.Conns() {
		ids = append(ids, c.ID())
		if i%3 != 1 {
			bad = append(bad, c.ID())
			rows := r.rows(c.ID())
			r.write(kv.Clear(rows[len(rows)-1]))
		}
	}
	r.crash()
	r.listed(ids)
	found := r.set.Quarantined()
	if len(found) != len(bad) || len(r.set.Conns()) != len(ids)-len(bad) {
		t.Fatalf("%d found, %d there; %d damaged of %d", len(found), len(r.set.Conns()), len(bad), len(ids))
	}
	for i, q := range found {
		if q.ID != bad[i] || !q.Damaged {
			t.Errorf("found %+v, want %s", q, bad[i])
		}
		was := r.actor.Used()
		must(t, r.set.Discard(ctx, q.ID))
		if freed, least := was-r.actor.Used(), int64(len(key(q.ID))+batch.WrapperBytes); i < len(found)-1 && freed != least {
			t.Errorf("%d bytes are freed, want %d", freed, least)
		}
	}
	r.same()
	r.healthy()
}

// Rows that the quota doesn't count are cleared all the same, and free nothing.
func TestDiscardUncounted(t *testing.T) {
	r := open(t, Options{})
	c := r.create(0)
	row := r.rows(c.ID())[0]
	bad := ID("x" + c.ID()[1:])
	r.write(kv.Set(bytes.Replace(row, key(c.ID()), key(bad), 1), []byte{4}))
	r.crash()
	was := r.actor.Used()
	must(t, r.set.Discard(ctx, bad))
	if r.actor.Used() != was {
		t.Errorf("%d bytes are used, before it %d", r.actor.Used(), was)
	}
	r.same()
	r.healthy()
}

// A Discard that fails has discarded nothing; of two at once one finds nothing to do.
func TestDiscardFails(t *testing.T) {
	r := open(t, Options{})
	c, other := r.create(0), r.create(1)
	r.setState(other, bytes.Repeat([]byte("x"), 1000))
	for _, c := range []*Conn{c, other} {
		rows := r.rows(c.ID())
		r.write(kv.Clear(rows[len(rows)-1]))
	}
	r.crash()
	was := r.actor.Used()
	f := r.refuse()
	if err := r.set.Discard(ctx, c.ID()); err == nil || len(r.set.Quarantined()) != 2 {
		t.Errorf("%v, and %d are left", err, len(r.set.Quarantined()))
	}
	f.Remove()
	must(t, r.set.Discard(ctx, c.ID()))
	var second batch.Batch // of another call, which the commit lock kept waiting
	second.Late(func(b *batch.Batch) error { return r.set.stageDamaged(ctx, b, key(c.ID())) })
	must(t, r.actor.Commit(ctx, &second))
	if freed, least := was-r.actor.Used(), int64(len(key(c.ID()))+batch.WrapperBytes); freed != least {
		t.Errorf("%d bytes are freed, want %d", freed, least)
	}
	must(t, r.set.Discard(ctx, other.ID()))
	r.same()
	r.healthy()
}
