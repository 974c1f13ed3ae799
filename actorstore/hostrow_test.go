package actorstore

import (
	"bytes"
	"testing"
)

var testHost = HostID{0: 0xab, 15: 0xcd}

const hostKeyHex = "02677265656e726f6f6d00" + "1501" + "1503" + "01ab00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ffcd00"

func TestHostKeyGolden(t *testing.T) {
	if got := hostKey(testHost); !bytes.Equal(got, unhex(t, hostKeyHex)) {
		t.Errorf("key: got %x", got)
	}
	if got, ok := parseHostKey(unhex(t, hostKeyHex)); got != testHost || !ok {
		t.Errorf("key: got %v, %v", got, ok)
	}
	for _, key := range [][]byte{nil, appendRow(nil, rowHost), append(hostKey(testHost), 0x14), nameKey("n")} {
		if got, ok := parseHostKey(key); ok {
			t.Errorf("%x: got %v", key, got)
		}
	}
}

func FuzzHostKey(f *testing.F) {
	f.Add(unhex(f, hostKeyHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		// What stands before the id is looked at by who reads the range.
		if id, ok := parseHostKey(b); ok && !bytes.HasSuffix(hostKey(id), b[len(appendRow(nil, rowHost)):]) {
			t.Errorf("%x is read as %s", b, id)
		}
	})
}
