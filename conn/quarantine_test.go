package conn

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// put writes a record past the Set.
func (r *room) put(id ID, value []byte) {
	r.t.Helper()
	must(r.t, r.actor.Put(ctx, key(id), value))
}

// A record that can't be read is reported, stays, and keeps nothing from working.
func TestQuarantine(t *testing.T) {
	var log bytes.Buffer
	opts := Options{}
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := open(t, opts)
	c := r.create(1)
	other := c.Record()
	other.ID = "somebody"
	bad := map[ID][]byte{
		"a-damaged": {4, 0, 1},
		"b-empty":   {},
		"c-newer":   bare.AppendVersion(nil, 5),
		"d-older":   bare.AppendVersion(nil, 2),
		"e-foreign": other.Append(nil),
		"\xff":      {4},
		"":          {4, 0},
	}
	for id, value := range bad {
		r.put(id, value)
	}
	log.Reset()
	r.crash()
	if c, ok := r.set.Get(c.ID()); !ok || len(r.set.Conns()) != 1 {
		t.Fatalf("%v, %d connections, want the one that is sound", c, len(r.set.Conns()))
	}
	found := r.set.Quarantined()
	if len(found) != len(bad) || !slices.IsSortedFunc(found, func(a, b Quarantined) int { return strings.Compare(string(a.ID), string(b.ID)) }) {
		t.Errorf("quarantined: %+v", found)
	}
	for _, q := range found {
		want := actorstore.ErrCorrupt
		if q.ID == "c-newer" {
			want = actorstore.ErrNewerFormat
		}
		if !errors.Is(q.Err, want) || q.Size != len(bad[q.ID]) {
			t.Errorf("%q: size %d, %v, want %d, %v", q.ID, q.Size, q.Err, len(bad[q.ID]), want)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != len(bad) {
		t.Errorf("%d were logged of %d:\n%s", n, len(bad), log.String())
	}
	c, _ = r.set.Get(c.ID())
	r.setState(c, "changed")
	r.disconnect(c)
	for id, value := range bad {
		if got, err := r.actor.Get(ctx, key(id), nil); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%q became %x, %v", id, got, err)
		}
	}
	must(t, r.set.Discard(ctx, "b-empty"))
	if err := r.set.Discard(ctx, "b-empty"); !errors.Is(err, ErrUnknown) {
		t.Errorf("discarded twice: %v", err)
	}
	if _, err := r.actor.Get(ctx, key("b-empty"), nil); !errors.Is(err, actorstore.ErrNotFound) || len(r.set.Quarantined()) != len(bad)-1 {
		t.Errorf("it is still there: %v", err)
	}
	r.healthy()
}

// Records that were stored twice for one client, as a delete that failed leaves them, are
// both there, and the next takes the place of the first.
func TestStoredTwice(t *testing.T) {
	r := open(t, Options{})
	c := r.create(1)
	rec := c.Record()
	rec.ID = "00-ghost"
	rec.Subscriptions = []string{"tick", "tick"}
	r.put(rec.ID, rec.Append(nil))
	r.crash()
	ghost, ok := r.set.Find(rec.Gateway, rec.Request)
	if !ok || ghost.ID() != "00-ghost" || len(r.set.Subscribers(nil, "tick")) != 1 {
		t.Fatalf("found %v; %v", ghost, r.set.Subscribers(nil, "tick"))
	}
	r.disconnect(ghost)
	if got, ok := r.set.Find(rec.Gateway, rec.Request); !ok || got.ID() != c.ID() {
		t.Errorf("found %v, %v, want the other", got, ok)
	}
}
