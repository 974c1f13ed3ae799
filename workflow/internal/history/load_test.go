package history

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A history of more entries than the pages of a store have is read whole, with one range
// of the engine however many there are, metadata too, and a commit reads nothing.
func TestLoadLarge(t *testing.T) {
	for _, n := range []int{1000, 10_000, 20_000} {
		if n > 1000 && testkit.Short() {
			break
		}
		r := newRig(t, Options{}, whole)
		s, loop := r.at("s"), r.at("loop")
		name, _ := r.h.Lookup("s")
		index, _ := r.h.Lookup("loop")
		tx := r.h.Begin()
		must(t, tx.Put(Entry{Location: s, Kind: Step{}}))
		must(t, tx.Put(Entry{Location: loop, Kind: Loop{}}))
		for i := range n {
			l := loop.Iteration(index, uint32(i)).Name(name)
			must(t, tx.Put(Entry{Location: l, Kind: Step{Output: []byte{byte(i)}}}))
			must(t, tx.PutMetadata(l, Metadata{CreatedAt: Millis(i)}))
		}
		must(t, tx.Commit(ctx))
		r.h.Close()
		var err error
		c := r.counted(func() { r.h, err = Open(ctx, r.Actor, nil) })
		must(t, err)
		if c.Scans != 1 || c.Gets > 1 || c.Snapshots > 1 {
			t.Errorf("%d entries: %+v", n, c)
		}
		if entries, _ := r.h.Usage(); entries != n+2 {
			t.Errorf("%d entries, want %d", entries, n+2)
		}
		e, ok := r.h.Get(loop.Iteration(index, uint32(n-1)).Name(name))
		if !ok || e.Metadata.CreatedAt != Millis(n-1) {
			t.Errorf("the last entry: %+v", e)
		}
		c = r.counted(func() { r.commit(func(tx *Tx) { tx.DeleteIterations(loop, 0, 40) }) })
		if c.Commits != 1 || c.Gets+c.Scans != 0 {
			t.Errorf("deletion: %+v", c)
		}
		r.verify("after")
	}
}

// A commit of a step, an attempt and a result, is one engine commit and reads nothing.
func TestCost(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	l := r.at("s")
	for i, m := range []Metadata{{Status: StatusRunning, Attempts: 1}, {Status: StatusCompleted, Attempts: 1}} {
		c := r.counted(func() {
			r.commit(func(tx *Tx) {
				must(t, tx.Put(Entry{Location: l, Kind: Step{Output: []byte("o")}}))
				must(t, tx.PutMetadata(l, m))
				must(t, tx.SetState(Running))
				must(t, tx.SetInput([]byte("in")))
			})
		})
		if c.Commits != 1 || c.Gets+c.Scans+c.Snapshots != 0 {
			t.Errorf("commit %d: %+v", i, c)
		}
	}
	c := r.counted(func() {
		r.commit(func(tx *Tx) { must(t, tx.PutMetadata(l, Metadata{Status: StatusCompleted, Attempts: 1})) })
		tx := r.h.Begin()
		must(t, tx.PutMetadata(l, Metadata{Status: StatusCompleted, Attempts: 1}))
		must(t, tx.Defer())
		r.commit(func(tx *Tx) { must(t, tx.SetState(Running)); must(t, tx.SetInput([]byte("in"))) }) // as they are
		r.commit(func(*Tx) {})
		must(t, flush(r.h))
	})
	if c.Commits != 0 {
		t.Errorf("%d commits for nothing", c.Commits)
	}
}

// A second history of an actor would not see the first one's changes.
func TestOneAtATime(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	_, err := Open(ctx, r.Actor, nil)
	wantErr(t, "a second", err, actorstore.ErrKept)
	tx := r.h.Begin()
	r.step(tx, "1", "a")
	r.h.Close()
	r.h.Close()
	wantErr(t, "commit", tx.Commit(ctx), ErrClosed)
	wantErr(t, "defer", tx.Defer(), ErrClosed)
	wantErr(t, "reload", r.h.Reload(ctx), ErrClosed)
	wantErr(t, "err", r.h.failure(), ErrClosed)
	r.h, err = Open(ctx, r.Actor, nil)
	must(t, err)
	must(t, r.h.failure())
	r.wantPaths("nothing landed")
}

