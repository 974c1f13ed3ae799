package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// priorities are the golden encodings of messages with a priority.
const priorities = "queue-ranked.json"

// TestPriorityVectors: version 6 is a priority, what version 5 adds if there is any, and version 4.
func TestPriorityVectors(t *testing.T) {
	for _, v := range vectors(t, priorities) {
		var in struct {
			Name, Code, Text, Sender string
			Priority                 int8
			Debounce                 string
			Created                  int64
			Available                *int64
			Attempts                 []int64
		}
		must(t, json.Unmarshal(v.Input, &in))
		want := record{name: in.Name, body: []byte{0xf6}, created: in.Created, priority: in.Priority,
			past: past{cause{in.Code, in.Text}, in.Attempts, in.Sender}}
		if in.Debounce != "" {
			want.debounce = (&Debounce{Key: in.Debounce}).keyOf(in.Name)
		}
		if in.Available != nil {
			want.available = some(*in.Available)
		}
		golden := unhex(t, v.Hex)
		if got := want.encode(); !bytes.Equal(got, golden) || want.size() != len(golden) {
			t.Errorf("%s: encoded %x of size %d, want %x", v.Name, got, want.size(), golden)
		}
		if got, err := parseRecord(golden); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded %+v, %v; want %+v", v.Name, got, err, want)
		}
		for _, p := range []int{MinPriority - 1, MaxPriority + 1} {
			other := bytes.Clone(golden)
			other[2] = byte(p)
			_, err := parseRecord(other)
			wantErr(t, fmt.Sprint("priority ", p), err, actorstore.ErrCorrupt)
		}
	}
	for what, rec := range map[string]record{
		"nothing":                {},
		"replaced after a lease": {debounce: debounceKey{1}, deliveries: some[uint32](1)},
		"replaced in flight":     {debounce: debounceKey{1}, inFlight: some(true)},
	} {
		value := rec.encode()
		if what == "nothing" {
			value = slices.Concat([]byte{rankedVersion, 0, 0, 0, 0}, value[2:])
		}
		_, err := parseRecord(value)
		wantErr(t, what, err, actorstore.ErrCorrupt)
	}
}

// TestPriority: of the visible messages those of the highest priority come first, of any names and after a restart,
// and a message without a priority is stored as it always was.
func TestPriority(t *testing.T) {
	r := newRig(t, Options{})
	for i, p := range []int{0, -1, 100, 0, 3, -100, 100} {
		_, err := r.q.Enqueue(ctx, Send{Name: string(rune('a' + i%2)), Priority: p})
		must(t, err)
		value := r.raw(ID(i + 1))
		if want := map[bool]byte{true: rankedVersion, false: recordVersion}[p != 0]; value[0] != want {
			t.Errorf("priority %d is stored as %x", p, value)
		}
	}
	snap, err := r.actor.Snapshot(ctx)
	must(t, err)
	var listed []int
	for m, err := range List(ctx, snap, time.Now(), nil) {
		must(t, errors.Join(err, m.Err))
		listed = append(listed, m.Priority)
	}
	must(t, snap.Close())
	if want := []int{0, -1, 100, 0, 3, -100, 100}; !reflect.DeepEqual(listed, want) {
		t.Errorf("listed %v, want %v", listed, want)
	}
	wantIDs(t, "of one name", ids(r.try(ReceiveOptions{Names: []string{"b"}, AtMostOnce: true})), 4)
	r.reopen()
	msgs := r.try(ReceiveOptions{Names: []string{"b", "a"}, Count: 9})
	wantIDs(t, "all", ids(msgs), 3, 7, 5, 1, 2, 6)
	for i, want := range []int{100, 100, 3, 0, -1, -100} {
		if msgs[i].Priority != want {
			t.Errorf("message %s has the priority %d, want %d", msgs[i].ID, msgs[i].Priority, want)
		}
	}
	r.verify("in the end")
}

// TestPriorityKept: a message keeps its priority whatever becomes of it.
func TestPriorityKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxReceive: 2, Visibility: time.Second})
		_, err := r.q.Enqueue(ctx, Send{Name: "a", Priority: -5, From: "shop/berlin"})
		must(t, err)
		r.enqueue("a", nil)
		later(time.Second)
		first := r.one(ReceiveOptions{})
		must(t, first.Complete(ctx, nil))
		must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, errSoldOut))
		r.verify("given back")
		r.reopen()
		if m := r.one(ReceiveOptions{}); m.ID != 1 || m.Priority != -5 || m.From != "shop/berlin" || len(m.Failure.Attempts) != 1 {
			t.Errorf("received %+v", m)
		}
		later(time.Second)
		synctest.Wait()
		r.verify("dead")
		if m := r.listed(); m.Name != "a.dlq" || m.Priority != -5 || len(m.Failure.Attempts) != 2 || m.From != "shop/berlin" {
			t.Errorf("the dead letter is %+v", m)
		}
		n, err := r.q.Redrive(ctx, nil)
		if must(t, err); n != 1 {
			t.Errorf("%d redriven", n)
		}
		if m := r.listed(); m.Name != "a" || m.Priority != -5 || len(m.Failure.Attempts) != 0 {
			t.Errorf("redriven: %+v", m)
		}
		r.verify("redriven")
	})
}

