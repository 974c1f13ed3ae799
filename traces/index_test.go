package traces

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLookup finds a trace among many stored spans, and reads at most 20 chunks for
// it: of traces that are there, in one chunk or in several, and of those that aren't.
func TestLookup(t *testing.T) {
	spans := testkit.Pick(20_000, 100_000, 1_000_000)
	w := newWatch(t0)
	opts := quiet()
	opts.Now = w.now
	r := newRigOn(t, memkv.New(), opts, batch.Limits{})
	var ids []TraceID
	long := r.Begin("long", nil)
	for i := range spans {
		if i%200 == 0 {
			w.pass(time.Second)
		}
		s := r.Begin("span", &StartOptions{Attributes: []Attr{Int("i", int64(i))}})
		if i%(spans/100) == 0 {
			ids = append(ids, s.TraceID())
			long.Event("mark")
		}
		s.End()
		if i%5000 == 0 {
			r.flush()
		}
	}
	long.End()
	r.flush()
	st := r.Stats()
	t.Logf("%d spans, %d chunks of %d bytes, %d notes", spans, st.Chunks, st.Bytes, r.Traces.store.index.notes)
	if spans == 1_000_000 && st.Chunks < 500 || st.DroppedRecords > 0 {
		t.Errorf("%+v", st)
	}
	most, read := 0, 0
	for _, id := range ids {
		rows := 0
		r.engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeEntry && hasChunk(op.Key) {
				rows++
			}
			return nil
		})
		res := r.read(Query{TraceID: id})
		r.engine.Hook(nil)
		if len(res.Spans) != 1 || res.Spans[0].TraceID != id {
			t.Fatalf("%s: %+v", id, res)
		}
		// A chunk has at most 14 rows and one of metadata; a reader of a page looks one row on.
		if res.Chunks > 20 || rows > 20*15 {
			t.Errorf("%s: %d chunks, %d rows", id, res.Chunks, rows)
		}
		most, read = max(most, res.Chunks), read+res.Chunks
	}
	t.Logf("chunks read: %d at most, %.2f on average", most, float64(read)/float64(len(ids)))
	for range 20 {
		if res := r.read(Query{TraceID: newTraceID()}); len(res.Spans) > 0 || res.Chunks > 20 {
			t.Errorf("a trace that isn't there: %d spans of %d chunks", len(res.Spans), res.Chunks)
		}
	}
	if res := r.read(Query{TraceID: long.TraceID()}); len(res.Spans) != 1 || len(res.Spans[0].Events) != 100 {
		t.Errorf("the long one: %+v", res)
	}
	if spans < 1_000_000 { // it looks for each of them
		r.verify("index")
	}
}

// TestTimeLookup reads the chunks of a minute, and no others.
func TestTimeLookup(t *testing.T) {
	r, w := newTimed(t)
	for i := range 1000 {
		w.set(at(i))
		r.Begin("s", nil).End()
		if i%10 == 9 {
			r.flush()
		}
	}
	res := r.read(between(500, 560))
	if len(res.Spans) != 60 || res.Chunks != 6 {
		t.Errorf("%d spans of %d chunks", len(res.Spans), res.Chunks)
	}
	r.verify("small chunks")
	// Small chunks share notes.
	if r.Traces.store.index.notes > 20 {
		t.Errorf("%d notes for 100 chunks", r.Traces.store.index.notes)
	}
}

