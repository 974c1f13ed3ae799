package persist

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// A vector is one golden encoding of a record.
type vector struct {
	Name    string
	Version uint16
	Hex     string
	Input   struct {
		Input          *hexBytes
		HasInitialized bool
		State          hexBytes
		Connections    []any
		Events         []struct {
			EventID   string `json:"eventId"`
			Timestamp num
			Action    string
			Args      *hexBytes
			Kind      struct {
				Val struct {
					Action string
					Args   *hexBytes
				}
			}
		} `json:"scheduledEvents"`
	}
}

type hexBytes struct {
	Hex string `json:"$hex"`
}

type num struct {
	U64 string `json:"$u64"`
}

// bytes returns nil for a value that is absent.
func (h *hexBytes) bytes(t testing.TB) []byte {
	if h == nil {
		return nil
	}
	return unhex(t, h.Hex)
}

// record returns the record that the input describes.
func (v *vector) record(t testing.TB) record {
	in := &v.Input
	r := record{version: v.Version, input: in.Input.bytes(t), init: in.HasInitialized, state: in.State.bytes(t), events: []stored{}}
	for _, e := range in.Events {
		at, err := strconv.ParseInt(e.Timestamp.U64, 10, 64)
		must(t, err)
		s := stored{e.EventID, at, e.Action, e.Args.bytes(t)}
		if v.Version < 3 {
			s.action, s.args = e.Kind.Val.Action, e.Kind.Val.Args.bytes(t)
		}
		r.events = append(r.events, s)
	}
	return r
}

func vectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/actor-persist.json")
	must(t, err)
	var vs []vector
	must(t, json.Unmarshal(b, &vs))
	if len(vs) != 12 {
		t.Fatalf("%d vectors", len(vs))
	}
	return vs
}

// TestRecordVectors reads every golden record, and writes those of the newest version.
func TestRecordVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			raw, want := unhex(t, v.Hex), v.record(t)
			got, err := parseRecord(raw)
			must(t, err)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("read %+v, want %+v", got, want)
			}
			written := appendRecord(nil, &want)
			if v.Version == version && !bytes.Equal(written, raw) {
				t.Errorf("wrote %x, want %x", written, raw)
			}
			if v.Version == version-1 && !bytes.Equal(written[2:], raw[2:]) {
				t.Errorf("wrote %x, want the bytes of %x", written, raw)
			}
			if size := sizeOf(&want); size != len(written) {
				t.Errorf("size is %d, of %d bytes", size, len(written))
			}
		})
	}
}

func sizeOf(r *record) int {
	n := 0
	for i := range r.events {
		n += r.events[i].size()
	}
	return recordSize(r.input, r.state, len(r.events), n)
}

// TestRecordConverts reads what the golden records of old versions don't have.
func TestRecordConverts(t *testing.T) {
	body := func(v uint16) []byte {
		b := bare.AppendVersion(nil, v)
		b = append(b, 0, 1) // no input, initialised
		return bare.AppendData(b, []byte{0xf6})
	}
	conn := func(b []byte, v uint16) []byte {
		for _, s := range []string{"c1", "token", "params", "state"} {
			b = bare.AppendString(b, s)
		}
		b = bare.AppendUint(b, 2)
		b = bare.AppendString(bare.AppendString(b, "tick"), "tock")
		b = bare.AppendI64(b, 17)
		if v == 2 {
			b = bare.AppendData(bare.AppendBool(b, true), []byte("request"))
		}
		return b
	}
	event := func(b []byte, at int64, kind uint8) []byte {
		b = bare.AppendI64(bare.AppendString(b, "e"), at)
		return bare.AppendBool(bare.AppendString(bare.AppendU8(b, kind), "act"), false)
	}
	v2 := bare.AppendUint(body(2), 2)
	v2 = conn(conn(v2, 2), 2)
	v2 = event(bare.AppendUint(v2, 1), -5, 0)
	v2 = bare.AppendUint(v2, 1)
	v2 = bare.AppendI64(bare.AppendI64(bare.AppendData(v2, []byte("request")), 18), 3)
	want := record{version: 2, init: true, state: []byte{0xf6}, events: []stored{{"e", -5, "act", nil}}}
	if got, err := parseRecord(v2); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("version 2: %+v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"an event of an unknown kind, version 1": event(bare.AppendUint(append(body(1), 0), 1), 1, 1),
		"an event of an unknown kind, version 2": append(event(bare.AppendUint(append(body(2), 0), 1), 1, 1), 0),
		"a time that no later version can hold":  event(bare.AppendUint(append(body(1), 0), 1), -1, 0),
		"version 0":                              append(body(0), 0),
		"bytes behind the end":                   append(append(body(4), 0), 0),
		"nothing":                                nil,
		"one byte":                               {4},
	} {
		if r, err := parseRecord(b); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, err := parseRecord(append(body(5), 0)); !errors.Is(err, actorstore.ErrNewerFormat) {
		t.Errorf("version 5: %v", err)
	}
}

// TestRecordTruncated has no beginning of a record be one.
func TestRecordTruncated(t *testing.T) {
	for _, v := range vectors(t) {
		raw := unhex(t, v.Hex)
		for n := range raw {
			if r, err := parseRecord(raw[:n]); !errors.Is(err, actorstore.ErrCorrupt) {
				t.Errorf("%s, %d bytes: %+v, %v", v.Name, n, r, err)
			}
		}
	}
}

// FuzzRecord: what is read is written as it was, but for the version.
func FuzzRecord(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(b)
		if err != nil {
			if !errors.Is(err, actorstore.ErrCorrupt) && !errors.Is(err, actorstore.ErrNewerFormat) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		w := appendRecord(nil, &r)
		if len(w) != sizeOf(&r) {
			t.Fatalf("size is %d, of %d bytes", sizeOf(&r), len(w))
		}
		if r.version >= 3 && !bytes.Equal(w[2:], b[2:]) {
			t.Fatalf("wrote %x of %x", w, b)
		}
		again, err := parseRecord(w)
		if again.version = r.version; err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("read %+v again as %+v, %v", r, again, err)
		}
	})
}

