package queue

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestOrder hands messages out by id, whatever their names, and skips other names.
func TestOrder(t *testing.T) {
	r := newRig(t, Options{})
	for _, name := range []string{"a", "b", "a", "c", "b", ""} {
		r.enqueue(name, name)
	}
	wantIDs(t, "b and c", ids(r.try(ReceiveOptions{Names: []string{"c", "b", "nobody"}, Count: 2})), 2, 4)
	wantIDs(t, "the empty name", ids(r.try(ReceiveOptions{Names: []string{""}, Count: 9})), 6)
	wantIDs(t, "any", ids(r.try(ReceiveOptions{Count: 9})), 1, 3, 5)
	wantIDs(t, "none is left", ids(r.try(ReceiveOptions{})))
	r.verify("in the end")
}

// TestBodies stores what JavaScript writes, and gives it back byte by byte.
func TestBodies(t *testing.T) {
	r := newRig(t, Options{})
	bodies := []any{nil, "text", 7, map[string]any{"hello": "world"}, []byte{0, 1}, Raw(nil), Raw{0xb9, 0, 0}, cbor.Undefined{}}
	want := []string{"f6", "6474657874", "07", "b900016568656c6c6f65776f726c64", "420001", "f7", "b90000", "f7"}
	for i, body := range bodies {
		r.enqueue("a", body)
		m := r.one(ReceiveOptions{AtMostOnce: true})
		if got := fmt.Sprintf("%x", []byte(m.Body)); got != want[i] || m.Name != "a" || !m.Until.IsZero() || m.Deliveries != 1 {
			t.Errorf("%v: got %s, want %s; message %+v", body, got, want[i], m)
		}
	}
	for _, c := range []struct {
		body any
		path string
	}{
		{math.NaN(), ""}, {map[string]any{"a": []any{1, math.Inf(1)}}, "a[1]"}, {func() {}, ""}, {make(chan int), ""},
		{Raw{0xff}, ""}, {Raw{1, 2}, ""},
	} {
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Body: c.body})
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) || invalid.Path != c.path || Code(err) != "message_invalid" {
			t.Errorf("%T: got %v, path %q", c.body, err, c.path)
		}
	}
	_, err := r.q.Enqueue(ctx, Send{Name: "\xff"})
	wantErr(t, "a name that is no text", err, ErrInvalid)
	_, err = r.q.Enqueue(ctx, Send{Delay: -1})
	wantErr(t, "a negative delay", err, ErrInvalid)
	if n := r.q.Len(); n != 0 {
		t.Errorf("%d messages are there", n)
	}
	r.verify("in the end")
}

// TestFirstRecord writes the very bytes of a message that never was received.
func TestFirstRecord(t *testing.T) {
	r := newRig(t, Options{})
	id := r.enqueue("a", nil)
	rec := r.record(id)
	want := record{name: "a", body: []byte{0xf6}, created: rec.created}
	value, err := r.actor.Get(ctx, appendMessageKey(layout, nil, 1), nil)
	must(t, err)
	if !bytes.Equal(value, want.encode()) || id != 1 {
		t.Errorf("message %s is %x", id, value)
	}
	meta, err := r.actor.Get(ctx, metadataKey(layout), nil)
	must(t, err)
	if got := fmt.Sprintf("%x", meta); got != "0400020000000000000001000000" {
		t.Errorf("the metadata are %s", got)
	}
}

// TestFull refuses a message too many with the words of the reference, counts what is
// staged, and lets dead letters in.
func TestFull(t *testing.T) {
	r := newRigWith(t, Options{MaxMessages: 2, MaxReceive: 1}, whole)
	r.enqueue("a", nil)
	var b batch.Batch
	_, err := r.q.In(&b).Enqueue(Send{Name: "a"})
	must(t, err)
	_, err = r.q.Enqueue(ctx, Send{Name: "a"})
	var full *FullError
	if !errors.As(err, &full) || full.Limit != 2 || full.Error() != "Queue is full. Limit is 2 messages." || Code(err) != "full" {
		t.Errorf("got %v", err)
	}
	b.Abort(nil)
	_, err = r.q.EnqueueAll(ctx, []Send{{Name: "a"}, {Name: "a"}})
	wantErr(t, "two where one has room", err, ErrFull)
	r.verify("after refusals")
	r.enqueue("a", nil)
	m := r.one(ReceiveOptions{})
	must(t, m.Nack(ctx, 0, nil))
	if s := r.q.Stats(); s.Messages != 2 || s.Names[1].Name != "a.dlq" {
		t.Errorf("stats %+v", s)
	}
	r.verify("in the end")
	open := newRigWith(t, Options{MaxMessages: -1}, whole)
	_, err = open.q.EnqueueAll(ctx, make([]Send, defaultMaxMessages+1))
	must(t, err)
}

