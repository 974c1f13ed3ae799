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
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// errSoldOut is an error with a code.
var errSoldOut = errkind.WithCode("sold_out", errors.New("there are none left"))

// failures are the golden encodings of messages that have failed.
const failures = "queue-failed.json"

// TestFailedVectors: version 5 is version 4 and what is known of the attempts that failed.
func TestFailedVectors(t *testing.T) {
	for _, v := range vectors(t, failures) {
		var in struct {
			Name, Code, Text, Sender string
			Created                  int64
			Deliveries               uint32
			Available                *int64
			Since                    *int64
			Attempts                 []int64
		}
		must(t, json.Unmarshal(v.Input, &in))
		want := record{name: in.Name, body: []byte{0xf6}, created: in.Created, deliveries: some(in.Deliveries),
			past: past{cause{in.Code, in.Text}, in.Attempts, in.Sender}}
		if in.Available != nil {
			want.available = some(*in.Available)
		}
		if in.Since != nil {
			want.inFlight, want.since = some(true), some(*in.Since)
		}
		golden := unhex(t, v.Hex)
		if got := want.encode(); !bytes.Equal(got, golden) || want.size() != len(golden) {
			t.Errorf("%s: encoded %x of size %d, want %x", v.Name, got, want.size(), golden)
		}
		if got, err := parseRecord(golden); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded %+v, %v; want %+v", v.Name, got, err, want)
		}
		short, p := shorter(golden)
		want.past = past{}
		if !bytes.Equal(short, want.encode()) || p == nil {
			t.Errorf("%s: without the attempts it is %x", v.Name, short)
		}
	}
}

// TestFailedBounds: what is longer than it may be, or says nothing, is corrupt.
func TestFailedBounds(t *testing.T) {
	times := make([]int64, maxAttempts)
	full := record{past: past{cause{strings.Repeat("c", maxCode), strings.Repeat("t", maxError-maxCode)}, times, strings.Repeat("s", maxSender)}}
	if _, err := parseRecord(full.encode()); err != nil {
		t.Errorf("the largest: %v", err)
	}
	none := (&record{}).encode()
	none[0] = failedVersion
	for what, change := range map[string]func(p *past){
		"text":     func(p *past) { p.last.text += "t" },
		"code":     func(p *past) { p.last.code += "c" },
		"attempts": func(p *past) { p.began = append(slices.Clone(p.began), 9) },
		"sender":   func(p *past) { p.sender += "s" },
		"UTF-8":    func(p *past) { p.sender = "\xff" },
	} {
		r := full
		change(&r.past)
		_, err := parseRecord(r.encode())
		wantErr(t, what, err, actorstore.ErrCorrupt)
	}
	_, err := parseRecord(append(none, 0, 0, 0, 0))
	wantErr(t, "no attempt", err, actorstore.ErrCorrupt)
}

// TestCause: an error is stored in at most 256 bytes of UTF-8, code and text together.
func TestCause(t *testing.T) {
	long := strings.Repeat("ü", maxError)
	for _, tt := range []struct {
		err        error
		code, text string
	}{
		{nil, "", ""},
		{errors.New("why"), "", "why"},
		{fmt.Errorf("sell: %w", errSoldOut), "sold_out", "sell: there are none left"},
		{&FullError{3}, "quota", "Queue is full. Limit is 3 messages."},
		{errors.New("a\xffb"), "", "a\uFFFDb"},
		{errors.New(long), "", long[:maxError]},
		{errors.New("x" + long), "", ("x" + long)[:maxError-1]},
		{errkind.WithCode(long, errors.New(long)), long[:maxCode], long[:maxError-maxCode]},
	} {
		got := causeOf(tt.err)
		if got != (cause{tt.code, tt.text}) || !utf8.ValidString(got.text) {
			t.Errorf("%.20v: got %+v", tt.err, got)
		}
	}
}

