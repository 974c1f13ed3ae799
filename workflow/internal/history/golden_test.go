package history

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// The inputs of vectors.

type goldenHex struct {
	Hex string `json:"$hex"`
}

func (g *goldenHex) bytes(t testing.TB) []byte {
	if g == nil {
		return nil
	}
	return append([]byte{}, unhex(t, g.Hex)...)
}

type goldenU64 struct {
	U64 Millis `json:"$u64,string"`
}

func (g *goldenU64) millis() *Millis {
	if g == nil {
		return nil
	}
	return &g.U64
}

type goldenMap struct {
	Map [][2]json.RawMessage `json:"$map"`
}

type goldenTag struct {
	Tag string
	Val json.RawMessage
}

type goldenEntry struct {
	ID       string
	Location []goldenTag
	Kind     goldenTag
}

type goldenMetadata struct {
	Status              string
	Error               *string
	Attempts            uint32
	LastAttemptAt       goldenU64
	CreatedAt           goldenU64
	CompletedAt         *goldenU64
	RollbackCompletedAt *goldenU64
	RollbackError       *string
}

func (g *goldenEntry) entry(t testing.TB) Entry {
	t.Helper()
	e := Entry{ID: g.ID, Kind: g.Kind.kind(t)}
	for _, s := range g.Location {
		var name NameIndex
		var marker struct {
			Loop      NameIndex
			Iteration uint32
		}
		if strings.HasSuffix(s.Tag, "NameIndex") {
			must(t, json.Unmarshal(s.Val, &name))
			e.Location = e.Location.Name(name)
		} else {
			must(t, json.Unmarshal(s.Val, &marker))
			e.Location = e.Location.Iteration(marker.Loop, marker.Iteration)
		}
	}
	return e
}

func (g *goldenTag) kind(t testing.TB) Kind {
	t.Helper()
	var v struct {
		Output, State, MessageData    *goldenHex
		Error, OriginalName, Winner   *string
		Name, OriginalType, StateName string
		Iteration                     uint32
		Deadline                      goldenU64
		Branches                      goldenMap
	}
	val := g.Val
	if strings.HasSuffix(g.Tag, "SleepEntry") { // whose state is an enumeration
		val = bytes.ReplaceAll(val, []byte(`"state"`), []byte(`"stateName"`))
	}
	must(t, json.Unmarshal(val, &v))
	switch strings.TrimPrefix(g.Tag, "Workflow") {
	case "StepEntry":
		return Step{v.Output.bytes(t), v.Error}
	case "LoopEntry":
		return Loop{v.State.bytes(t), v.Iteration, v.Output.bytes(t)}
	case "SleepEntry":
		return Sleep{v.Deadline.U64, SleepState(goldenWord(t, v.StateName, sleepStates[:]))}
	case "MessageEntry":
		return Message{v.Name, v.MessageData.bytes(t)}
	case "RollbackCheckpointEntry":
		return Checkpoint{v.Name}
	case "JoinEntry":
		return Join{v.Branches.branches(t)}
	case "RaceEntry":
		return Race{v.Winner, v.Branches.branches(t)}
	case "RemovedEntry":
		return Removed{v.OriginalType, v.OriginalName}
	}
	t.Fatalf("kind %q", g.Tag)
	return nil
}

func (g *goldenMap) branches(t testing.TB) []Branch {
	t.Helper()
	branches := []Branch{}
	for _, pair := range g.Map {
		var v struct {
			Status string
			Output *goldenHex
			Error  *string
		}
		b := Branch{}
		must(t, json.Unmarshal(pair[0], &b.Name))
		must(t, json.Unmarshal(pair[1], &v))
		b.Status, b.Output, b.Error = BranchStatus(goldenWord(t, v.Status, branchStatuses[:])), v.Output.bytes(t), v.Error
		branches = append(branches, b)
	}
	return branches
}

func (g *goldenMetadata) metadata(t testing.TB) *Metadata {
	t.Helper()
	return &Metadata{Status(goldenWord(t, g.Status, statuses[:])), g.Error, g.Attempts, g.LastAttemptAt.U64, g.CreatedAt.U64,
		g.CompletedAt.millis(), g.RollbackCompletedAt.millis(), g.RollbackError}
}

func goldenWord(t testing.TB, word string, words []string) uint8 {
	t.Helper()
	i := slices.Index(words, strings.ToLower(word))
	if i < 0 {
		t.Fatalf("%q is none of %q", word, words)
	}
	return uint8(i)
}

func TestEntryGolden(t *testing.T) {
	kinds := map[string]bool{}
	for _, v := range vectors(t, "workflow-entry.json") {
		var in goldenEntry
		must(t, json.Unmarshal(v.Input, &in))
		want := in.entry(t)
		kinds[want.Type()] = true
		if got := hex.EncodeToString(appendEntry(nil, &want)); got != v.Hex {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Hex)
		}
		got, err := parseEntry(unhex(t, v.Hex))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", v.Name, got, err, want)
		}
	}
	if len(kinds) != int(tagVersion) {
		t.Errorf("the vectors have %d kinds", len(kinds))
	}
}