// TestIndexLost: without its notes, or with some of them, everything is found all the same.
func TestIndexLost(t *testing.T) {
	r, w := newTimed(t)
	var ids []TraceID
	for i := range 40 {
		w.set(at(i * 200))
		s := r.Begin(fmt.Sprint("s", i), nil)
		ids = append(ids, s.TraceID())
		s.End()
		r.flush()
	}
	check := func(where string) {
		t.Helper()
		for i, id := range ids {
			want(t, where, names(r.read(Query{TraceID: id})), fmt.Sprint("s", i))
			want(t, where, names(r.read(between(i*200, i*200+1))), fmt.Sprint("s", i))
		}
	}
	check("whole")
	snap, err := r.actor.Snapshot(ctx)
	must(t, err)
	var keys [][]byte
	for n, err := range snap.Notes(ctx, notePrefix()) {
		must(t, err)
		keys = append(keys, append([]byte(nil), n.Key...))
	}
	must(t, snap.Close())
	for i, key := range keys {
		var b batch.Batch
		var value []byte
		if i%2 == 0 {
			value = []byte{1, 0, 0xff} // damaged
		}
		must(t, r.actor.StageNote(&b, key, value))
		must(t, r.actor.Commit(ctx, &b))
		check(fmt.Sprintf("without %x", key))
	}
	r.reopen()
	w.set(at(8000))
	s := r.Begin("s40", nil)
	s.End()
	r.flush()
	ids = append(ids, s.TraceID())
	check("after a restart")
}

// TestNoteBound: the notes are bounded, and of old chunks there may be none.
func TestNoteBound(t *testing.T) {
	r, w := newTimed(t)
	for i := range 30 {
		w.set(at(i * 3600))
		r.Begin(fmt.Sprint("s", i), nil).End()
		r.flush()
	}
	index, _, err := r.Traces.trim.staleNotes(ctx, 0, 20)
	must(t, err)
	if len(index) != 20 {
		t.Fatalf("%d notes", len(index))
	}
	must(t, r.Traces.trim.removeNotes(ctx, index, 0))
	want(t, "notes", r.Traces.store.index.notes, 10)
	want(t, "spans", len(r.read(Query{}).Spans), 30)
	want(t, "an old one", names(r.read(between(3600, 3601))), "s1")
	r.verify("few notes")
}

// TestLedger counts what is stored.
func TestLedger(t *testing.T) {
	r, w := newTimed(t)
	for i := range 10 {
		w.set(at(i * 1800))
		r.Begin("s", nil).End()
		r.flush()
	}
	if used := r.actor.Used(); r.Stats().Bytes != used {
		t.Errorf("%d bytes, and the actor has %d", r.Stats().Bytes, used)
	}
	before := r.Stats().Bytes
	r.reopen()
	want(t, "bytes after a restart", r.Stats().Bytes, before)
}

// TestSets: every hash of a set is found, and few others.
func TestSets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	found := 0
	for n := range maxSet + 1 {
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = rnd.Uint64()
		}
		if n > 2 {
			hashes[0], hashes[1] = 1, math.MaxUint64
		}
		e := entry{n: n, set: appendSet(nil, append([]uint64(nil), hashes...))}
		if len(e.set) > setBytesPer*n {
			t.Errorf("%d hashes take %d bytes", n, len(e.set))
		}
		for _, h := range hashes {
			if !e.has(h) {
				t.Fatalf("%d hashes: one is missing", n)
			}
		}
		for range 1000 {
			if e.has(rnd.Uint64()) {
				found++
			}
		}
	}
	if found > 50 { // of 111,000, each with a chance of one in 16,384
		t.Errorf("%d were found that aren't there", found)
	}
}

