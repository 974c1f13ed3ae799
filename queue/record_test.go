package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A bigInt is {"$u64": "…"} in a vector.
type bigInt struct {
	Text string `json:"$u64"`
}

func (b bigInt) int(t *testing.T) int64 {
	t.Helper()
	n, err := strconv.ParseInt(b.Text, 10, 64)
	must(t, err)
	return n
}

func optionalInt(t *testing.T, b *bigInt) optional[int64] {
	if b == nil {
		return optional[int64]{}
	}
	return some(b.int(t))
}

func TestMessageVectors(t *testing.T) {
	for _, v := range vectors(t, "queue-message.json") {
		var in struct {
			Name string
			Body struct {
				Hex string `json:"$hex"`
			}
			CreatedAt    bigInt
			FailureCount *uint32
			AvailableAt  *bigInt
			InFlight     *bool
			InFlightAt   *bigInt
		}
		must(t, json.Unmarshal(v.Input, &in))
		want := record{name: in.Name, body: unhex(t, in.Body.Hex), created: in.CreatedAt.int(t),
			available: optionalInt(t, in.AvailableAt), since: optionalInt(t, in.InFlightAt)}
		if in.FailureCount != nil {
			want.deliveries = some(*in.FailureCount)
		}
		if in.InFlight != nil {
			want.inFlight = some(*in.InFlight)
		}
		golden := unhex(t, v.Hex)
		if got := want.encode(); !bytes.Equal(got, golden) || want.size() != len(golden) {
			t.Errorf("%s: encoded %x of size %d, want %x", v.Name, got, want.size(), golden)
		}
		if got, err := parseRecord(golden); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded %+v, %v; want %+v", v.Name, got, err, want)
		}
	}
}

func TestMetadataVectors(t *testing.T) {
	for _, v := range vectors(t, "queue-metadata.json") {
		var in struct {
			NextID bigInt `json:"nextId"`
			Size   int64
		}
		must(t, json.Unmarshal(v.Input, &in))
		next, err := strconv.ParseUint(in.NextID.Text, 10, 64)
		must(t, err)
		want, golden := metadata{ID(next), in.Size}, unhex(t, v.Hex)
		if got := want.append(nil); !bytes.Equal(got, golden) {
			t.Errorf("%s: encoded %x, want %x", v.Name, got, golden)
		}
		if got, err := parseMetadata(golden); err != nil || got != want {
			t.Errorf("%s: decoded %+v, %v; want %+v", v.Name, got, err, want)
		}
	}
}

func TestKeyVectors(t *testing.T) {
	n := 0
	for _, v := range vectors(t, "keys.json") {
		golden := unhex(t, v.Hex)
		var in struct {
			Prefix byte
			ID     string
		}
		if len(golden) == 0 || golden[0] != actorstore.NamespaceQueue && golden[0] != actorstore.NamespaceQueueMetadata {
			continue
		}
		n++
		must(t, json.Unmarshal(v.Input, &in))
		switch {
		case in.Prefix == actorstore.NamespaceQueueMetadata:
			if got := metadataKey(layout); !bytes.Equal(got, golden) {
				t.Errorf("%s: got %x, want %x", v.Name, got, golden)
			}
		case in.ID == "":
			if start, _ := layout.Range(actorstore.NamespaceQueue); !bytes.Equal(start, golden) {
				t.Errorf("%s: got %x, want %x", v.Name, start, golden)
			}
		default:
			id, err := strconv.ParseUint(in.ID, 10, 64)
			must(t, err)
			if got := appendMessageKey(layout, nil, ID(id)); !bytes.Equal(got, golden) {
				t.Errorf("%s: got %x, want %x", v.Name, got, golden)
			}
			if got, ok := parseMessageKey(layout, golden); !ok || got != ID(id) {
				t.Errorf("%s: decoded %v, %v", v.Name, got, ok)
			}
		}
	}
	if n != 8 {
		t.Errorf("%d vectors were about the queue", n)
	}
	for _, key := range [][]byte{nil, {5}, {5, 0, 0, 0, 0, 0, 0, 1}, {4, 0, 0, 0, 0, 0, 0, 0, 1}, {5, 0, 0, 0, 0, 0, 0, 0, 1, 0}} {
		if _, ok := parseMessageKey(layout, key); ok {
			t.Errorf("%x is the key of a message", key)
		}
	}
}

// TestCorrupt cuts and lengthens what is stored: that is an error, never a panic.
func TestCorrupt(t *testing.T) {
	full := record{name: "a", body: []byte{0xf6}, created: 1, deliveries: some[uint32](1), available: some[int64](2), inFlight: some(true), since: some[int64](3)}
	failed := full
	failed.past = past{cause{"code", "text"}, []int64{4, 5}, "thing/a"}
	ranked := failed
	ranked.priority = -7
	decoders := map[string]func([]byte) error{
		"message":  func(b []byte) error { _, err := parseRecord(b); return err },
		"failed":   func(b []byte) error { _, err := parseRecord(b); return err },
		"ranked":   func(b []byte) error { _, err := parseRecord(b); return err },
		"metadata": func(b []byte) error { _, err := parseMetadata(b); return err },
		"note":     func(b []byte) error { _, _, err := parseNote(b); return err },
	}
	values := map[string][]byte{"message": full.encode(), "failed": failed.encode(), "ranked": ranked.encode(), "metadata": (&metadata{7, 8}).append(nil), "note": appendNote(nil, 7, 8)}
	for what, decode := range decoders {
		value := values[what]
		must(t, decode(value))
		for n := range len(value) {
			if err := decode(value[:n]); !errors.Is(err, actorstore.ErrCorrupt) {
				t.Errorf("%s cut to %d bytes: %v", what, n, err)
			}
		}
		wantErr(t, what+" with a byte too many", decode(append(bytes.Clone(value), 0)), actorstore.ErrCorrupt)
		newer := bytes.Clone(value)
		if newer[0]++; what == "message" || what == "failed" {
			newer[0] = rankedVersion + 1
		}
		wantErr(t, what+" of the next version", decode(newer), actorstore.ErrNewerFormat)
		newer[0] = 0
		wantErr(t, what+" of version 0", decode(newer), actorstore.ErrCorrupt)
	}
}