// Every kind of damage is found, with its key, and nothing else is lost with it.
func TestDamage(t *testing.T) {
	entry := func(id string, l Location) []byte { return appendEntry(nil, &Entry{ID: id, Location: l, Kind: Step{}}) }
	root := Location("")
	metadata := appendMetadata(nil, &Metadata{})
	for _, tt := range []struct {
		what       string
		key, value []byte // added to a healthy history
		harmless   bool
		want       error
		says       string
	}{
		{"an entry without a name", appendEntryKey(layout, nil, root.Name(9)), entry("x", root.Name(9)), false, errCorrupt, "no name 9"},
		{"an iteration of a loop without a name", appendEntryKey(layout, nil, root.Name(0).Iteration(9, 1).Name(0)),
			entry("x", root.Name(0).Iteration(9, 1).Name(0)), false, errCorrupt, "no name 9"},
		{"an entry at another place", appendEntryKey(layout, nil, root.Name(1)), entry("x", root.Name(0)), false, errCorrupt, "says that it is at"},
		{"an id twice", appendEntryKey(layout, nil, root.Name(1)), entry("first", root.Name(1)), false, errCorrupt, "has its id"},
		{"an entry cut short", appendEntryKey(layout, nil, root.Name(1)), entry("x", root.Name(1))[:9], false, errCorrupt, "malformed"},
		{"an entry of a newer version", appendEntryKey(layout, nil, root.Name(1)), []byte{2, 0}, false, errNewerFormat, "version 2"},
		{"a key that is no location", appendEntryKey(layout, nil, "\x02a\x00"), entry("x", ""), false, errCorrupt, "not a location"},
		{"an entry at the root", appendEntryKey(layout, nil, ""), entry("x", ""), false, errCorrupt, "not a key"},
		{"an unknown part", []byte{7, 0x15, 0x05, 0x14}, nil, false, errCorrupt, "not a key"},
		{"an unknown field", []byte{7, 0x15, 0x03, 0x15, 0x07}, nil, false, errCorrupt, "not a key"},
		{"waits cut short", appendFieldKey(layout, nil, fieldWaits), []byte{1, 0, 2, 0}, true, errCorrupt, "malformed"},
		{"waits of a newer version", appendFieldKey(layout, nil, fieldWaits), []byte{2, 0, 0}, true, errNewerFormat, "version 2"},
		{"the version, which means nothing", []byte{7, 0x15, 0x03, 0x15, 0x04}, []byte("1"), false, nil, ""},
		{"an unknown state", appendFieldKey(layout, nil, fieldState), []byte("odd"), false, errCorrupt, `"odd"`},
		{"an error that is none", appendFieldKey(layout, nil, fieldError), []byte{0xf6}, false, errCorrupt, "not an error"},
		{"a name behind a gap", appendNameKey(layout, nil, 7), []byte("seven"), false, errCorrupt, "no name 3"},
		{"a name twice", appendNameKey(layout, nil, 3), []byte("a"), false, errCorrupt, "name 0"},
		{"a name that is not UTF-8", appendNameKey(layout, nil, 3), []byte{0xff}, false, errCorrupt, "UTF-8"},
		{"metadata of nothing", appendMetadataKey(layout, nil, "nobody"), metadata, true, errCorrupt, "no such entry"},
		{"metadata cut short", appendMetadataKey(layout, nil, "first"), metadata[:7], false, errCorrupt, "malformed"},
		{"a key of metadata that is none", append(appendMetadataKey(layout, nil, "a"), 0x14), metadata, false, errCorrupt, "not a key"},
	} {
		r := newRig(t, Options{}, batch.Limits{})
		r.commit(func(tx *Tx) {
			r.at("a", "b", "c")
			must(t, tx.Put(Entry{ID: "first", Location: r.at("a"), Kind: Step{Output: []byte("kept")}}))
			must(t, tx.SetInput([]byte("in")))
		})
		r.h.Close()
		r.h = nil
		must(t, r.Actor.Put(ctx, tt.key, tt.value))
		s, damages := r.read()
		if tt.want == nil {
			if len(damages) > 0 {
				t.Errorf("%s: %v", tt.what, damages)
			}
			continue
		}
		if len(damages) != 1 || !bytes.Equal(damages[0].Key, tt.key) || damages[0].Harmless != tt.harmless ||
			!errors.Is(damages[0].Err, tt.want) || !strings.Contains(damages[0].String(), tt.says) {
			t.Errorf("%s: got %v", tt.what, damages)
			continue
		}
		i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.ID == "first" })
		if i < 0 || string(s.Entries[i].Kind.(Step).Output) != "kept" || string(s.Input) != "in" {
			t.Errorf("%s: read %+v", tt.what, s)
		}
		for _, e := range s.Entries {
			s.Path(e.Location)
		}
		h, err := Open(ctx, r.Actor, nil)
		var damage *damageError
		switch {
		case tt.harmless:
			must(t, err)
			if found := h.Snapshot().Orphans["nobody"] != nil; found != strings.HasPrefix(tt.what, "metadata") {
				t.Errorf("%s: in the snapshot is an orphan: %v", tt.what, found)
			}
			h.Close()
		case !errors.As(err, &damage) || !bytes.Equal(damage.Key, tt.key) || !errors.Is(err, tt.want):
			t.Errorf("%s: open says %v", tt.what, err)
		}
	}
}