// TestNotesGolden holds the bytes of notes, which outlive the program that wrote them.
func TestNotesGolden(t *testing.T) {
	l := ledger{next: 3, chunks: 2, bytes: 1000, seq: 7, last: 1}
	want(t, "ledger", fmt.Sprintf("%x", l.append(nil)), "02000300000002000000e80300000000000007000000000000000100000000")
	got, err := parseLedger(l.append(nil))
	if err != nil || got != l {
		t.Errorf("%+v, %v", got, err)
	}
	old, err := parseLedger([]byte("\x01\x00\x03\x00\x00\x00\x02\x00\x00\x00\xe8\x03\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"))
	if err != nil || old != l {
		t.Errorf("version 1: %+v, %v", old, err)
	}
	l.since = some(numbered{chunkKey{t0.Unix(), 9}, 6})
	want(t, "ledger", fmt.Sprintf("%x", l.append(nil)), "02000300000002000000e803000000000000070000000000000001000000010"+"00a546500000000090000000600000000000000")
	if got, err := parseLedger(l.append(nil)); err != nil || got != l {
		t.Errorf("%+v, %v", got, err)
	}
	var id TraceID
	binary.BigEndian.PutUint64(id[8:], 1)
	want(t, "hash", fmt.Sprintf("%x", hashTrace(id)), goldenHash)
	p := &pending{traces: []uint64{hashTrace(id), 1 << 63, 1}, min: uint64(t0.UnixNano()) + 5e6, max: uint64(t0.UnixNano()) + 2000e6}
	n := bucketNotes{}
	notes := n.enter(chunkKey{t0.Unix(), 2}, p)
	want(t, "notes", fmt.Sprintf("%x %x", notes[0].Key, notes[0].Value), goldenNote)
	entries, err := parseEntries(notes[0].Value, chunkKey{t0.Unix(), 2})
	must(t, err)
	w := []entry{{id: 2, min: t0.UnixMilli() + 5, max: t0.UnixMilli() + 2000, all: 3, n: 3, set: entries[0].set}}
	if !reflect.DeepEqual(entries, w) {
		t.Errorf("%+v", entries)
	}
	for i := range notes[0].Value[:len(notes[0].Value)-1] {
		if got, err := parseEntries(notes[0].Value[:i], chunkKey{}); err == nil && len(got) > 0 {
			t.Errorf("the first %d bytes: %+v", i, got)
		}
	}
	if k, kind, ok := parseNoteKey(notes[0].Key); !ok || kind != noteIndex || k != (chunkKey{t0.Unix(), 2}) {
		t.Errorf("%v, %d, %v", k, kind, ok)
	}
	if k, kind, ok := parseNoteKey(ledgerKey(t0.Unix())); !ok || kind != noteLedger || k.bucket != t0.Unix() {
		t.Errorf("%v, %d, %v", k, kind, ok)
	}
}

// FuzzNote: whatever a note holds, reading it ends, and what was read fits.
func FuzzNote(f *testing.F) {
	f.Add([]byte{1, 0, 0, 5, 10, 3, 3, 4, 1, 2, 3, 4}, uint64(5))
	f.Add((&ledger{next: 1}).append(nil), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, hash uint64) {
		entries, err := parseEntries(b, chunkKey{t0.Unix(), 7})
		if err != nil && !errors.Is(err, actorstore.ErrCorrupt) && !errors.Is(err, actorstore.ErrNewerFormat) {
			t.Errorf("error %v", err)
		}
		for _, e := range entries {
			if e.id < 7 || e.max < e.min || e.n > e.all {
				t.Errorf("%+v", e)
			}
			e.has(hash)
		}
		if l, err := parseLedger(b); err == nil && string(l.append(nil)) != string(b) && b[0] == ledgerVersion && b[1] == 0 {
			t.Errorf("%x is encoded as %x", b, l.append(nil))
		}
	})
}

const (
	goldenHash = "5692161d100b05e5"
	goldenNote = "080000000065540a0001000000020000 01000005cb0f030306000101da7c4c"
)

// TestFarTimes: records may be dated as far ahead as times go, and the index says so.
func TestFarTimes(t *testing.T) {
	for _, ahead := range []time.Duration{48 * time.Hour, 100 * 365 * 24 * time.Hour, math.MaxInt64} {
		r, w := newTimed(t)
		for range 2 {
			w.pass(time.Second)
			s := r.Begin("s", nil)
			s.AddEvent(Event{Name: "ahead", Time: w.now().Add(ahead)})
			s.End()
			r.flush()
			r.verify(fmt.Sprint("ahead ", ahead))
			r.reopen()
		}
		want(t, "spans of all times", names(r.read(Query{})), "s s")
		want(t, "spans of the far end", names(r.read(Query{Start: w.now().Add(time.Hour)})), "s s")
	}
}