func FuzzRecord(f *testing.F) {
	for _, v := range vectors(f, "queue-message.json") {
		f.Add(unhex(f, v.Hex))
	}
	for _, v := range slices.Concat(vectors(f, failures), vectors(f, priorities)) {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(b)
		if err != nil {
			return
		}
		if got := r.encode(); !bytes.Equal(got, b) || r.size() != len(b) {
			t.Errorf("%x was encoded as %x, size %d", b, got, r.size())
		}
		if tellsFailures(b) != r.past.failed() {
			t.Errorf("%x tells of failures, %v: %+v", b, tellsFailures(b), r.past)
		}
		l := r.lease(30_000)
		r.setLease(lease{leased, 99, 7, nil, 9}, 11)
		if n := len(r.encode()); n > len(b)+leaseRoom {
			t.Errorf("a lease adds %d bytes", n-len(b))
		}
		if got := r.lease(30_000); got != (lease{leased, 99, 7, nil, 9}) || l.state > leased {
			t.Errorf("lease %+v, before %+v", got, l)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add((&metadata{1, 2}).append(nil), appendNote(nil, 3, 4))
	f.Fuzz(func(t *testing.T, b, n []byte) {
		if m, err := parseMetadata(b); err == nil && !bytes.Equal(m.append(nil), b) {
			t.Errorf("%x was encoded as %x", b, m.append(nil))
		}
		if id, until, err := parseNote(n); err == nil && !bytes.Equal(appendNote(nil, id, until), n) {
			t.Errorf("%x was encoded as %x", n, appendNote(nil, id, until))
		}
	})
}

// TestLeaseOfRecord reads what others may have written.
func TestLeaseOfRecord(t *testing.T) {
	tests := []struct {
		r    record
		want lease
	}{
		{record{}, lease{}},
		{record{deliveries: some[uint32](3)}, lease{deliveries: 3}},
		{record{available: some[int64](50)}, lease{delayed, 50, 0, nil, 0}},
		{record{available: some[int64](50), inFlight: some(false), since: some[int64](9)}, lease{delayed, 50, 0, nil, 0}},
		{record{inFlight: some(true), since: some[int64](9)}, lease{leased, 39, 0, nil, 9}},
		{record{inFlight: some(true)}, lease{leased, 30, 0, nil, 0}},
		{record{inFlight: some(true), since: some[int64](math.MaxInt64)}, lease{leased, math.MaxInt64, 0, nil, math.MaxInt64}},
		{record{inFlight: some(true), since: some[int64](9), available: some[int64](1000)}, lease{leased, 1000, 0, nil, 9}},
	}
	for _, tt := range tests {
		if got := tt.r.lease(30); got != tt.want {
			t.Errorf("%+v: got %+v, want %+v", tt.r, got, tt.want)
		}
	}
}

func TestIDText(t *testing.T) {
	if r := (&Message{ID: 3, Deliveries: 2}).Receipt(); r.String() != "3.2" {
		t.Errorf("receipt %s", r)
	}
	for _, id := range []ID{0, 1, lastID, math.MaxUint64} {
		if got, err := ParseID(id.String()); err != nil || got != id {
			t.Errorf("%d: got %v, %v", id, got, err)
		}
		for _, r := range []Receipt{{id, 7, 0}, {id, 0, 1}, {id, math.MaxUint32, math.MaxUint64}} {
			if got, err := ParseReceipt(r.String()); err != nil || got != r {
				t.Errorf("%v: got %v, %v", r, got, err)
			}
		}
	}
	for _, text := range []string{"", "x", "-1", "01", "+1", "18446744073709551616"} {
		if _, err := ParseID(text); !errors.Is(err, ErrID) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "1.x", "1.01", "1.1.0", "1.1.", "1.1.F", "1.1.0a", "1.1.1.1", "1.1.10000000000000000", "1.4294967296"} {
		if _, err := ParseReceipt(text); !errors.Is(err, ErrID) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzReceipt: a text is one receipt's or none's.
func FuzzReceipt(f *testing.F) {
	for _, text := range []string{"1.1", "9.3.ff", "0.0", "18446744073709551615.4294967295.ffffffffffffffff", "1..", "1.1."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseReceipt(text); err == nil && r.String() != text {
			t.Errorf("%q is %q", text, r)
		} else if err != nil && (!errors.Is(err, ErrID) || r != Receipt{}) {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	})
}
