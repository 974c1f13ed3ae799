package actorstore_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestKeysGolden builds every key of the vectors that this package builds.
func TestKeysGolden(t *testing.T) {
	for _, v := range testkit.Vectors(t, "keys.json") {
		var in struct {
			ID, ConnID, Key, Hex string
			Tag                  actorstore.FileTag
			Chunk                uint32
			Prefix               byte
		}
		v.Decode(t, &in)
		var got []byte
		switch v.Schema {
		case "raw":
			got = map[byte][]byte{
				actorstore.NamespacePersist: actorstore.AppendPersist(nil), actorstore.NamespaceInspector: []byte{actorstore.NamespaceInspector},
				actorstore.NamespaceQueueMetadata: actorstore.LayoutGreenroom.AppendQueueMetadata(nil), actorstore.NamespaceQueue: {actorstore.NamespaceQueue},
			}[in.Prefix]
		case "[5]+u64 BE":
			id, err := strconv.ParseUint(in.ID, 10, 64)
			must(t, err)
			got = actorstore.LayoutGreenroom.AppendQueueMessage(nil, id)
		case "[2]+utf8(connId)":
			got = actorstore.AppendConnection(nil, in.ConnID)
		case "[4]+utf8(key)":
			got = actorstore.UserKey([]byte(in.Key))
		case "[4]+bytes":
			got = actorstore.UserKey(testkit.Unhex(t, in.Hex))
		case "[9,0,tag]":
			got = actorstore.LayoutGreenroom.AppendFileMeta(nil, in.Tag)
		case "[9,1,tag]+u32 BE":
			got = actorstore.LayoutGreenroom.AppendFileChunk(nil, in.Tag, in.Chunk)
		default: // tuples: TestWorkflowKeysGolden, and those of traces, whose package builds them
			continue
		}
		if !bytes.Equal(got, v.Bytes(t)) {
			t.Errorf("%s: got %x, want %s", v.Name, got, v.Hex)
		}
	}
}

// TestWorkflowKeysGolden builds every workflow key of the vectors, and takes it apart.
func TestWorkflowKeysGolden(t *testing.T) {
	n := 0
	for _, v := range testkit.Vectors(t, "keys.json") {
		if !strings.HasPrefix(v.Schema, "workflow-") {
			continue
		}
		n++
		var in struct {
			Tuple        []json.RawMessage
			Location     []json.RawMessage
			LoopLocation []json.RawMessage
			Loop         uint32
			From, To     uint32
		}
		v.Decode(t, &in)
		var got []byte
		switch {
		case v.Schema == "workflow-range-start":
			got = actorstore.AppendWorkflowIteration(actorstore.LayoutGreenroom.AppendWorkflowHistory(nil, string(packLocation(t, in.LoopLocation))), in.Loop, in.From)
		case v.Schema == "workflow-range-end (exclusive)":
			got = actorstore.AppendWorkflowIteration(actorstore.LayoutGreenroom.AppendWorkflowHistory(nil, string(packLocation(t, in.LoopLocation))), in.Loop, in.To)
		case in.Location != nil:
			got = actorstore.LayoutGreenroom.AppendWorkflowHistory(nil, string(packLocation(t, in.Location)))
		case in.Tuple != nil:
			got = packWorkflowKey(t, in.Tuple)
		default:
			got, _ = actorstore.LayoutGreenroom.Range(actorstore.NamespaceWorkflow)
		}
		if want := v.Bytes(t); !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, want %s", v.Name, got, v.Hex)
		}
		if len(got) == 1 {
			continue
		}
		part, rest, ok := actorstore.LayoutGreenroom.ParseWorkflowKey(got)
		if again := append(actorstore.LayoutGreenroom.AppendWorkflowPart(nil, part), rest...); !ok || !bytes.Equal(again, got) {
			t.Errorf("%s: taken apart it is %d and %x, %v", v.Name, part, rest, ok)
		}
	}
	if n != 39 {
		t.Errorf("%d vectors", n)
	}
}

