package actorstore_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLayoutKeysGolden holds the keys of RivetKit's releases, as a program on RivetKit 2.1.5 has written
// them, and takes them apart.
func TestLayoutKeysGolden(t *testing.T) {
	const l = actorstore.LayoutRivetKit
	location := string(actorstore.AppendWorkflowSegment(actorstore.AppendWorkflowIteration(actorstore.AppendWorkflowSegment(nil, 7), 7, 1), 8))
	for _, tt := range []struct {
		hex, words string
		got        []byte
	}{
		{"050101", "queue/metadata", l.AppendQueueMetadata(nil)},
		{"0501020000000000000003", "queue/messages/3", l.AppendQueueMessage(nil, 3)},
		{"06011501150a", "workflow/names/10", l.AppendWorkflowName(nil, 10)},
		{"0601150215070515071501001508", "workflow/history/7/7~1/8", l.AppendWorkflowHistory(nil, location)},
		{"060115031504", "workflow/fields/version", l.AppendWorkflowField(nil, actorstore.WorkflowVersion)},
		{"06011504026100", "workflow/entries/a", l.AppendWorkflowEntry(nil, "a")},
		{"07011501186b02f56014", "traces/1795356000/0", nil},
		{"08010000", "sqlite/metadata/main", l.AppendFileMeta(nil, actorstore.FileMain)},
		{"0801010000000010", "sqlite/chunks/main/16", l.AppendFileChunk(nil, actorstore.FileMain, 16)},
		{"08010002", "sqlite/metadata/wal", l.AppendFileMeta(nil, actorstore.FileWAL)},
		{"01", "persist", actorstore.AppendPersist(nil)},
		{"0400ff", `user/"\x00\xff"`, actorstore.UserKey([]byte("\x00\xff"))},
	} {
		key := testkit.Unhex(t, tt.hex)
		if tt.got != nil && !bytes.Equal(tt.got, key) {
			t.Errorf("%s: got the key %x, want %s", tt.words, tt.got, tt.hex)
		}
		if actorstore.DescribeIn(l, key) != tt.words {
			t.Errorf("%s: it is %q, want %q", tt.hex, actorstore.DescribeIn(l, key), tt.words)
		}
	}
	if tag, i, ok := l.ParseFileChunk(l.AppendFileChunk(nil, actorstore.FileJournal, 1<<31)); tag != actorstore.FileJournal || i != 1<<31 || !ok {
		t.Errorf("a chunk's key is of %v %d, %v", tag, i, ok)
	}
	if id, ok := l.ParseQueueMessage(l.AppendQueueMessage(nil, 1<<63)); id != 1<<63 || !ok {
		t.Errorf("a message's key is of %d, %v", id, ok)
	}
	if part, _, ok := l.ParseWorkflowKey(l.AppendWorkflowEntry(nil, "a")); part != actorstore.WorkflowEntries || !ok {
		t.Errorf("a workflow's key is of part %d, %v", part, ok)
	}
}

// FuzzLayouts: no key belongs to two Layouts, but one that lies under the same key in all. Nor does
// one layout take apart what another one has built.
func FuzzLayouts(f *testing.F) {
	for _, s := range []string{"050101", "0501020000000000000003", "050000000000000003", "06", "06011501150a", "07150115", "07011501186b02f56014", "0801010000000010", "0901000000000a", "04aa"} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		a, b := actorstore.LayoutGreenroom, actorstore.LayoutRivetKit
		if actorstore.DescribeIn(a, key) != "" && actorstore.DescribeIn(b, key) != "" && key[0] >= actorstore.NamespaceQueue && key[0] <= actorstore.NamespaceSQLite {
			t.Errorf("%x is %s and %s", key, actorstore.DescribeIn(a, key), actorstore.DescribeIn(b, key))
		}
		for l := range actorstore.Layout(actorstore.Layouts) {
			if actorstore.DescribeIn(l, key) != "" {
				continue
			}
			_, _, chunk := l.ParseFileChunk(key)
			_, message := l.ParseQueueMessage(key)
			if chunk || message {
				t.Errorf("%x is nothing in layout %v, and is taken apart", key, l)
			}
		}
	})
}