// noteVectors are the bytes of notes, which will not change.
var noteVectors = []struct {
	note note
	hex  string
}{
	{note{}, "0100" + "00" + "00000000" + "0000000000000000" + "00" + "00"},
	{note{cron: rule{"@daily", "UTC"}}, "0100" + "01" + "06406461696c79" + "03555443" + "00000000" + "0000000000000000" + "00" + "00"},
	{note{attempts: 3, notBefore: 1700000000250, parked: true, problem: "no"},
		"0100" + "00" + "03000000" + "fa68e5cf8b010000" + "01" + "026e6f"},
}

// TestNoteVectors holds the bytes of notes.
func TestNoteVectors(t *testing.T) {
	for _, v := range noteVectors {
		if got := hex.EncodeToString(appendNote(nil, &v.note)); got != v.hex {
			t.Errorf("%+v: wrote %s, want %s", v.note, got, v.hex)
		}
		if got, err := parseNote(unhex(t, v.hex)); err != nil || got != v.note {
			t.Errorf("%s: read %+v, %v", v.hex, got, err)
		}
		for n := range len(v.hex) / 2 {
			if got, err := parseNote(unhex(t, v.hex)[:n]); !errors.Is(err, actorstore.ErrCorrupt) {
				t.Errorf("%s, %d bytes: %+v, %v", v.hex, n, got, err)
			}
		}
	}
	if _, err := parseNote([]byte{2, 0}); !errors.Is(err, actorstore.ErrNewerFormat) {
		t.Errorf("version 2: %v", err)
	}
	if got := hex.EncodeToString(noteKey("e1")); got != "01"+"8b5cc4df7eec7d32a7814eca4af047ae" {
		t.Errorf("key %s", got)
	}
}

// TestNoteFits writes the largest note that there can be.
func TestNoteFits(t *testing.T) {
	long := string(bytes.Repeat([]byte("é"), 200))
	n := note{cron: rule{long[:maxExpression], long[:maxZone]}, attempts: 1 << 31, notBefore: -1, parked: true, problem: long + "\xff"}
	b := appendNote(nil, &n)
	if len(b) > actorstore.MaxNoteValue {
		t.Fatalf("%d bytes", len(b))
	}
	got, err := parseNote(b)
	if err != nil || got.cron != n.cron || len(got.problem) < 60 || long[:len(got.problem)] != got.problem {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzNote: what is read is written as it was.
func FuzzNote(f *testing.F) {
	for _, v := range noteVectors {
		f.Add(unhex(f, v.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parseNote(b)
		if err != nil {
			if !errors.Is(err, actorstore.ErrCorrupt) && !errors.Is(err, actorstore.ErrNewerFormat) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if len(n.cron.expr) <= maxExpression && len(n.cron.zone) <= maxZone && len(n.problem) < 60 {
			if w := appendNote(nil, &n); !bytes.Equal(w, b) {
				t.Fatalf("wrote %x of %x", w, b)
			}
		}
	})
}