// TestSize holds each message against the limit before anything is written, and leaves
// room for what a lease and a dead letter's name add.
func TestSize(t *testing.T) {
	r := newRigWith(t, Options{MaxReceive: 1}, batch.Limits{ValueSize: 4096})
	limit := r.q.opts.MaxMessageBytes
	if want := r.actor.Limits().ValueSize - leaseRoom - len(".dlq") - 1; limit != want {
		t.Fatalf("limit %d, want %d", limit, want)
	}
	for n := limit - 40; n < limit+10; n++ {
		body := Raw(cborBytes(n))
		size := (&record{name: "a", body: body}).size()
		c := r.counted(func() {
			_, err := r.q.Enqueue(ctx, Send{Name: "a", Body: body})
			var se *SizeError
			switch {
			case size <= limit && err != nil:
				t.Errorf("%d bytes, limit %d: %v", size, limit, err)
			case size > limit && (!errors.As(err, &se) || se.Size != size || se.Limit != limit || Code(err) != "message_too_large"):
				t.Errorf("%d bytes, limit %d: %v", size, limit, err)
			}
		})
		if size > limit && c.Commits != 0 {
			t.Errorf("%d commits for a message that is too large", c.Commits)
		}
	}
	// All that fit can be leased, given back, and laid aside.
	for r.q.Stats().Names[0].Name == "a" && len(r.q.Stats().Names) >= 1 && r.q.Stats().Names[0].Ready > 0 {
		m := r.one(ReceiveOptions{Names: []string{"a"}})
		if !r.record(m.ID).inFlight.value {
			t.Fatalf("the lease of message %s is not stored", m.ID)
		}
		must(t, m.Nack(ctx, 0, nil))
	}
	if s := r.q.Stats(); len(s.Names) != 1 || s.Names[0].Name != "a.dlq" {
		t.Errorf("stats %+v", s)
	}
	r.verify("in the end")
}

// cborBytes returns a byte string of CBOR that is n bytes long.
func cborBytes(n int) []byte {
	return append([]byte{0x59, byte((n - 3) >> 8), byte(n - 3)}, make([]byte, n-3)...)
}

func TestOptions(t *testing.T) {
	r := newRig(t, Options{})
	must(t, r.q.Close())
	for _, o := range []Options{
		{MaxMessageBytes: 1 << 20}, // what the reference allows, and no store takes
		{MaxMessageBytes: -1}, {Visibility: time.Microsecond}, {MaxReceive: -1}, {KeyWindow: -1},
		{MaxKeys: actorstore.MaxNotes + 1}, {MaxKeys: -1},
	} {
		if q, err := Open(ctx, r.actor, &o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: got %v, %v", o, q, err)
		}
	}
	r.open2()
	if _, err := Open(ctx, r.actor, nil); !errors.Is(err, actorstore.ErrKept) {
		t.Errorf("a second queue: %v", err)
	}
	for _, o := range []*ReceiveOptions{{Count: -1}, {Timeout: -1}, {Visibility: 1}} {
		_, err := r.q.Receive(ctx, o)
		wantErr(t, fmt.Sprintf("%+v", o), err, ErrInvalid)
		_, err = r.q.TryReceive(ctx, o)
		wantErr(t, fmt.Sprintf("%+v", o), err, ErrInvalid)
		_, err = r.q.In(new(batch.Batch)).Receive(ctx, o)
		wantErr(t, fmt.Sprintf("%+v", o), err, ErrInvalid)
	}
}

// open2 opens the queue of an actor that is open.
func (r *rig) open2() {
	r.t.Helper()
	q, err := Open(ctx, r.actor, &r.opts)
	must(r.t, err)
	r.q = q
}

