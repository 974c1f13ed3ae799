package queue

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// checked closes the queue and returns what Check finds.
func (r *rig) checked() (found []string) {
	r.t.Helper()
	v, err := r.store.View(ctx, r.actor.ID())
	must(r.t, err)
	defer func() { must(r.t, v.Close()) }()
	for f, err := range Check(ctx, v) {
		must(r.t, err)
		if f.Actor != r.actor.ID() {
			r.t.Errorf("finding of actor %s", f.Actor)
		}
		kind := ""
		if f.Harmless {
			kind = "harmless: "
		}
		found = append(found, kind+f.Where+": "+f.What)
	}
	return found
}

// TestCheck finds each kind of damage, and Open goes on in spite of it, and mends what it
// can with the next commit.
func TestCheck(t *testing.T) {
	meta := func(next ID, size int64) func(r *rig) {
		return func(r *rig) { r.stored(metadataKey(layout), (&metadata{next, size}).append(nil)) }
	}
	note := func(key, value []byte) func(r *rig) {
		return func(r *rig) {
			var b batch.Batch
			b.Late(func(b *batch.Batch) error { return r.actor.StageNote(b, key, value) })
			must(r.t, r.actor.Commit(ctx, &b))
		}
	}
	key := noteKeyOf("a", "other")
	for _, c := range []struct {
		what  string
		do    func(r *rig)
		want  string // what there is to find, in one line
		stays bool   // after the next commit
	}{
		{what: "nothing", do: func(*rig) {}},
		{what: "missing", do: func(r *rig) { must(r.t, r.actor.Delete(ctx, metadataKey(layout))) },
			want: "queue/metadata: it is missing, and there are 3 messages"},
		{what: "rubbish", do: func(r *rig) { r.stored(metadataKey(layout), []byte{4, 0, 1}) }, want: "queue/metadata: bare: "},
		{what: "newer", do: func(r *rig) { r.stored(metadataKey(layout), []byte{5, 0, 1}) }, want: "queue/metadata: version 5"},
		{what: "behind", do: meta(3, 3), want: "queue/metadata: the next id is 3, and 3 was given"},
		{what: "the end", do: meta(math.MaxUint64, 3), want: "queue/metadata: the next id is 18446744073709551615, which nobody"},
		{what: "size", do: meta(4, 7), want: "harmless: queue/metadata: it counts 7 messages, and there are 3"},
		{what: "both", do: meta(2, 7), want: "queue/metadata: the next id is 2, and 3 was given | harmless: queue/metadata: it counts 7"},
		{what: "ahead", do: meta(400, 3)},
		{what: "a message", do: func(r *rig) { r.stored(appendMessageKey(layout, nil, 2), []byte{4, 0, 9}) }, want: "queue/messages/2: bare: ", stays: true},
		{what: "an id that is none", do: func(r *rig) {
			r.stored(appendMessageKey(layout, nil, math.MaxUint64), (&record{name: "a"}).encode())
			meta(4, 4)(r)
		}, want: "queue/messages/18446744073709551615: ids are between 1 and 9223372036854775807", stays: true},
		{what: "a sender's key", do: note(key[:], []byte{1, 0, 5}), want: "notes: a sender's key, 05", stays: true},
		{what: "a sender's short key", do: note([]byte{5, 1}, appendNote(nil, 1, 9)), want: "notes: a sender's key, 0501, has 2 bytes", stays: true},
		{what: "the id of a sender's key", do: note(key[:], appendNote(nil, 9, 9)), want: "queue/metadata: the next id is 4, and 9 was given"},
	} {
		r := newRig(t, Options{})
		for range 3 {
			r.enqueue("a", nil)
		}
		must(t, r.q.Close())
		c.do(r)
		found := strings.Join(r.checked(), " | ")
		if !strings.HasPrefix(found, c.want) || (found == "") != (c.want == "") {
			t.Errorf("%s: found %q, want %q", c.what, found, c.want)
		}
		r.open2()
		r.enqueue("a", nil)
		if after := r.checked(); (len(after) > 0) != c.stays {
			t.Errorf("%s: after the next commit there is %q", c.what, after)
		}
	}
}

// TestCheckEnds stops when the caller wants no more, and tells damage from an engine that fails.
func TestCheckEnds(t *testing.T) {
	r := newRig(t, Options{})
	for range 3 {
		r.enqueue("a", nil)
	}
	must(t, r.q.Close())
	r.stored(appendMessageKey(layout, nil, 2), []byte{4, 0, 9})
	r.stored(metadataKey(layout), (&metadata{2, 7}).append(nil))
	all := len(r.checked())
	if all != 3 {
		t.Fatalf("%d findings", all)
	}
	v, err := r.store.View(ctx, r.actor.ID())
	must(t, err)
	defer func() { must(t, v.Close()) }()
	for most := range all {
		n := 0
		for range Check(ctx, v) {
			if n++; n > most {
				break
			}
		}
	}
	broken := errors.New("broken")
	for skip := range 3 {
		r.engine.Fail(faultkv.Rule{Point: faultkv.BeforeScan, Err: broken, Skip: skip, Times: faultkv.Forever})
		var last error
		for f, err := range Check(ctx, v) {
			if last = err; err == nil && f.Where == "queue/metadata" {
				t.Errorf("found %s, though not all could be read", f)
			}
		}
		r.engine.Heal()
		if skip < 2 {
			wantErr(t, fmt.Sprintf("the engine fails after %d scans", skip), last, broken)
		}
	}
	// Rows that don't fit together are for the check of the store: here nothing is counted
	// twice.
	r2 := newRig(t, Options{})
	r2.enqueue("a", nil)
	r2.damage(metadataKey(layout))
	if found := r2.checked(); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	n := 0
	for f, err := range r2.store.CheckActor(ctx, r2.actor.ID()) {
		must(t, err)
		if n++; f.Where != actorstore.Describe(metadataKey(layout)) {
			t.Errorf("the store's check found %s", f)
		}
	}
	if n == 0 {
		t.Error("the store's check found nothing")
	}
}
