package layout_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

var (
	testHost    = [16]byte{0: 0xab, 15: 0xcd}
	testHostRow = layout.Host{
		Expires: 1_700_000_000_000, TTL: 10_000, Count: 258, Name: "pod", Machine: "m", PID: 7, Started: 9,
		Wanted: []layout.ID{testID},
	}
	testOwner = layout.Owner{Host: testHost, Nonce: [8]byte{7: 5}}
)

// The bytes of the rows of leases, which must not change.
const (
	hostRowHex = "0100" + "0068e5cf8b010000" + "1027000000000000" + "0201000000000000" + "03706f64" + "016d" +
		"0700000000000000" + "0900000000000000" + "01" + "00112233445566778899aabbccddeeff" + "0700"
	hostAddressHex = "0200" + "0068e5cf8b010000" + "1027000000000000" + "0201000000000000" + "03706f64" + "016d" +
		"0700000000000000" + "0900000000000000" + "01" + "00112233445566778899aabbccddeeff" + "0700" + "0c" + "706f642e6c616e3a36343231"
	hostOfferHex = "0300" + "0068e5cf8b010000" + "1027000000000000" + "0201000000000000" + "03706f64" + "016d" +
		"0700000000000000" + "0900000000000000" + "01" + "00112233445566778899aabbccddeeff" + "0700" + "0c" + "706f642e6c616e3a36343231" + "0b" + "706f642e6c616e3a363432" + "01" + "02" + "01" + "61" + "00" + "02" + "6162" + "ac02"
	ownerHex = "0100" + "ab0000000000000000000000000000cd" + "0000000000000005"
)

func TestHostRowsGolden(t *testing.T) {
	if got := testHostRow.Append(nil); !bytes.Equal(got, testkit.Unhex(t, hostRowHex)) {
		t.Errorf("host: got %x", got)
	}
	if got, err := layout.ParseHost(testHost, testkit.Unhex(t, hostRowHex)); !reflect.DeepEqual(got, testHostRow) || err != nil {
		t.Errorf("host: got %+v, %v", got, err)
	}
	told := testHostRow
	told.Address = "pod.lan:6421"
	if got := told.Append(nil); !bytes.Equal(got, testkit.Unhex(t, hostAddressHex)) {
		t.Errorf("host with an address: got %x", got)
	}
	if got, err := layout.ParseHost(testHost, testkit.Unhex(t, hostAddressHex)); !reflect.DeepEqual(got, told) || err != nil {
		t.Errorf("host with an address: got %+v, %v", got, err)
	}
	told.Offer = layout.Offer{Address: "pod.lan:642", Leaving: true, Types: []layout.OfferedType{{Name: "a"}, {Name: "ab", Schema: 300}}}
	if got := told.Append(nil); !bytes.Equal(got, testkit.Unhex(t, hostOfferHex)) {
		t.Errorf("host with an offer: got %x", got)
	}
	if got, err := layout.ParseHost(testHost, testkit.Unhex(t, hostOfferHex)); !reflect.DeepEqual(got, told) || err != nil {
		t.Errorf("host with an offer: got %+v, %v", got, err)
	}
	if got := testOwner.Append(nil); !bytes.Equal(got, testkit.Unhex(t, ownerHex)) {
		t.Errorf("owner: got %x", got)
	}
	if got, err := layout.ParseOwner(testID, testkit.Unhex(t, ownerHex)); got != testOwner || err != nil {
		t.Errorf("owner: got %+v, %v", got, err)
	}
}

// TestHostRowsDamaged: cut short, too long, of no version or a newer one, and leases
// that no host can have.
func TestHostRowsDamaged(t *testing.T) {
	for name, row := range map[string]struct {
		hex   string
		parse func([]byte) error
	}{
		"host":                 {hostRowHex, func(b []byte) error { return testkit.Second(layout.ParseHost(testHost, b)) }},
		"host with an address": {hostAddressHex, func(b []byte) error { return testkit.Second(layout.ParseHost(testHost, b)) }},
		"host with an offer":   {hostOfferHex, func(b []byte) error { return testkit.Second(layout.ParseHost(testHost, b)) }},
		"owner":                {ownerHex, func(b []byte) error { return testkit.Second(layout.ParseOwner(testID, b)) }},
	} {
		good := testkit.Unhex(t, row.hex)
		for n := range good {
			if err := row.parse(good[:n]); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("%s of %d bytes: got %v, want %v", name, n, err, kv.ErrCorrupt)
			}
		}
		if err := row.parse(append(bytes.Clone(good), 0)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s with a byte more: got %v, want %v", name, err, kv.ErrCorrupt)
		}
		bad := bytes.Clone(good)
		bad[0] = 0
		if err := row.parse(bad); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s of version 0: got %v, want %v", name, err, kv.ErrCorrupt)
		}
		bad[0] = 9
		if err := row.parse(bad); !errors.Is(err, kv.ErrNewerFormat) {
			t.Errorf("%s of version 9: got %v, want %v", name, err, kv.ErrNewerFormat)
		}
	}
	for _, ttl := range []uint64{0, uint64(layout.MaxTTL.Milliseconds()) + 1, 1 << 63} {
		row := testHostRow
		row.TTL = ttl
		if _, err := layout.ParseHost(testHost, row.Append(nil)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("a lease of %d ms: got %v, want %v", ttl, err, kv.ErrCorrupt)
		}
	}
}

