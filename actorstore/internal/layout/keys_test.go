package layout_test

import (
	"bytes"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

const idHex = "00112233445566778899aabbccddeeff0007"

func TestOwnRows(t *testing.T) {
	want := map[string][]byte{
		"02677265656e726f6f6d00" + "1501" + "14":                layout.FormatKey(),
		"02677265656e726f6f6d00" + "1501" + "1501":              layout.AppendRows(nil, layout.KindHead),
		"02677265656e726f6f6d00" + "1501" + "1502":              layout.AppendRows(nil, layout.KindName),
		"02677265656e726f6f6d00" + "15011502026100":             layout.NameKey("a"),
		"02677265656e726f6f6d00150115014001" + idHex:            layout.RecordKey(testID, layout.PartHead),
		"02677265656e726f6f6d00150115014001" + idHex + "1501":   layout.RecordKey(testID, layout.PartName),
		"02677265656e726f6f6d00150115044001" + idHex + "016b00": layout.AppendNoteKey(nil, testID, []byte("k")),
		"02677265656e726f6f6d0015011505160102" + "4001" + idHex: layout.WakeKey(0x0102, testID),
	}
	for hex, key := range want {
		if !bytes.Equal(key, testkit.Unhex(t, hex)) {
			t.Errorf("got %x, want %s", key, hex)
		}
	}
}

func TestParseRecordKey(t *testing.T) {
	tests := []struct {
		what string
		key  []byte
		part int64
		ok   bool
	}{
		{"head", layout.RecordKey(testID, layout.PartHead), layout.PartHead, true},
		{"name", layout.RecordKey(testID, layout.PartName), layout.PartName, true},
		{"owner", layout.RecordKey(testID, layout.PartOwner), layout.PartOwner, true},
		{"another row of the actor", append(layout.RecordKey(testID, layout.PartHead), 0x15, 0x09), 0, false},
		{"name and more", append(layout.RecordKey(testID, layout.PartName), 0x14), 0, false},
		{"no id", append(layout.AppendRows(nil, layout.KindHead), 0x15, 0x02), 0, false},
		{"short id", layout.RecordKey(testID, layout.PartHead)[:30], 0, false},
		{"nothing", layout.AppendRows(nil, layout.KindHead), 0, false},
	}
	for _, tt := range tests {
		id, part, ok := layout.ParseRecordKey(tt.key)
		if ok != tt.ok || ok && (part != tt.part || id != testID) {
			t.Errorf("%s: got %v, %v, %v", tt.what, id, part, ok)
		}
	}
}

func TestParseNameKey(t *testing.T) {
	for _, name := range []string{"a", "", "日本", "a\x00b"} {
		if got, ok := layout.ParseNameKey(layout.NameKey(name)); got != name || !ok {
			t.Errorf("%q: got %q, %v", name, got, ok)
		}
	}
	for _, key := range [][]byte{nil, layout.AppendRows(nil, layout.KindName), append(layout.NameKey("a"), 0x14), append(layout.AppendRows(nil, layout.KindName), 0x14)} {
		if got, ok := layout.ParseNameKey(key); ok {
			t.Errorf("%x: got %q", key, got)
		}
	}
}

const hostKeyHex = "02677265656e726f6f6d00" + "1501" + "1503" + "01ab00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ffcd00"

func TestHostKeyGolden(t *testing.T) {
	if got := layout.HostKey(testHost); !bytes.Equal(got, testkit.Unhex(t, hostKeyHex)) {
		t.Errorf("key: got %x", got)
	}
	if got, ok := layout.ParseHostKey(testkit.Unhex(t, hostKeyHex)); got != testHost || !ok {
		t.Errorf("key: got %v, %v", got, ok)
	}
	for _, key := range [][]byte{nil, layout.AppendRows(nil, layout.KindHost), append(layout.HostKey(testHost), 0x14), layout.NameKey("n")} {
		if got, ok := layout.ParseHostKey(key); ok {
			t.Errorf("%x: got %v", key, got)
		}
	}
}

func FuzzHostKey(f *testing.F) {
	f.Add(testkit.Unhex(f, hostKeyHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		// What stands before the id is looked at by the reader of the range.
		if id, ok := layout.ParseHostKey(b); ok && !bytes.HasSuffix(layout.HostKey(id), b[len(layout.AppendRows(nil, layout.KindHost)):]) {
			t.Errorf("%x is read as %s", b, id)
		}
	})
}

// TestParseKeys: the keys of notes and of the index of wakes come back, and those of other rows don't.
func TestParseKeys(t *testing.T) {
	note, wake := layout.AppendNoteKey(nil, testID, []byte("k\x00")), layout.WakeKey(-5, testID)
	if id, key, ok := layout.ParseNoteKey(note); id != testID || string(key) != "k\x00" || !ok {
		t.Errorf("note: got %v, %q, %v", id, key, ok)
	}
	if look, id, err := layout.ParseWakeKey(wake); look != -5 || id != testID || err != nil {
		t.Errorf("wake: got %d, %v, %v", look, id, err)
	}
	for _, key := range [][]byte{nil, note[:len(note)-1], append(bytes.Clone(note), 0x14), layout.RecordKey(testID, layout.PartHead)} {
		if id, _, ok := layout.ParseNoteKey(key); ok {
			t.Errorf("%x: got a note of %v", key, id)
		}
		if _, id, err := layout.ParseWakeKey(key); err == nil {
			t.Errorf("%x: got a wake of %v", key, id)
		}
	}
	if start, end := layout.WakesUntil(-5); bytes.Compare(start, wake) > 0 || bytes.Compare(wake, end) >= 0 || bytes.Compare(end, layout.WakeKey(-4, testID)) > 0 {
		t.Errorf("the range until a time is [%x, %x)", start, end)
	}
}
