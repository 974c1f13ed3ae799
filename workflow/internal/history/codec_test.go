package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// random makes values of the types of this package.
type random struct{ *rand.Rand }

func (r random) text() string {
	return []string{"", "a", "b/c", "~3", "日本", "a\x00b", strings.Repeat("x", 200)}[r.IntN(7)]
}

func (r random) maybeText() *string {
	if r.IntN(2) == 0 {
		return nil
	}
	return new(r.text())
}

// value is never nil.
func (r random) value() []byte {
	b := make([]byte, r.IntN(5)*r.IntN(60))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r random) maybeValue() []byte {
	if r.IntN(2) == 0 {
		return nil
	}
	return r.value()
}

func (r random) millis() Millis { return Millis(r.Uint64() >> r.IntN(64)) }

func (r random) maybeMillis() *Millis {
	if r.IntN(2) == 0 {
		return nil
	}
	return new(r.millis())
}

// waits is never nil.
func (r random) waits() []Wait {
	waits := make([]Wait, r.IntN(4))
	for i := range waits {
		waits[i] = Wait{For: WaitKind(r.IntN(len(waitKinds))), Path: r.text(), Since: r.millis(), Until: r.millis(), Error: r.text()}
		for range r.IntN(3) {
			waits[i].Names = append(waits[i].Names, r.text())
		}
	}
	return waits
}

func (r random) branches() []Branch {
	branches := []Branch{}
	for i := range r.IntN(4) {
		branches = append(branches, Branch{string(rune('a'+i)) + r.text(), BranchStatus(r.IntN(len(branchStatuses))), r.maybeValue(), r.maybeText()})
	}
	return branches
}

func (r random) kind() Kind {
	switch tag(r.IntN(int(tags))) {
	case tagStep:
		return Step{r.maybeValue(), r.maybeText()}
	case tagLoop:
		return Loop{r.value(), r.Uint32(), r.maybeValue()}
	case tagSleep:
		return Sleep{r.millis(), SleepState(r.IntN(len(sleepStates)))}
	case tagMessage:
		return Message{r.text(), r.value()}
	case tagCheckpoint:
		return Checkpoint{r.text()}
	case tagJoin:
		return Join{r.branches()}
	case tagRace:
		return Race{r.maybeText(), r.branches()}
	case tagRemoved:
		return Removed{r.text(), r.maybeText()}
	}
	return Version{r.Uint32(), r.Uint32()}
}

func (r random) metadata() *Metadata {
	return &Metadata{Status(r.IntN(len(statuses))), r.maybeText(), r.Uint32(), r.millis(), r.millis(), r.maybeMillis(), r.maybeMillis(), r.maybeText()}
}

// location has indexes below names.
func (r random) location(names int) (l Location) {
	for range 1 + r.IntN(3) {
		i := NameIndex(r.IntN(names))
		if l = l.Name(i); r.IntN(3) == 0 {
			l = l.Iteration(i, r.Uint32()>>r.IntN(32)).Name(NameIndex(r.IntN(names)))
		}
	}
	return l
}

func TestCodecRoundTrip(t *testing.T) {
	r := random{rand.New(rand.NewPCG(1, 1))}
	for range 2000 {
		e := Entry{ID: r.text(), Location: r.location(1 << 20), Kind: r.kind()}
		b := appendEntry([]byte("before"), &e)[len("before"):]
		if got, err := parseEntry(b); err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v becomes %+v, %v", e, got, err)
		}
		m := r.metadata()
		if got, err := parseMetadata(appendMetadata(nil, m)); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v becomes %+v, %v", m, got, err)
		}
		// Damage is noticed: of each byte that is missing, and one too many.
		for n := range b {
			if _, err := parseEntry(b[:n]); !errors.Is(err, errCorrupt) {
				t.Fatalf("%x of %x: %v", b[:n], b, err)
			}
		}
		if _, err := parseEntry(append(b, 0)); !errors.Is(err, errCorrupt) {
			t.Fatalf("%x and one more: %v", b, err)
		}
	}
}