// listed returns what List says of the only message.
func (r *rig) listed() (m Stored) {
	r.t.Helper()
	snap, err := r.actor.Snapshot(ctx)
	must(r.t, err)
	n := 0
	for m, err = range List(ctx, snap, time.Now(), nil) {
		must(r.t, errors.Join(err, m.Err))
		n++
	}
	must(r.t, snap.Close())
	if n != 1 {
		r.t.Fatalf("%d messages", n)
	}
	return m
}

// wantFailure holds a failure whose attempts began so many seconds after start.
func wantFailure(t *testing.T, what string, got Failure, start time.Time, want string, seconds ...int) {
	t.Helper()
	var began []int
	for _, at := range got.Attempts {
		began = append(began, int(at.Sub(start)/time.Second))
	}
	if text := strings.TrimSpace(got.Code + " " + got.Text); text != want || !slices.Equal(began, seconds) {
		t.Errorf("%s: got %q after %v, want %q after %v", what, text, began, want, seconds)
	}
}

// TestDeadLetterTells: a dead letter has the last error, the attempts and the sender, whether the last of them was given back
// or its lease ran out, after a restart, too. Once it is a message again no attempt has failed.
func TestDeadLetterTells(t *testing.T) {
	nack := func(why error) func(*rig, *Message) {
		return func(r *rig, m *Message) { must(r.t, m.Nack(ctx, 0, why)) }
	}
	expires := func(*rig, *Message) {}
	restarts := func(r *rig, m *Message) { r.reopen() }
	extends := func(r *rig, m *Message) { must(r.t, r.q.Extend(ctx, m.Receipt(), 15*time.Second)) }
	const ranOut = "lease_over the lease ran out"
	for _, tt := range []struct {
		what string
		do   []func(*rig, *Message)
		want string
		at   []int
		from bool
	}{
		{"given back", []func(*rig, *Message){nack(errors.New("one")), nack(errSoldOut)}, "sold_out there are none left", []int{0, 20}, true},
		{"without a code", []func(*rig, *Message){nack(errSoldOut), nack(errors.New("two"))}, "two", []int{0, 20}, true},
		{"expired", []func(*rig, *Message){expires, expires}, ranOut, []int{0, 20}, true},
		{"expired, given back", []func(*rig, *Message){expires, nack(errSoldOut)}, "sold_out there are none left", []int{0, 20}, true},
		{"given back, expired", []func(*rig, *Message){nack(errSoldOut), expires}, ranOut, []int{0, 20}, true},
		{"extended, then expired", []func(*rig, *Message){nack(errSoldOut), extends}, ranOut, []int{0, 20}, true},
		{"restarted", []func(*rig, *Message){restarts, restarts}, ranOut, []int{0, 20}, false},
		{"failed, not failed", []func(*rig, *Message){nack(errSoldOut), nack(nil)}, "sold_out there are none left", []int{0, 20}, true},
		{"never failed", []func(*rig, *Message){nack(nil), nack(nil)}, "", nil, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{MaxReceive: len(tt.do), Visibility: 10 * time.Second})
				start := time.Now()
				_, err := r.q.Enqueue(ctx, Send{Name: "a", From: "shop/1"})
				must(t, err)
				for _, do := range tt.do {
					do(r, r.one(ReceiveOptions{}))
					later(20 * time.Second)
					synctest.Wait()
					r.verify("after an attempt")
				}
				for _, what := range []string{"buried", "opened again"} {
					m := r.listed()
					wantFailure(t, what, m.Failure, start, tt.want, tt.at...)
					if m.Name != "a.dlq" || m.Deliveries != uint32(len(tt.do)) || (m.From == "shop/1") != tt.from {
						t.Errorf("%s: got %+v", what, m)
					}
					r.reopen()
				}
				got := r.one(ReceiveOptions{})
				wantFailure(t, "received", got.Failure, start, tt.want, tt.at...)
				must(t, got.Nack(ctx, 0, nil))
				n, err := r.q.Redrive(ctx, nil)
				if must(t, err); n != 1 {
					t.Fatalf("%d redriven", n)
				}
				if m := r.listed(); !reflect.DeepEqual(m.Failure, Failure{}) || r.version(m.ID) != recordVersion {
					t.Errorf("redriven it is %+v", m)
				}
				if got = r.one(ReceiveOptions{}); !reflect.DeepEqual(got.Failure, Failure{}) || (got.From != "") != tt.from {
					t.Errorf("redriven and received it is %+v", got)
				}
				must(t, got.Nack(ctx, 0, nil))
				r.verify("in the end")
			})
		})
	}
}