// TestPriorityDelay: a message that is hidden holds up none, whatever its priority, and is received by that when it is due, also after a restart.
func TestPriorityDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		for _, s := range []Send{{Priority: 9, Delay: 2 * time.Second}, {Priority: -9}, {Priority: 9, Delay: time.Second}, {}, {Priority: 5, Delay: time.Second}} {
			s.Name = "a"
			_, err := r.q.Enqueue(ctx, s)
			must(t, err)
		}
		wantIDs(t, "at first", ids(r.try(ReceiveOptions{Count: 1, AtMostOnce: true})), 4)
		r.reopen()
		later(time.Second)
		wantIDs(t, "after a second", ids(r.try(ReceiveOptions{Count: 2, AtMostOnce: true})), 3, 5)
		r.wantGot("the last one that is hidden", r.receiving(ReceiveOptions{Names: []string{"b", "a"}}), 0, 2)
		r.wantGot("when it is due", r.receiving(ReceiveOptions{}), time.Second, 1)
		r.verify("in the end")
	})
}

// TestPriorityOwn: what a batch enqueues itself stands behind what is stored of the same priority.
func TestPriorityOwn(t *testing.T) {
	r := newRig(t, Options{})
	must(t, r.q.commit(ctx, func(tx *Tx) error {
		for _, p := range []int{0, 1, -1} { // 1, 2, 3
			if _, err := tx.Enqueue(Send{Priority: p}); err != nil {
				return err
			}
		}
		return nil
	}))
	var b batch.Batch
	for _, p := range []int{1, 0, 2} { // 4, 5, 6
		r.stageEnqueue(&b, Send{Priority: p})
	}
	got := r.stageReceive(&b, ReceiveOptions{Count: 2})
	wantIDs(t, "received", ids(got), 6, 2)
	must(t, r.q.In(&b).Nack(ctx, got[1].Receipt(), 0, nil))
	wantIDs(t, "and then", ids(r.stageReceive(&b, ReceiveOptions{Count: 9})), 2, 4, 1, 5, 3)
	must(t, r.actor.Commit(ctx, &b))
	r.verify("in the end")
}

// TestPriorityRefused: what can't be stored is an error, and stores nothing.
func TestPriorityRefused(t *testing.T) {
	r := newRig(t, Options{})
	for _, p := range []int{MinPriority - 1, MaxPriority + 1, 1 << 40} {
		_, err := r.q.Enqueue(ctx, Send{Priority: p})
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), fmt.Sprint(p)) {
			t.Errorf("priority %d: %v", p, err)
		}
	}
	for _, plain := range []bool{true, false} {
		if layout = actorstore.LayoutRivetKit; plain {
			layout = actorstore.LayoutGreenroom
		}
		r := newRig(t, Options{Plain: plain})
		layout = actorstore.LayoutGreenroom
		_, err := r.q.Enqueue(ctx, Send{Priority: 1})
		wantErr(t, fmt.Sprint("plain ", plain), err, ErrPlain)
		if r.q.Len() != 0 {
			t.Errorf("%d messages", r.q.Len())
		}
	}
}

// TestOldMessages opens what earlier versions have stored, and leaves it as it is.
func TestOldMessages(t *testing.T) {
	r := newRig(t, Options{})
	var stored [][]byte
	for i, rec := range []record{
		{name: "a", body: []byte{0xf6}, created: 1},
		{name: "a", body: []byte{0xf6}, created: 2, deliveries: some[uint32](1), inFlight: some(false), past: past{leaseRanOut, []int64{7}, "thing/a"}},
	} {
		stored = append(stored, rec.encode())
		r.stored(appendMessageKey(layout, nil, ID(i+1)), stored[i])
	}
	r.reopen()
	for i := range stored {
		if value := r.raw(ID(i + 1)); !bytes.Equal(value, stored[i]) || value[0] != byte(recordVersion+i) {
			t.Errorf("message %d is %x, want %x", i+1, value, stored[i])
		}
	}
	must(t, r.q.commit(ctx, func(tx *Tx) error { _, err := tx.Enqueue(Send{Name: "a", Priority: 1}); return err }))
	msgs := r.try(ReceiveOptions{Count: 9})
	wantIDs(t, "received", ids(msgs), 3, 1, 2)
	if m := msgs[2]; m.Priority != 0 || m.From != "thing/a" || len(m.Failure.Attempts) != 1 {
		t.Errorf("received %+v", m)
	}
}
