package layout_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

var testUsage = layout.Usage{
	Turns: 5, Awake: 300, Written: 1 << 14, Rows: 0, Failures: []layout.Failure{{Code: "a", Place: "b", Count: 2, Last: 0x0102}, {Code: "other", Count: 1}},
}

// The bytes of the row, which must not change.
const usageHex = "0100" + "05" + "ac02" + "808001" + "00" + "02" + "016101620202010000" + "00000000" + "056f74686572" + "00" + "01" + "0000000000000000"

func TestUsageGolden(t *testing.T) {
	if got := testUsage.Append(nil); !bytes.Equal(got, testkit.Unhex(t, usageHex)) {
		t.Errorf("got %x", got)
	}
	if got, err := layout.ParseUsage(testID, testkit.Unhex(t, usageHex)); !reflect.DeepEqual(got, testUsage) || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestUsageDamaged: counts that are too large, the same failure twice, and rows that are cut off.
func TestUsageDamaged(t *testing.T) {
	for name, u := range map[string]layout.Usage{
		"turns":           {Turns: 1<<62 + 1},
		"awake":           {Awake: 1<<42 + 1},
		"written":         {Written: 1 << 63},
		"rows":            {Rows: 1 << 63},
		"failures":        {Failures: []layout.Failure{{Code: "a", Count: 1 << 63}}},
		"a failure twice": {Failures: []layout.Failure{{Code: "a", Place: "b", Count: 1}, {Code: "a", Place: "b", Count: 1}}},
	} {
		if _, err := layout.ParseUsage(testID, u.Append(nil)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, kv.ErrCorrupt)
		}
	}
	row := testkit.Unhex(t, usageHex)
	for n := range row {
		if _, err := layout.ParseUsage(testID, row[:n]); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%d bytes: got %v, want %v", n, err, kv.ErrCorrupt)
		}
	}
}

// FuzzUsage: a row that can be read comes back as it was.
func FuzzUsage(f *testing.F) {
	f.Add(testkit.Unhex(f, usageHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		if u, err := layout.ParseUsage(testID, b); err == nil && !bytes.Equal(u.Append(nil), b) {
			t.Errorf("%x is read as %+v", b, u)
		}
	})
}