// The kind that came later has no vector: this is what its schema says.
func TestVersionBytes(t *testing.T) {
	e := Entry{ID: "v", Location: Location("").Name(1), Kind: Version{Resolved: 1, Latest: 3}}
	const want = "0100" + "0176" + "01" + "0001000000" + "08" + "01000000" + "03000000"
	if got := hex.EncodeToString(appendEntry(nil, &e)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, err := parseEntry(unhex(t, want)); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMetadataGolden(t *testing.T) {
	for _, v := range vectors(t, "workflow-entry-metadata.json") {
		var in goldenMetadata
		must(t, json.Unmarshal(v.Input, &in))
		want := in.metadata(t)
		if got := hex.EncodeToString(appendMetadata(nil, want)); got != v.Hex {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Hex)
		}
		got, err := parseMetadata(unhex(t, v.Hex))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", v.Name, got, err, want)
		}
	}
}

func TestTransportGolden(t *testing.T) {
	for _, v := range vectors(t, "workflow-history-transport.json") {
		var in struct {
			NameRegistry  []string
			Entries       []goldenEntry
			EntryMetadata goldenMap
		}
		must(t, json.Unmarshal(v.Input, &in))
		want := &Snapshot{}
		want.Names = append(want.Names, in.NameRegistry...)
		for _, e := range in.Entries {
			want.Entries = append(want.Entries, e.entry(t))
		}
		for _, pair := range in.EntryMetadata.Map {
			var id string
			var m goldenMetadata
			must(t, json.Unmarshal(pair[0], &id))
			must(t, json.Unmarshal(pair[1], &m))
			i := slices.IndexFunc(want.Entries, func(e Entry) bool { return e.ID == id })
			want.Entries[i].Metadata = m.metadata(t)
		}
		if got := hex.EncodeToString(want.appendTransport(nil)); got != v.Hex {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.Hex)
		}
		got, err := parseTransport(unhex(t, v.Hex))
		must(t, err)
		wantEqual(t, v.Name, got, want)
	}
}

// TestFieldsGolden stores each field as the API does, and looks at the bytes.
func TestFieldsGolden(t *testing.T) {
	for _, v := range vectors(t, "workflow-fields.json") {
		t.Run(v.Name, func(t *testing.T) {
			r := newRig(t, Options{}, batch.Limits{})
			want := unhex(t, v.Hex)
			what, _, _ := strings.Cut(v.Name, " ")
			var key []byte
			tx := r.h.Begin()
			switch what {
			case "state":
				key = appendFieldKey(layout, nil, fieldState)
				s, err := parseState(string(want))
				if must(t, err); s == Pending { // is what nothing stored means
					if s.String() != string(want) {
						t.Errorf("got %q", s)
					}
					return
				}
				must(t, tx.SetState(s))
			case "name":
				key = appendNameKey(layout, nil, 0)
				must(t, tx.Put(Entry{Location: r.at(string(want)), Kind: Step{}}))
			case "output":
				key = appendFieldKey(layout, nil, fieldOutput)
				must(t, tx.SetOutput(golden(t, v.Input)))
			case "input":
				key = appendFieldKey(layout, nil, fieldInput)
				must(t, tx.SetInput(golden(t, v.Input)))
			case "error":
				key = appendFieldKey(layout, nil, fieldError)
				must(t, tx.SetError(goldenFailure(t, v.Input)))
			default:
				t.Fatalf("what is %q?", what)
			}
			must(t, tx.Commit(ctx))
			got, err := r.Actor.Get(ctx, key, nil)
			if must(t, err); !bytes.Equal(got, want) {
				t.Errorf("got %x, want %s", got, v.Hex)
			}
			before := r.h.Snapshot()
			r.reopen()
			wantEqual(t, "read", r.h.Snapshot(), before)
			r.verify("read")
		})
	}
}

// golden returns what the default codec makes of an input.
func golden(t testing.TB, input json.RawMessage) []byte {
	t.Helper()
	var v any
	must(t, json.Unmarshal(input, &v))
	if o, ok := v.(map[string]any); ok && o["$undefined"] == true {
		v = cbor.Undefined{}
	} else if ok {
		v = cbor.Object{{Name: "a", Value: o["a"]}, {Name: "b", Value: o["b"]}}
	}
	b, err := cbor.Marshal(v)
	must(t, err)
	return b
}

func goldenFailure(t testing.TB, input json.RawMessage) *Failure {
	t.Helper()
	var in struct {
		Name, Message, Stack string
		Metadata             map[string]any
	}
	must(t, json.Unmarshal(input, &in))
	f := &Failure{Name: in.Name, Message: in.Message, Stack: in.Stack}
	for name, v := range in.Metadata {
		f.Metadata = append(f.Metadata, cbor.Member{Name: name, Value: v})
	}
	return f
}