// TestNames refuses names that are not declared, instead of losing their messages.
func TestNames(t *testing.T) {
	r := newRig(t, Options{Names: []string{"a"}, MaxReceive: 1})
	_, err := r.q.Enqueue(ctx, Send{Name: "b"})
	wantErr(t, "another name", err, ErrUnknownName)
	r.enqueue("a", nil)
	must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, nil))
	if m := r.one(ReceiveOptions{}); m.Name != "a.dlq" {
		t.Errorf("got %q", m.Name)
	}
}

// TestDeleteReady leaves what is leased, delayed, or a batch's.
func TestDeleteReady(t *testing.T) {
	r := newRig(t, Options{})
	leased := r.enqueue("a", nil)
	r.one(ReceiveOptions{})
	later, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Hour})
	must(t, err)
	taken, free := r.enqueue("b", nil), r.enqueue("a", nil)
	var b batch.Batch
	_, err = r.q.In(&b).Receive(ctx, &ReceiveOptions{Names: []string{"b"}})
	must(t, err)
	removed, err := r.q.DeleteReady(ctx, free, taken, later, leased, 77)
	must(t, err)
	wantIDs(t, "removed", removed, free)
	b.Abort(nil)
	removed, err = r.q.DeleteReady(ctx, taken)
	must(t, err)
	wantIDs(t, "removed when it is given back", removed, taken)
	removed, err = r.q.Delete(ctx, leased, later)
	must(t, err)
	wantIDs(t, "removed by Delete", removed, leased, later)
}

// TestDelete removes messages in any state, many of them in pieces.
func TestDelete(t *testing.T) {
	// An engine that takes one sub-batch at once: what isn't split doesn't land.
	r := newRigWith(t, Options{MaxMessages: -1}, batch.Limits{AtomicBatches: 1})
	_, err := r.q.EnqueueAll(ctx, make([]Send, 1000))
	wantErr(t, "too many at once", err, batch.ErrTooLarge)
	var all []ID
	for range 10 {
		some, err := r.q.EnqueueAll(ctx, make([]Send, 100))
		must(t, err)
		all = append(all, some...)
	}
	m := r.one(ReceiveOptions{})
	removed, err := r.q.Delete(ctx, 77, m.ID, 5000)
	must(t, err)
	wantIDs(t, "removed", removed, m.ID, 77)
	wantErr(t, "complete", m.Complete(ctx, nil), ErrGone)
	var b batch.Batch
	_, err = r.q.In(&b).Receive(ctx, nil)
	must(t, err)
	_, err = r.q.Delete(ctx, 2)
	wantErr(t, "one that a batch has", err, ErrBusy)
	if n, err := r.q.Purge(ctx, "other"); n != 0 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	c := r.counted(func() {
		if n, err := r.q.Purge(ctx); n != len(all)-3 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
	})
	if most := int64(len(all)/(r.q.actor.Limits().Entries-1) + 1); c.Commits > most || c.Gets+c.Scans > 0 {
		t.Errorf("%d commits, want at most %d; %d reads", c.Commits, most, c.Gets+c.Scans)
	}
	b.Abort(nil)
	r.verify("in the end")
	if r.q.Len() != 1 {
		t.Errorf("%d messages are left", r.q.Len())
	}
}

// TestFenced tells waiting calls, and new ones, that the actor has another owner.
func TestFenced(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	other, err := actorstore.Open(ctx, r.engine, nil)
	must(t, err)
	a, err := other.Named(ctx, "lobby", nil)
	must(t, err)
	_, err = r.q.TryReceive(ctx, nil)
	wantErr(t, "receive", err, actorstore.ErrFenced)
	_, err = r.q.Enqueue(ctx, Send{})
	wantErr(t, "enqueue", err, actorstore.ErrFenced)
	wantErr(t, "wait", r.q.WaitFor(ctx), actorstore.ErrFenced)
	_, err = r.q.Delete(ctx, 1)
	wantErr(t, "delete", err, actorstore.ErrFenced)
	_, err = r.q.Expect(1)
	wantErr(t, "expect", err, actorstore.ErrFenced)
	must(t, a.Close())
	must(t, other.Close())
}

