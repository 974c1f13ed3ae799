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

var (
	testWake   = layout.Wake{Look: 1_700_000_000_000, At: layout.NeverAt, Tried: []uint64{1, 0x0203}}
	testWaking = layout.Waking{At: 0x0102, Name: "a/b", Layout: 1, Host: testHost, Tried: []uint64{4}}
)

// The bytes of the rows of wakes, which must not change.
const (
	wakeHex   = "0100" + "0068e5cf8b010000" + "ffffffffffffff7f" + "02" + "0100000000000000" + "0302000000000000"
	wakingHex = "0100" + "0201000000000000" + "03612f62" + "01" + "ab0000000000000000000000000000cd" + "01" + "0400000000000000"
)

func TestWakesGolden(t *testing.T) {
	if got := testWake.Append(nil); !bytes.Equal(got, testkit.Unhex(t, wakeHex)) {
		t.Errorf("wake: got %x", got)
	}
	if got, err := layout.ParseWake(testID, testkit.Unhex(t, wakeHex)); !reflect.DeepEqual(got, testWake) || err != nil {
		t.Errorf("wake: got %+v, %v", got, err)
	}
	if got := testWaking.Append(nil); !bytes.Equal(got, testkit.Unhex(t, wakingHex)) {
		t.Errorf("waking: got %x", got)
	}
	if got, err := layout.ParseWaking(testID, testkit.Unhex(t, wakingHex)); !reflect.DeepEqual(got, testWaking) || err != nil {
		t.Errorf("waking: got %+v, %v", got, err)
	}
}

// TestWakesDamaged: two times without a version that tried, too many of those, and a layout that
// this package doesn't know.
func TestWakesDamaged(t *testing.T) {
	for name, w := range map[string]layout.Wake{
		"two times":         {Look: 1, At: 2},
		"too many versions": {Tried: make([]uint64, layout.MaxTried+1)},
	} {
		if _, err := layout.ParseWake(testID, w.Append(nil)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, kv.ErrCorrupt)
		}
	}
	w := layout.Waking{Layout: layout.Layouts}
	if _, err := layout.ParseWaking(testID, w.Append(nil)); !errors.Is(err, kv.ErrNewerFormat) {
		t.Errorf("layout %d: got %v, want %v", w.Layout, err, kv.ErrNewerFormat)
	}
}

// FuzzWakes: a row of either kind that can be read comes back as it was.
func FuzzWakes(f *testing.F) {
	f.Add(testkit.Unhex(f, wakeHex))
	f.Add(testkit.Unhex(f, wakingHex))
	f.Add((&layout.Wake{Look: 1, At: 1}).Append(nil))
	f.Fuzz(func(t *testing.T, row []byte) {
		if w, err := layout.ParseWake(testID, row); err == nil && !bytes.Equal(w.Append(nil), row) {
			t.Errorf("%x is read as %+v", row, w)
		}
		if w, err := layout.ParseWaking(testID, row); err == nil && !bytes.Equal(w.Append(nil), row) {
			t.Errorf("%x is read as %+v", row, w)
		}
	})
}