// version is that of a message as it is stored.
func (r *rig) version(id ID) byte {
	r.t.Helper()
	v, err := r.actor.Get(ctx, appendMessageKey(layout, nil, id), nil)
	must(r.t, err)
	return v[0]
}

// TestAttemptsBounded: the newest attempts are kept.
func TestAttemptsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		start := time.Now()
		r.enqueue("a", nil)
		for i := range 11 {
			must(t, r.one(ReceiveOptions{}).Nack(ctx, time.Second, fmt.Errorf("number %d", i)))
			later(time.Second)
		}
		wantFailure(t, "after 11", r.listed().Failure, start, "number 10", 3, 4, 5, 6, 7, 8, 9, 10)
		r.verify("in the end")
	})
}

// TestListExpired: what List says of a message whose lease ran out is what its receiver gets.
func TestListExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Visibility: time.Minute})
		start := time.Now()
		r.enqueue("a", nil)
		r.one(ReceiveOptions{})
		wantFailure(t, "leased", r.listed().Failure, start, "")
		later(time.Minute)
		wantFailure(t, "over", r.listed().Failure, start, "lease_over the lease ran out", 0)
		wantFailure(t, "received", r.one(ReceiveOptions{}).Failure, start, "lease_over the lease ran out", 0)
	})
}

// TestFailedVersion: a message is stored in version 4, which has no place for attempts, until one
// fails; always in a plain queue, and in the layout of RivetKit, which reads version 4 alone.
func TestFailedVersion(t *testing.T) {
	defer func() { layout = actorstore.LayoutGreenroom }()
	for _, tt := range []struct {
		layout actorstore.Layout
		plain  bool
		want   byte
	}{{actorstore.LayoutGreenroom, false, failedVersion}, {actorstore.LayoutGreenroom, true, recordVersion}, {actorstore.LayoutRivetKit, false, recordVersion}} {
		synctest.Test(t, func(t *testing.T) {
			layout = tt.layout
			r := newRig(t, Options{MaxReceive: 4, Plain: tt.plain, Visibility: time.Second})
			id, err := r.q.Enqueue(ctx, Send{Name: "a", From: "shop/1"})
			must(t, err)
			never := func(what string) {
				t.Helper()
				if v := r.version(id); v != recordVersion {
					t.Errorf("%+v: %s in version %d", tt, what, v)
				}
			}
			never("enqueued")
			m := r.one(ReceiveOptions{})
			never("received")
			must(t, r.q.Extend(ctx, m.Receipt(), time.Minute))
			never("extended")
			must(t, m.Nack(ctx, 0, nil))
			never("given back")
			must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, errSoldOut))
			if v := r.version(id); v != tt.want {
				t.Errorf("%+v: failed, in version %d", tt, v)
			}
			r.one(ReceiveOptions{})
			later(time.Second)
			r.one(ReceiveOptions{})
			later(time.Second)
			synctest.Wait()
			dead := r.listed()
			if v := r.version(dead.ID); v != tt.want || dead.Name != "a.dlq" {
				t.Errorf("%+v: %s in version %d", tt, dead.Name, v)
			}
			r.verify("in the end")
		})
	}
}

// TestOpenVersion4 opens what a version without attempts has left: a message whose lease has ended since.
func TestOpenVersion4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxReceive: 2})
		r.enqueue("a", nil)
		start := time.Now()
		rec := r.record(1)
		rec.setLease(lease{leased, start.Add(time.Second).UnixMilli(), 1, nil, 0}, start.UnixMilli())
		r.stored(appendMessageKey(layout, nil, 1), rec.encode())
		later(2 * time.Second)
		r.reopen()
		m := r.one(ReceiveOptions{})
		if m.Deliveries != 2 {
			t.Errorf("got %+v", m)
		}
		must(t, m.Nack(ctx, 0, errSoldOut))
		wantFailure(t, "the dead letter", r.listed().Failure, start, "sold_out there are none left", 0, 2)
		r.verify("in the end")
	})
}