// TestFarEngine costs no more where reads cross a network: bodies that don't fit in the
// queue's memory are in the store's.
func TestFarEngine(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // where no lease is renewed unless time passes
			var engine kv.Engine = memkv.New()
			if shared {
				engine = engines.Shared(engine)
			}
			r := newRigOn(t, engines.Far(engine), Options{MemoryBytes: -1}, batch.Limits{})
			r.wantCost("enqueue", 1, 0, func() { r.keyed("a", "k") })
			var m *Message
			r.wantCost("receive", 1, 0, func() { m = r.one(ReceiveOptions{}) })
			r.wantCost("complete", 1, 0, func() { must(t, m.Complete(ctx, nil)) })
			r.wantCost("nothing", 0, 0, func() { r.try(ReceiveOptions{}) })
			r.enqueue("a", "x")
			r.verify("before")
			r.reopen()
			if m := r.one(ReceiveOptions{AtMostOnce: true}); text(t, m.Body) != "x" {
				t.Errorf("got %+v", m)
			}
			r.verify("in the end")
		})
	}
}

func TestClosed(t *testing.T) {
	r := newRig(t, Options{})
	r.enqueue("a", nil)
	var b batch.Batch
	_, err := r.q.In(&b).Enqueue(Send{})
	must(t, err)
	must(t, r.q.Close())
	must(t, r.q.Close())
	for what, err := range map[string]error{
		"commit":   r.actor.Commit(ctx, &b),
		"complete": r.q.Complete(ctx, Receipt{ID: 1, Deliveries: 1}, nil),
		"nack":     r.q.Nack(ctx, Receipt{ID: 1, Deliveries: 1}, 0, nil),
		"extend":   r.q.Extend(ctx, Receipt{ID: 1, Deliveries: 1}, time.Second),
		"wait":     r.q.WaitFor(ctx),
		"delete":   r.q.In(new(batch.Batch)).Delete(1),
	} {
		wantErr(t, what, err, ErrClosed)
	}
	_, err = r.q.Enqueue(ctx, Send{})
	wantErr(t, "enqueue", err, ErrClosed)
	_, err = r.q.Receive(ctx, nil)
	wantErr(t, "receive", err, ErrClosed)
	_, err = r.q.In(new(batch.Batch)).Receive(ctx, nil)
	wantErr(t, "stage", err, ErrClosed)
	// What was staged with the old queue can't get an id of the new one.
	r.open2()
	if id := r.enqueue("a", nil); id != 2 {
		t.Errorf("got id %s", id)
	}
	r.verify("in the end")
	must(t, r.q.Close())
	var settled batch.Batch
	settled.Abort(nil)
	r.open2()
	_, err = r.q.In(&settled).Enqueue(Send{})
	wantErr(t, "a settled batch", err, batch.ErrSettled)
}

// TestStats and what List says of the same.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.enqueue("b", nil)
		later(time.Second)
		for range 3 {
			r.enqueue("a", "x")
		}
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Delay: time.Minute, Key: "k"})
		must(t, err)
		r.one(ReceiveOptions{Names: []string{"a"}})
		s := r.q.Stats()
		if s.Messages != 5 || s.Next != 6 || s.Keys != 1 || s.Quarantined != 0 || len(s.Names) != 2 {
			t.Fatalf("got %+v", s)
		}
		if a := s.Names[0]; a.Name != "a" || a.Ready != 2 || a.Delayed != 1 || a.Leased != 1 || a.Bytes == 0 || !a.Oldest.Equal(time.Now()) {
			t.Errorf("got %+v", a)
		}
		snap, err := r.actor.Snapshot(ctx)
		must(t, err)
		defer func() { must(t, snap.Close()) }()
		var got []string
		list := func(o *ListOptions) string {
			got = nil
			for m, err := range List(ctx, snap, time.Now(), o) {
				must(t, err)
				got = append(got, fmt.Sprintf("%s:%s:%s:%d", m.ID, m.Name, m.State, m.Deliveries))
			}
			return strings.Join(got, " ")
		}
		if got, want := list(nil), "1:b:ready:0 2:a:leased:1 3:a:ready:0 4:a:ready:0 5:a:delayed:0"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := list(&ListOptions{Names: []string{"a"}, After: 2, Limit: 2}); got != "3:a:ready:0 4:a:ready:0" {
			t.Errorf("got %q", got)
		}
		later(time.Hour)
		if list(nil); slices.ContainsFunc(got, func(s string) bool { return !strings.Contains(s, "ready") }) {
			t.Errorf("an hour later: %q", got)
		}
	})
}