// Metadata without their entry are counted, and taken by an entry of their id.
func TestOrphans(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	must(t, r.Actor.Put(ctx, appendMetadataKey(layout, nil, "x"), appendMetadata(nil, &Metadata{Attempts: 3})))
	must(t, r.Actor.Put(ctx, appendMetadataKey(layout, nil, "y"), appendMetadata(nil, &Metadata{Attempts: 4})))
	r.reopen()
	r.commit(func(tx *Tx) { must(t, tx.Put(Entry{ID: "x", Location: r.at("a"), Kind: Step{}})) })
	if e, _ := r.h.Get(r.at("a")); e.Metadata == nil || e.Metadata.Attempts != 3 {
		t.Errorf("got %+v", e)
	}
	before := r.h.Snapshot()
	r.reopen()
	wantEqual(t, "after a restart", r.h.Snapshot(), before)
	if before.Orphans["y"] == nil || before.Orphans["x"] != nil {
		t.Errorf("orphans %v", before.Orphans)
	}
	r.commit(func(tx *Tx) { tx.Delete("") })
	r.verify("everything deleted")
	if s := r.h.Snapshot(); s.Orphans != nil {
		t.Errorf("got %+v", s)
	}
}

// Metadata without their entry are removed by commits that write something, some at
// a time, without a read.
func TestOrphansGo(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	for i := range 20 {
		id := fmt.Sprint(i)
		must(t, r.Actor.Put(ctx, appendMetadataKey(layout, nil, id), appendMetadata(nil, &Metadata{Attempts: 3, Error: &id})))
	}
	r.reopen()
	r.commit(func(*Tx) {}) // nothing to write
	for i, want := range []int{20, 12, 4, 0, 0} {
		if s, _ := r.read(); len(s.Orphans) != want || len(r.h.Snapshot().Orphans) != want {
			t.Errorf("%d orphans in memory and %d stored, want %d", len(r.h.Snapshot().Orphans), len(s.Orphans), want)
		}
		fault := r.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
		tx := r.h.Begin()
		r.step(tx, "1", "a")
		wantErr(t, "commit", tx.Commit(ctx), batch.ErrTooLarge)
		if fault.Remove(); len(r.h.Snapshot().Orphans) != want {
			t.Errorf("a commit that fails leaves %d orphans, want %d", len(r.h.Snapshot().Orphans), want)
		}
		if c := r.counted(func() { r.commit(func(tx *Tx) { r.step(tx, fmt.Sprint(i), "a") }) }); c.Gets+c.Scans > 0 {
			t.Errorf("%d reads", c.Gets+c.Scans)
		}
	}
	r.verify("all gone")
}