func TestCodecCorrupt(t *testing.T) {
	const id, at = "0161", "010000000000" // id "a", location [0]
	for what, s := range map[string]string{
		"no version": "01", "version 0": "0000" + id + at + "000000", "unknown kind": "0100" + id + at + "09",
		"unknown segment": "0100" + id + "0102", "count of segments": "0100" + id + "ffffffff0f",
		"optional flag": "0100" + id + at + "0002", "sleep state": "0100" + id + at + "02" + "0000000000000000" + "03",
		"branch status": "0100" + id + at + "05" + "01" + "0161" + "05", "id not UTF-8": "010001ff" + at + "000000",
		"branch twice": "0100" + id + at + "05" + "02" + "0161000000" + "0161000000",
		"no name":      "0100" + id + at + "04",
	} {
		if e, err := parseEntry(unhex(t, s)); !errors.Is(err, errCorrupt) {
			t.Errorf("%s: got %+v, %v", what, e, err)
		}
	}
	_, err := parseEntry(unhex(t, "0200"+id))
	wantErr(t, "a newer entry", err, errNewerFormat)
	_, err = parseMetadata(unhex(t, "0200"))
	wantErr(t, "newer metadata", err, errNewerFormat)
	_, err = parseMetadata(unhex(t, "010005"))
	wantErr(t, "unknown status", err, errCorrupt)
	for what, v := range map[string]any{
		"a number": 1, "no message": cbor.Object{{Name: "name", Value: "Error"}},
		"a message that is a number": cbor.Object{{Name: "name", Value: "Error"}, {Name: "message", Value: 1}},
	} {
		b, err := cbor.Marshal(v)
		must(t, err)
		_, err = parseFailure(b)
		wantErr(t, what, err, errCorrupt)
	}
	_, err = parseFailure(nil)
	wantErr(t, "nothing", err, errCorrupt)
}

// randomSnapshot has no damage.
func randomSnapshot(r random) *Snapshot {
	s := &Snapshot{State: State(r.IntN(len(states))), Input: r.maybeValue(), Output: r.maybeValue(), Names: []string{"a", "b/c", "", "~3"}}
	if r.IntN(2) == 0 {
		s.Error = &Failure{Name: "Error", Message: r.text(), Stack: r.text(), Metadata: cbor.Object{{Name: "code", Value: int64(7)}, {Name: "s", Value: "t"}}}
	}
	m := newMemory(layout)
	for i := range r.IntN(10) {
		rec, _ := m.put(Entry{ID: string(rune('A' + i)), Location: r.location(len(s.Names)), Kind: r.kind()})
		if r.IntN(2) == 0 {
			rec.Metadata = r.metadata()
		}
	}
	s.Entries = m.entries(everything)
	if r.IntN(2) == 0 {
		s.Rested = r.waits()
	}
	if r.IntN(3) == 0 {
		s.Orphans = map[string]*Metadata{"Y": r.metadata(), "Z": r.metadata()}
	}
	return s
}

func TestSnapshotRoundTrip(t *testing.T) {
	r := random{rand.New(rand.NewPCG(2, 2))}
	for range 300 {
		s := randomSnapshot(r)
		b, err := json.Marshal(s)
		must(t, err)
		saved := &Snapshot{}
		must(t, json.Unmarshal(b, saved))
		if saved.Entries == nil {
			saved.Entries = []Entry{}
		}
		wantEqual(t, "JSON", saved, s)
		moved, err := parseTransport(s.appendTransport(nil))
		must(t, err)
		if moved.Entries == nil {
			moved.Entries = []Entry{}
		}
		want := *s
		want.State, want.Input, want.Output, want.Error, want.Rested = Pending, nil, nil, nil, nil
		wantEqual(t, "transport", moved, &want)
		if t.Failed() {
			return
		}
	}
}