// TestFailedNoRoom: a message is given back, and a dead letter made, without what is known of the attempts where the actor has no
// room for that. Memory knows it.
func TestFailedNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 3, Visibility: time.Minute}, batch.Limits{Storage: 2000})
		start := time.Now()
		id := r.enqueue("a", nil)
		m := r.one(ReceiveOptions{})
		r.full()
		must(t, m.Nack(ctx, 0, errors.New(strings.Repeat("x", 200))))
		if rec := r.record(id); rec.past.failed() || rec.inFlight.value {
			t.Errorf("stored is %+v", rec)
		}
		m = r.one(ReceiveOptions{})
		wantFailure(t, "in memory", m.Failure, start, strings.Repeat("x", 200), 0)
		must(t, m.Nack(ctx, time.Second, errSoldOut))
		later(time.Second)
		m = r.one(ReceiveOptions{})
		wantFailure(t, "in memory", m.Failure, start, "sold_out there are none left", 0, 0)
		must(t, m.Complete(ctx, nil))
		r.verify("in the end")
	})
}

// TestDeadLetterNoRoom: a dead letter that waits for room has the error that its message was given back with, not that of a lease
// which ran out.
func TestDeadLetterNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, Options{MaxReceive: 1, Visibility: time.Minute}, batch.Limits{Storage: 2000})
		start := time.Now()
		other := r.enqueue("b", strings.Repeat("x", 300))
		r.enqueue("a", nil)
		r.full()
		must(t, r.one(ReceiveOptions{Names: []string{"a"}}).Nack(ctx, 0, errSoldOut))
		if s := r.q.Stats(); s.Names[0].Dying != 1 {
			t.Errorf("stats %+v", s)
		}
		_, err := r.q.Delete(ctx, other)
		must(t, err)
		synctest.Wait()
		later(time.Hour)
		got := r.listed()
		if got.Name != "a.dlq" {
			t.Errorf("got %+v", got)
		}
		wantFailure(t, "the dead letter", got.Failure, start, "sold_out there are none left", 0)
		r.verify("in the end")
	})
}

// TestFailedTooLarge: the largest message becomes a dead letter, if need be without what is known of its attempts.
func TestFailedTooLarge(t *testing.T) {
	limits := narrow
	limits.Payload = 3000
	r := newRigWith(t, Options{MaxReceive: 2}, limits)
	body := Raw(cborBytes(r.q.opts.MaxMessageBytes - (&record{name: "a"}).size() - 1))
	id := r.enqueue("a", body)
	must(t, r.one(ReceiveOptions{}).Nack(ctx, 0, errSoldOut))
	if v := r.version(id); v != recordVersion {
		t.Errorf("version %d", v)
	}
	m := r.one(ReceiveOptions{})
	wantFailure(t, "in memory", m.Failure, time.Time{}, "sold_out there are none left", int(m.Failure.Attempts[0].Sub(time.Time{})/time.Second))
	must(t, m.Nack(ctx, 0, errSoldOut))
	if got := r.listed(); got.Name != "a.dlq" || got.Deliveries != 2 {
		t.Errorf("got %s, %d", got.Name, got.Deliveries)
	}
	r.verify("in the end")
}

// TestSenderBounds refuses a sender that can't be stored.
func TestSenderBounds(t *testing.T) {
	r := newRig(t, Options{})
	for _, from := range []string{"\xff", strings.Repeat("x", maxSender+1)} {
		_, err := r.q.Enqueue(ctx, Send{Name: "a", From: from})
		wantErr(t, fmt.Sprintf("%.5q", from), err, ErrInvalid)
	}
	_, err := r.q.Enqueue(ctx, Send{Name: "a", From: strings.Repeat("x", maxSender)})
	must(t, err)
}