// Rows that are damaged are found, too, and the rest is read.
func TestDamagedRows(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	r.commit(func(tx *Tx) {
		for _, name := range []string{"a", "b", "c", "d"} {
			r.step(tx, name, name)
		}
	})
	r.h.Close()
	r.h = nil
	key := appendEntryKey(layout, nil, Location("").Name(1))
	var row []byte // of the data of that key
	for e, err := range r.Engine.Unwrap().Scan(ctx, kv.Range{End: []byte{0xff}}) {
		must(t, err)
		if bytes.Contains(e.Key, escaped(key)) && row == nil {
			row = bytes.Clone(e.Key)
		}
	}
	must(t, r.Engine.Unwrap().Commit(ctx, &kv.Commit{Ops: []kv.Op{{Kind: kv.OpClear, Key: row}}}))
	s, damages := r.read()
	// The entry, and the metadata that have lost it.
	if len(damages) != 2 || !bytes.Equal(damages[0].Key, key) || damages[0].Harmless || !damages[1].Harmless || len(s.Entries) != 3 {
		t.Errorf("%v, %d entries", damages, len(s.Entries))
	}
	_, err := Open(ctx, r.Actor, nil)
	var damage *damageError
	if !errors.As(err, &damage) || !bytes.Equal(damage.Key, key) {
		t.Errorf("open: %v", err)
	}
}

// escaped is key as it stands in rows.
func escaped(key []byte) []byte { return bytes.ReplaceAll(key, []byte{0}, []byte{0, 0xff}) }

// An engine that fails while it is read is an error, not an empty history, and nothing is
// kept of the actor.
func TestLoadFails(t *testing.T) {
	r := newRig(t, Options{}, batch.Limits{})
	r.commit(func(tx *Tx) { r.step(tx, "1", "a"); r.step(tx, "2", "b") })
	for _, point := range []faultkv.Point{faultkv.BeforeSnapshot, faultkv.BeforeScan, faultkv.BeforeEntry} {
		fault := r.Engine.Fail(faultkv.Rule{Point: point, Skip: int(point) % 2})
		err := r.h.Reload(ctx)
		if fault.Remove(); fault.Hits() > 0 {
			wantErr(t, fmt.Sprint("reload at point ", point), err, faultkv.ErrInjected)
			r.wantPaths("as it was", "a", "b")
		}
		r.h.Close()
		fault = r.Engine.Fail(faultkv.Rule{Point: point})
		_, err = Open(ctx, r.Actor, nil)
		fault.Remove()
		wantErr(t, fmt.Sprint("open at point ", point), err, faultkv.ErrInjected)
		r.h, err = Open(ctx, r.Actor, nil)
		must(t, err)
		r.wantPaths("opened", "a", "b")
	}
}

func TestFar(t *testing.T) {
	r := newRigOn(t, engines.Far(memkv.New()), Options{}, batch.Limits{})
	r.commit(func(tx *Tx) { r.step(tx, "1", "a") })
	r.reopen()
	c := r.counted(func() { r.commit(func(tx *Tx) { r.step(tx, "2", "a"); r.step(tx, "2", "b") }) })
	if c.Commits != 1 || c.Gets+c.Scans+c.Snapshots != 0 {
		t.Errorf("%+v", c)
	}
	must(t, r.h.Reload(ctx))
	r.verify("far")
}