func TestSavedInvalid(t *testing.T) {
	const head = `{"format":"greenroom workflow history 1","state":"running","names":["a"],"entries":[`
	must(t, json.Unmarshal([]byte(head+`{"id":"x","location":[0],"type":"step"}]}`), &Snapshot{}))
	for what, s := range map[string]string{
		"other format":     `{"format":"x","state":"running"}`,
		"unknown state":    `{"format":"greenroom workflow history 1","state":"odd"}`,
		"missing name":     head + `{"id":"x","location":[1],"type":"step"}]}`,
		"missing loop":     head + `{"id":"x","location":[{"loop":1,"iteration":0}],"type":"step"}]}`,
		"negative name":    head + `{"id":"x","location":[-1],"type":"step"}]}`,
		"unknown type":     head + `{"id":"x","location":[0],"type":"stop"}]}`,
		"sleep state":      head + `{"id":"x","location":[0],"type":"sleep","status":"x"}]}`,
		"branch status":    head + `{"id":"x","location":[0],"type":"join","branches":[{"name":"b","status":"x"}]}]}`,
		"metadata":         head + `{"id":"x","location":[0],"type":"step","metadata":{"status":"x"}}]}`,
		"orphan":           head + `],"orphans":{"x":{"status":"x"}}}`,
		"orphan nothing":   head + `],"orphans":{"x":null}}`,
		"error is no CBOR": head + `],"error":{"value":"AA=="}}`,
		"wait":             head + `],"waits":[{"for":"x"}]}`,
		"input is no text": head + `],"input":5}`,
	} {
		if err := (&Snapshot{}).UnmarshalJSON([]byte(s)); !errors.Is(err, errInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, v := range vectors(f, "workflow-entry.json") {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEntry(b)
		if err != nil {
			return
		}
		if again := appendEntry(nil, &e); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}

func FuzzParseMetadata(f *testing.F) {
	for _, v := range vectors(f, "workflow-entry-metadata.json") {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMetadata(b)
		if err != nil {
			return
		}
		if again := appendMetadata(nil, m); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}

func FuzzParseTransport(f *testing.F) {
	for _, v := range vectors(f, "workflow-history-transport.json") {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseTransport(b)
		if err != nil {
			return
		}
		again, err := parseTransport(s.appendTransport(nil))
		if must(t, err); !reflect.DeepEqual(again, s) {
			t.Errorf("%+v becomes %+v", s, again)
		}
		for _, e := range s.Entries {
			s.Path(e.Location)
		}
	})
}

func FuzzParseFailure(f *testing.F) {
	for _, v := range vectors(f, "workflow-fields.json") {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		failure, err := parseFailure(b)
		if err != nil {
			return
		}
		// What another program has stored may not be what can be stored here.
		if failure, err = failure.clean(); err != nil {
			return
		}
		v, err := failure.encode()
		must(t, err)
		again, err := parseFailure(v)
		if must(t, err); again.Name != failure.Name || again.Message != failure.Message || again.Stack != failure.Stack ||
			len(again.Metadata) != len(failure.Metadata) {
			t.Errorf("%+v becomes %+v", failure, again)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, v := range vectors(f, "keys.json") {
		f.Add(unhex(f, v.Hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseKey(layout, b)
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Error(err)
			}
			return
		}
		if k.location != "" {
			if again := appendEntryKey(layout, nil, k.location); !bytes.Equal(again, b) {
				t.Errorf("%x becomes %x", b, again)
			}
			parent, last, ok := k.location.Parent()
			if !ok || last.Loop && parent.Iteration(last.Name, last.Iteration) != k.location ||
				!last.Loop && parent.Name(last.Name) != k.location {
				t.Errorf("%x has the parent %x and %v", b, string(parent), last)
			}
		}
	})
}

func FuzzSaved(f *testing.F) {
	r := random{rand.New(rand.NewPCG(3, 3))}
	for range 20 {
		b, err := json.Marshal(randomSnapshot(r))
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &Snapshot{}
		if err := s.UnmarshalJSON(b); err != nil {
			if !errors.Is(err, errInvalid) {
				t.Error(err)
			}
			return
		}
		text, err := json.Marshal(s)
		if err != nil {
			return // an error whose metadata can't be written in JSON's CBOR
		}
		again := &Snapshot{}
		must(t, json.Unmarshal(text, again))
		if len(again.Entries) != len(s.Entries) || again.State != s.State || !bytes.Equal(again.Input, s.Input) {
			t.Errorf("%+v becomes %+v", s, again)
		}
	})
}