// packWorkflowKey builds the key of a tuple of a vector.
func packWorkflowKey(t *testing.T, els []json.RawMessage) []byte {
	var part actorstore.WorkflowPart
	must(t, json.Unmarshal(els[0], &part))
	if len(els) == 1 {
		return actorstore.LayoutGreenroom.AppendWorkflowPart(nil, part)
	}
	if part == actorstore.WorkflowEntries {
		var id string
		must(t, json.Unmarshal(els[1], &id))
		return actorstore.LayoutGreenroom.AppendWorkflowEntry(nil, id)
	}
	var number uint32
	must(t, json.Unmarshal(els[1], &number))
	if part == actorstore.WorkflowNames {
		return actorstore.LayoutGreenroom.AppendWorkflowName(nil, number)
	}
	return actorstore.LayoutGreenroom.AppendWorkflowField(nil, actorstore.WorkflowField(number))
}

func packLocation(t *testing.T, segments []json.RawMessage) (packed []byte) {
	for _, s := range segments {
		var name uint32
		if json.Unmarshal(s, &name) == nil {
			packed = actorstore.AppendWorkflowSegment(packed, name)
			continue
		}
		var marker struct{ Loop, Iteration uint32 }
		must(t, json.Unmarshal(s, &marker))
		packed = actorstore.AppendWorkflowIteration(packed, marker.Loop, marker.Iteration)
	}
	return packed
}

func TestParseWorkflowKey(t *testing.T) {
	for _, s := range []string{"", "04", "07", "0714", "071505", "071300", "0716ffff", "071601", "07020100"} {
		if part, rest, ok := actorstore.LayoutGreenroom.ParseWorkflowKey(testkit.Unhex(t, s)); ok {
			t.Errorf("%s: got %d and %x", s, part, rest)
		}
	}
	for s, want := range map[string]uint32{"14": 0, "15ff": 255, "18ffffffff": 1<<32 - 1} {
		if n, rest, ok := actorstore.ParseWorkflowNumber(testkit.Unhex(t, s+"aa")); n != want || !ok || !bytes.Equal(rest, []byte{0xaa}) {
			t.Errorf("%s: got %d, %x, %v", s, n, rest, ok)
		}
	}
	for _, s := range []string{"", "13fe", "190100000000", "0514", "1500", "16ff"} {
		if n, _, ok := actorstore.ParseWorkflowNumber(testkit.Unhex(t, s)); ok {
			t.Errorf("%s: got %d", s, n)
		}
	}
}

func TestFileChunks(t *testing.T) {
	in := func(key []byte, start, end []byte) bool {
		return bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0
	}
	for tag := actorstore.FileMain; tag <= actorstore.FileSHM; tag++ {
		start, end := actorstore.LayoutGreenroom.FileChunks(tag, 7)
		tests := []struct {
			key  []byte
			want bool
		}{
			{actorstore.LayoutGreenroom.AppendFileChunk(nil, tag, 6), false},
			{actorstore.LayoutGreenroom.AppendFileChunk(nil, tag, 7), true},
			{actorstore.LayoutGreenroom.AppendFileChunk(nil, tag, 1<<32-1), true},
			{actorstore.LayoutGreenroom.AppendFileChunk(nil, tag+1, 7), false},
			{actorstore.LayoutGreenroom.AppendFileMeta(nil, tag), false},
		}
		for _, tt := range tests {
			if got := in(tt.key, start, end); got != tt.want {
				t.Errorf("%s, %s in the range: %v", tag, actorstore.Describe(tt.key), got)
			}
		}
	}
}

func TestFileTagString(t *testing.T) {
	for tag, want := range map[actorstore.FileTag]string{actorstore.FileMain: "main", actorstore.FileJournal: "journal", actorstore.FileWAL: "wal", actorstore.FileSHM: "shm", 4: "unknown"} {
		if got := tag.String(); got != want {
			t.Errorf("tag %d: got %s, want %s", tag, got, want)
		}
	}
}