// TestLayout: an actor has the layout with which it was made, through reopening, in views, listings and
// copies, until it is dropped.
func TestLayout(t *testing.T) {
	eng := memkv.New()
	store, err := actorstore.Open(ctx, eng, nil)
	must(t, err)
	put := func(a *actorstore.Actor) {
		t.Helper()
		var b batch.Batch
		b.Put(a.Layout().AppendQueueMetadata(nil), []byte("m"))
		b.Put(actorstore.UserKey([]byte("k")), []byte("v"))
		must(t, a.Commit(ctx, &b))
	}
	open := func(name string, l, want actorstore.Layout) *actorstore.Actor {
		t.Helper()
		a, err := store.Named(ctx, name, &actorstore.ActorOptions{Layout: l})
		must(t, err)
		if a.Layout() != want {
			t.Errorf("%s has the layout %v, want %v", name, a.Layout(), want)
		}
		return a
	}
	a := open("rivet", actorstore.LayoutRivetKit, actorstore.LayoutRivetKit)
	must(t, a.Close()) // never written to: the next one may choose again
	a = open("rivet", actorstore.LayoutGreenroom, actorstore.LayoutGreenroom)
	must(t, a.Close())
	a = open("rivet", actorstore.LayoutRivetKit, actorstore.LayoutRivetKit)
	put(a)
	snap, err := a.Snapshot(ctx)
	must(t, err)
	if snap.Layout() != actorstore.LayoutRivetKit {
		t.Errorf("a snapshot has the layout %v", snap.Layout())
	}
	_, err = store.Fork(ctx, snap, &actorstore.ForkOptions{Name: "copy"})
	must(t, errors.Join(err, snap.Close(), a.Close()))
	b := open("own", actorstore.LayoutGreenroom, actorstore.LayoutGreenroom)
	put(b)
	must(t, b.Close())
	if _, err := store.Named(ctx, "own", &actorstore.ActorOptions{Layout: actorstore.LayoutRivetKit}); !errors.Is(err, actorstore.ErrLayout) {
		t.Errorf("another layout: %v, want %v", err, actorstore.ErrLayout)
	}
	if _, err := store.Named(ctx, "new", &actorstore.ActorOptions{Layout: actorstore.Layouts}); !errors.Is(err, actorstore.ErrLayout) {
		t.Errorf("no layout: %v, want %v", err, actorstore.ErrLayout)
	}
	for _, name := range []string{"rivet", "copy"} { // whatever layout the caller asks for
		for _, l := range []actorstore.Layout{actorstore.LayoutGreenroom, actorstore.LayoutRivetKit} {
			a := open(name, l, actorstore.LayoutRivetKit)
			put(a)
			must(t, a.Close())
		}
		view, err := store.View(ctx, a.ID())
		must(t, err)
		if view.Layout() != actorstore.LayoutRivetKit || view.Info().Layout != actorstore.LayoutRivetKit {
			t.Errorf("a view of %s has the layout %v", name, view.Layout())
		}
		must(t, view.Close())
	}
	listed := map[string]actorstore.Layout{}
	for info, err := range store.Actors(ctx, &actorstore.ActorsOptions{Limit: 3}) {
		must(t, err)
		listed[info.Name] = info.Layout
	}
	if len(listed) != 3 || listed["rivet"] != actorstore.LayoutRivetKit || listed["copy"] != actorstore.LayoutRivetKit || listed["own"] != actorstore.LayoutGreenroom {
		t.Errorf("the actors are %v", listed)
	}
	compare(t, "check", findings(t, store.Check(ctx)), nil)
	a = open("rivet", actorstore.LayoutGreenroom, actorstore.LayoutRivetKit)
	must(t, a.Drop(ctx))
	a = open("rivet", actorstore.LayoutGreenroom, actorstore.LayoutGreenroom)
	put(a)
	must(t, a.Close())
	compare(t, "check of one that was made anew", findings(t, store.Check(ctx)), nil)
	must(t, store.Close())
}

// TestLayoutDamaged: a record that says a layout which this package doesn't know, or none, is refused, and
// found. Keys of another layout than the actor's are found.
func TestLayoutDamaged(t *testing.T) {
	const where = "actor t5jodb1xoonnf1v789m7x32f1s3540: "
	for _, tt := range []struct {
		row  string
		want error
		find string
	}{
		{"010002", actorstore.ErrNewerFormat, where + "layout: it is of version 2, known are versions up to 1"},
		{"020001", actorstore.ErrNewerFormat, where + "layout: it is of version 2, known are versions up to 1"},
		{"0100", actorstore.ErrCorrupt, where + "layout: it can't be read: bare: malformed at byte 0: 1 bytes wanted, 0 left"},
		{"01000100", actorstore.ErrCorrupt, where + "layout: it can't be read: bare: malformed at byte 1: 1 bytes remain"},
		{"010001", nil, where + "queue/metadata: no namespace has a key of this form"},
	} {
		eng := memkv.New()
		store, err := actorstore.Open(ctx, eng, nil)
		must(t, err)
		a, err := store.Actor(ctx, testID, nil)
		must(t, err)
		must(t, errors.Join(a.Put(ctx, actorstore.LayoutGreenroom.AppendQueueMetadata(nil), []byte("m")), a.Close()))
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(layout.RecordKey(layout.ID(testID), layout.PartLayout), testkit.Unhex(t, tt.row))}}))
		_, err = store.View(ctx, testID)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: View: %v, want %v", tt.row, err, tt.want)
		}
		compare(t, tt.row, findings(t, store.Check(ctx)), []string{tt.find})
		must(t, store.Close())
	}
}