// TestHostAddress: an address is one that others can dial, whether it comes from a program or from a row.
func TestHostAddress(t *testing.T) {
	for _, good := range []string{
		"127.0.0.1:6421", "[2001:db8::1]:1", "shop_1.lan:65535", "https://shop.lan:443", strings.Repeat("a", layout.MaxAddress-2) + ":1",
	} {
		row := layout.Host{TTL: 1, Announcement: layout.Announcement{Address: good}}
		got, err := layout.ParseHost(testHost, row.Append(nil))
		if err := errors.Join(err, layout.CheckAddress(good)); err != nil || got.Address != good {
			t.Errorf("%s: got %q, %v", good, got.Address, err)
		}
	}
	for _, bad := range []string{
		"6421", "shop", ":6421", "shop:", "shop:0", "shop:65536", "shop:http", "http://shop:80", "https://:443", "shop:1/path", "user@shop:1", "sh op:1",
		"shop\n:1", "shöp:1", strings.Repeat("a", layout.MaxAddress-1) + ":1",
	} {
		row := layout.Host{TTL: 1, Announcement: layout.Announcement{Address: bad}}
		if err := layout.CheckAddress(bad); err == nil {
			t.Errorf("%q is an address", bad)
		}
		if _, err := layout.ParseHost(testHost, row.Append(nil)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%q in a row: got %v, want %v", bad, err, kv.ErrCorrupt)
		}
	}
	// A row of the newer version has one.
	row := testkit.Unhex(t, hostRowHex)
	row[0] = 2
	if _, err := layout.ParseHost(testHost, append(row, 0)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("version 2 without an address: got %v, want %v", err, kv.ErrCorrupt)
	}
}

// TestHostOffer: an offer that no host makes isn't read, and isn't written.
func TestHostOffer(t *testing.T) {
	many := make([]layout.OfferedType, layout.MaxTypes+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("%04d", i)
	}
	for what, bad := range map[string]layout.Offer{
		"an address": {Address: "pod"}, "no name": {Types: []layout.OfferedType{{}}},
		"a long name": {Types: []layout.OfferedType{{Name: strings.Repeat("a", layout.MaxTypeName+1)}}},
		"twice":       {Types: []layout.OfferedType{{Name: "a"}, {Name: "a"}}},
		"the order":   {Types: []layout.OfferedType{{Name: "b"}, {Name: "a"}}}, "too many": {Types: many},
	} {
		row := layout.Host{TTL: 1, Announcement: layout.Announcement{Offer: bad}}
		if err := bad.Check(); err == nil {
			t.Errorf("%s is an offer", what)
		}
		if _, err := layout.ParseHost(testHost, row.Append(nil)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", what, err, kv.ErrCorrupt)
		}
	}
	// A row of the newest version has one.
	row := testkit.Unhex(t, hostAddressHex)
	row[0] = 3
	if _, err := layout.ParseHost(testHost, append(row, 0, 0, 0)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("version 3 without an offer: got %v, want %v", err, kv.ErrCorrupt)
	}
}

func FuzzHostRow(f *testing.F) {
	f.Add(testkit.Unhex(f, hostRowHex))
	f.Add(testkit.Unhex(f, hostAddressHex))
	f.Add(testkit.Unhex(f, hostOfferHex))
	f.Add((&layout.Host{TTL: 1}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := layout.ParseHost(testHost, b)
		if err != nil {
			return
		}
		again, err := layout.ParseHost(testHost, row.Append(nil))
		if err != nil || !reflect.DeepEqual(again, row) {
			t.Errorf("%x: %+v comes back as %+v, %v", b, row, again, err)
		}
	})
}

func FuzzOwnerRow(f *testing.F) {
	f.Add(testkit.Unhex(f, ownerHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := layout.ParseOwner(testID, b)
		if err == nil && !bytes.Equal(o.Append(nil), b) {
			t.Errorf("%x comes back as %x", b, o.Append(nil))
		}
	})
}
