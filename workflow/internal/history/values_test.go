package history

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// TestSchemaMetadata decodes and encodes the struct of the schema that is never stored: the
// numbers of its states are no part of the format here, which has them in words.
func TestSchemaMetadata(t *testing.T) {
	schema := []State{Pending, Running, Sleeping, Failed, Completed, RollingBack}
	for _, v := range vectors(t, "workflow-metadata.json") {
		var in struct {
			State          string
			Output         *goldenHex
			Error, Version *string
		}
		must(t, json.Unmarshal(v.Input, &in))
		version, body, err := bare.Version(unhex(t, v.Hex))
		must(t, err)
		rd := bare.NewReader(body)
		state := schema[rd.Tag(len(schema))]
		output, failure, text := readValue(rd), readText(rd), readText(rd)
		if err := rd.Done(); err != nil || version != formatVersion || state.String() != strings.ToLower(in.State) ||
			!bytes.Equal(output, in.Output.bytes(t)) || !reflect.DeepEqual(failure, in.Error) || !reflect.DeepEqual(text, in.Version) {
			t.Errorf("%s: got %v, %q, %v, %v, %v", v.Name, state, output, failure, text, err)
		}
		b := bare.AppendU8(bare.AppendVersion(nil, version), uint8(slices.Index(schema, state)))
		if b = appendText(appendText(appendValue(b, output), failure), text); hex.EncodeToString(b) != v.Hex {
			t.Errorf("%s: got %x, want %s", v.Name, b, v.Hex)
		}
	}
}

// TestKeysGolden takes every workflow key of the vectors apart and builds it anew.
func TestKeysGolden(t *testing.T) {
	n := 0
	for _, v := range vectors(t, "keys.json") {
		if !strings.HasPrefix(v.Schema, "workflow-key") {
			continue
		}
		n++
		key := unhex(t, v.Hex)
		k, err := parseKey(layout, key)
		must(t, err)
		var got []byte
		switch k.part {
		case actorstore.WorkflowNames:
			got = appendNameKey(layout, nil, k.name)
		case actorstore.WorkflowHistory:
			got = appendEntryKey(layout, nil, k.location)
			again := Location("")
			for s := range k.location.segments() {
				if s.Loop {
					again = again.Iteration(s.Name, s.Iteration)
				} else {
					again = again.Name(s.Name)
				}
			}
			if again != k.location {
				t.Errorf("%s: got %x", v.Name, string(again))
			}
		case actorstore.WorkflowEntries:
			got = appendMetadataKey(layout, nil, k.id)
		default:
			if i := slices.Index(fieldKeys[:], k.field); i >= 0 {
				got = appendFieldKey(layout, nil, field(i))
			} else if got = key; k.field != actorstore.WorkflowVersion {
				t.Errorf("%s: field %d", v.Name, k.field)
			}
		}
		if !bytes.Equal(got, key) {
			t.Errorf("%s: got %x, want %s", v.Name, got, v.Hex)
		}
	}
	if n != 32 {
		t.Errorf("%d vectors", n)
	}
}

// Values of any kind come back as they were stored, and the codec of the default reads and
// makes the same bytes.
func TestValuesGolden(t *testing.T) {
	r := newRig(t, Options{}, whole)
	vs := vectors(t, "cbor-x.json")
	tx := r.h.Begin()
	for _, v := range vs {
		r.step(tx, string(unhex(t, v.Hex)), v.Name)
	}
	must(t, tx.Commit(ctx))
	r.reopen()
	for _, v := range vs {
		e, _ := r.h.Get(r.at(v.Name))
		output := e.Kind.(Step).Output
		if hex.EncodeToString(output) != v.Hex {
			t.Errorf("%s: got %x, want %s", v.Name, output, v.Hex)
		}
		x, err := cbor.Decode(output)
		must(t, err)
		again, err := cbor.Marshal(x)
		if err != nil || !bytes.Equal(again, output) {
			t.Errorf("%s: %v becomes %x, %v", v.Name, x, again, err)
		}
	}
}

// A saved history is a file that people keep: this is its form.
func TestSavedGolden(t *testing.T) {
	r := newRig(t, Options{NewID: func() string { return "id" }}, batch.Limits{})
	r.commit(func(tx *Tx) {
		must(t, tx.SetInput([]byte("in")))
		must(t, tx.Put(Entry{Location: r.at("loop", "loop~3", "x"), Kind: Step{Output: []byte("out")}}))
		must(t, tx.PutMetadata(r.at("loop", "loop~3", "x"), Metadata{Status: StatusCompleted, Attempts: 2, LastAttemptAt: 5, CreatedAt: 4}))
		must(t, tx.SetState(Failed))
		must(t, tx.SetError(&Failure{Name: "Error", Message: "boom"}))
	})
	b, err := json.Marshal(r.h.Snapshot())
	must(t, err)
	value, err := (&Failure{Name: "Error", Message: "boom"}).encode()
	must(t, err)
	want := fmt.Sprintf(`{"format":"greenroom workflow history 1","state":"failed","input":"aW4=",`+
		`"error":{"name":"Error","message":"boom","value":"%s"},"names":["loop","x"],`+
		`"entries":[{"path":"loop[3]/x","id":"id","location":[0,{"loop":0,"iteration":3},1],"type":"step","output":"b3V0",`+
		`"metadata":{"status":"completed","attempts":2,"lastAttemptAt":5,"createdAt":4}}]}`,
		base64.StdEncoding.EncodeToString(value))
	if string(b) != want {
		t.Errorf("got %s\nwant %s", b, want)
	}
}
