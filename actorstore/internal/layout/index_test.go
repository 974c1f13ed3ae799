package layout_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

var testAttributes = layout.Attributes{
	Workflow: "sleeping", Since: 0x0102, Stuck: true, Schema: 7, Slept: 0x0304, Labels: []layout.Label{{Key: "a", Value: "b"}, {Key: "c", Value: "de"}},
}

// The bytes of the rows, which must not change.
const (
	attributesHex = "0100" + "08736c656570696e67" + "0201000000000000" + "01" + "0700000000000000" + "0403000000000000" + "02" + "01610162" + "0163026465"
	builtHex      = "0100" + "01" + "ab0000000000000000000000000000cd" + "0300"
	indexKeyHex   = "02677265656e726f6f6d00" + "1501" + "1506" + "1502" + "0200" + "026661696c656400" + "1563" + "4001" + "00112233445566778899aabbccddeeff" + "0007"
)

func TestIndexGolden(t *testing.T) {
	if got := testAttributes.Append(nil); !bytes.Equal(got, testkit.Unhex(t, attributesHex)) {
		t.Errorf("attributes: got %x", got)
	}
	if got, err := layout.ParseAttributes(testID, testkit.Unhex(t, attributesHex)); !reflect.DeepEqual(got, testAttributes) || err != nil {
		t.Errorf("attributes: got %+v, %v", got, err)
	}
	built := layout.Built{Done: true, After: layout.ID{UUID: testHost, Label: 3}}
	if got := built.Append(nil); !bytes.Equal(got, testkit.Unhex(t, builtHex)) {
		t.Errorf("progress: got %x", got)
	}
	if got, err := layout.ParseBuilt(testkit.Unhex(t, builtHex)); got != built || err != nil {
		t.Errorf("progress: got %+v, %v", got, err)
	}
	row := layout.IndexRow{Field: layout.FieldWorkflow, Text: "failed", Order: 99, ID: testID}
	if got, want := row.Key(), testkit.Unhex(t, indexKeyHex); !bytes.Equal(got, want) {
		t.Errorf("key: got %x, want %x", got, want)
	}
	if got, err := layout.ParseIndexKey(testkit.Unhex(t, indexKeyHex)); got != row || err != nil {
		t.Errorf("key: got %v, %v", got, err)
	}
}

// TestIndexRows: each attribute that is set has one row, in ascending order, and the keys sort as what they hold.
func TestIndexRows(t *testing.T) {
	var keys [][]byte
	for _, row := range testAttributes.Rows(testID) {
		if row.ID != testID {
			t.Errorf("%v is a row of actor %v", row, row.ID)
		}
		keys = append(keys, row.Key())
	}
	if len(keys) != 6 || !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Errorf("rows %x", keys)
	}
	var none layout.Attributes
	if rows := none.Rows(testID); len(rows) != 0 || !none.IsZero() || testAttributes.IsZero() {
		t.Errorf("nothing has the rows %v", rows)
	}
	for i, less := range []layout.IndexRow{
		{Field: 1, Name: "a", Text: "b"}, {Field: 1, Name: "a", Text: "b\x00"}, {Field: 1, Name: "a\x00", Text: ""}, {Field: 2, Order: -5}, {Field: 2, Order: 255}, {Field: 2, Order: 256},
	} {
		if i > 0 && bytes.Compare(keys[0], less.Key()) >= 0 {
			t.Errorf("%v isn't above the row before", less)
		}
		keys[0] = less.Key()
	}
}

// TestSetLabel: labels stay sorted, "" removes one, and what others share isn't changed.
func TestSetLabel(t *testing.T) {
	var a layout.Attributes
	a.SetLabel("b", "1")
	a.SetLabel("a", "2")
	before := a
	a.SetLabel("b", "3")
	a.SetLabel("c", "")
	if want := []layout.Label{{Key: "a", Value: "2"}, {Key: "b", Value: "3"}}; !slices.Equal(a.Labels, want) {
		t.Errorf("got %v, want %v", a.Labels, want)
	}
	if before.Labels[1].Value != "1" || before.Equal(&a) || !a.Equal(&a) {
		t.Errorf("before %v", before.Labels)
	}
	a.SetLabel("a", "")
	a.SetLabel("b", "")
	if !a.IsZero() {
		t.Errorf("left is %v", a.Labels)
	}
}

// TestIndexDamaged: labels out of order, a state of no workflow, and rows that are cut off.
func TestIndexDamaged(t *testing.T) {
	for name, a := range map[string]layout.Attributes{
		"labels in no order": {Labels: []layout.Label{{Key: "b", Value: "1"}, {Key: "a", Value: "1"}}},
		"a label twice":      {Labels: []layout.Label{{Key: "b", Value: "1"}, {Key: "b", Value: "1"}}},
		"stuck and nothing":  {Stuck: true},
		"since, and nothing": {Since: 1},
	} {
		if _, err := layout.ParseAttributes(testID, a.Append(nil)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, kv.ErrCorrupt)
		}
	}
	row := testkit.Unhex(t, attributesHex)
	for n := range row {
		if _, err := layout.ParseAttributes(testID, row[:n]); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%d bytes: got %v, want %v", n, err, kv.ErrCorrupt)
		}
	}
	if _, err := layout.ParseBuilt(testkit.Unhex(t, builtHex)[:5]); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("progress: got %v, want %v", err, kv.ErrCorrupt)
	}
}

// FuzzIndex: rows and keys that can be read come back as they were.
func FuzzIndex(f *testing.F) {
	f.Add(testkit.Unhex(f, attributesHex))
	f.Add(testkit.Unhex(f, builtHex))
	for _, row := range testAttributes.Rows(testID) {
		f.Add(row.Key())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := layout.ParseAttributes(testID, b); err == nil && !bytes.Equal(a.Append(nil), b) {
			t.Errorf("%x is read as %+v", b, a)
		}
		if p, err := layout.ParseBuilt(b); err == nil && !bytes.Equal(p.Append(nil), b) {
			t.Errorf("%x is read as %+v", b, p)
		}
		if row, err := layout.ParseIndexKey(b); err == nil && !bytes.Equal(row.Key(), b) {
			t.Errorf("%x is read as %v", b, row)
		}
	})
}
