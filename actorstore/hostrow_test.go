package actorstore

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

var (
	testHost    = HostID{0: 0xab, 15: 0xcd}
	testHostRow = hostRow{
		Expires: 1_700_000_000_000, TTL: 10_000, Count: 258, Name: "pod", Machine: "m", PID: 7, Started: 9,
		Wanted: []ID{testID},
	}
	testOwner = owner{testHost, [8]byte{7: 5}}
)

// The bytes of the rows of leases, which must not change.
const (
	hostRowHex = "0100" + "0068e5cf8b010000" + "1027000000000000" + "0201000000000000" + "03706f64" + "016d" +
		"0700000000000000" + "0900000000000000" + "01" + "00112233445566778899aabbccddeeff" + "0700"
	ownerHex   = "0100" + "ab0000000000000000000000000000cd" + "0000000000000005"
	hostKeyHex = "02677265656e726f6f6d00" + "1501" + "1503" + "01ab00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ffcd00"
)

func TestHostRowsGolden(t *testing.T) {
	if got := testHostRow.append(nil); !bytes.Equal(got, unhex(t, hostRowHex)) {
		t.Errorf("host: got %x", got)
	}
	if got, err := parseHostRow(testHost, unhex(t, hostRowHex)); !reflect.DeepEqual(got, testHostRow) || err != nil {
		t.Errorf("host: got %+v, %v", got, err)
	}
	if got := testOwner.append(nil); !bytes.Equal(got, unhex(t, ownerHex)) {
		t.Errorf("owner: got %x", got)
	}
	if got, err := parseOwner(testID, unhex(t, ownerHex)); got != testOwner || err != nil {
		t.Errorf("owner: got %+v, %v", got, err)
	}
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

// TestHostRowsDamaged: cut short, too long, of no version or a newer one, and leases
// that nobody can have.
func TestHostRowsDamaged(t *testing.T) {
	for name, row := range map[string]struct {
		hex   string
		parse func([]byte) error
	}{
		"host":  {hostRowHex, func(b []byte) error { return second(parseHostRow(testHost, b)) }},
		"owner": {ownerHex, func(b []byte) error { return second(parseOwner(testID, b)) }},
	} {
		good := unhex(t, row.hex)
		for n := range good {
			if err := row.parse(good[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s of %d bytes: got %v, want %v", name, n, err, ErrCorrupt)
			}
		}
		if err := row.parse(append(bytes.Clone(good), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s with a byte more: got %v, want %v", name, err, ErrCorrupt)
		}
		bad := bytes.Clone(good)
		bad[0] = 0
		if err := row.parse(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s of version 0: got %v, want %v", name, err, ErrCorrupt)
		}
		bad[0] = 9
		if err := row.parse(bad); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("%s of version 9: got %v, want %v", name, err, ErrNewerFormat)
		}
	}
	for _, ttl := range []uint64{0, uint64(mostTTL.Milliseconds()) + 1, 1 << 63} {
		row := testHostRow
		row.TTL = ttl
		if _, err := parseHostRow(testHost, row.append(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a lease of %d ms: got %v, want %v", ttl, err, ErrCorrupt)
		}
	}
}

func FuzzHostRow(f *testing.F) {
	f.Add(unhex(f, hostRowHex))
	f.Add((&hostRow{TTL: 1}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := parseHostRow(testHost, b)
		if err != nil {
			return
		}
		again, err := parseHostRow(testHost, row.append(nil))
		if err != nil || !reflect.DeepEqual(again, row) {
			t.Errorf("%x: %+v comes back as %+v, %v", b, row, again, err)
		}
	})
}

func FuzzOwnerRow(f *testing.F) {
	f.Add(unhex(f, ownerHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOwner(testID, b)
		if err == nil && !bytes.Equal(o.append(nil), b) {
			t.Errorf("%x comes back as %x", b, o.append(nil))
		}
	})
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
