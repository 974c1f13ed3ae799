package actorstore_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

func TestDescribe(t *testing.T) {
	tests := []struct{ hex, want string }{
		{"01", "persist"},
		{"0100", "unknown/0100"},
		{"026331", "connections/c1"},
		{"02c3a9", "connections/é"},
		{"02", `connections/""`},
		{"03", "inspector"},
		{"046772656574696e67", "user/greeting"},
		{"04", `user/""`},
		{"04610062", `user/"a\x00b"`},
		{"0400ff", `user/"\x00\xff"`},
		{"046120622022", `user/"a b \""`},
		{"04612f62", "user/a/b"},
		{"050000000100000000", "queue/messages/4294967296"},
		{"05ffffffffffffffff", "queue/messages/18446744073709551615"},
		{"0500", "unknown/0500"},
		{"06", "queue/metadata"},
		{"07150117010000", "workflow/names/65536"},
		{"07150214", "workflow/history/0"},
		{"071502141502", "workflow/history/0/2"},
		{"071502150205150214001503", "workflow/history/2/2~0/3"},
		{"0715021405150215050015" + "03", "workflow/history/0/2~5/3"},
		{"0715031501", "workflow/fields/state"},
		{"0715031502", "workflow/fields/output"},
		{"0715031503", "workflow/fields/error"},
		{"0715031504", "workflow/fields/version"},
		{"0715031505", "workflow/fields/input"},
		{"0715031506", "workflow/fields/waits"},
		{"0715031507", "unknown/0715031507"},
		{"07150314", "unknown/07150314"},
		{"0715040230303030303030302d303030302d343030302d383030302d30303030303030303030303000", "workflow/entries/00000000-0000-4000-8000-000000000000"},
		{"0715040200", `workflow/entries/""`},
		{"071501", "unknown/071501"},
		{"0715011600ff", "unknown/0715011600ff"}, // 255 in a longer form
		{"07150113fe", "unknown/07150113fe"},     // −1
		{"0815011865540a0016" + "0100", "traces/1700006400/256"},
		{"081501", "unknown/081501"},
		{"090000", "sqlite/metadata/main"},
		{"090003", "sqlite/metadata/shm"},
		{"09010000000011", "sqlite/chunks/main/17"},
		{"090102ffffffff", "sqlite/chunks/wal/4294967295"},
		{"09006d792e6462", "sqlite/named/metadata/my.db"},
		{"09016d792e6462" + "00" + "00000100", "sqlite/named/chunks/my.db/256"},
		{"090004", `sqlite/named/metadata/"\x04"`},
		{"0901", "unknown/0901"},
		{"09", "unknown/09"},
		{"0902", "unknown/0902"},
		{"090100", "unknown/090100"},
		{"6873", "host/nonce"},
		{"686f0000000100000000", "host/out/4294967296"},
		{"68630000000100000000" + "6b2d31", "host/calls/4294967296/k-1"},
		{"68630000000100000000" + "6b2f2031", `host/calls/4294967296/"k/ 1"`},
		{"68720000000100000000" + "6b", "host/results/4294967296/k"},
		{"68630000000100000000", "unknown/68630000000100000000"},
		{"6869000102030405060708090a0b0c0d0e0fffff", "host/in/000102030405060708090a0b0c0d0e0fffff"},
		{"68690001", "unknown/68690001"},
		{"6865", "rivetkit/engine"},
		{"6868", "rivetkit/head"},
		{"686d", "host/import"},
		{"68670001020304050607", "unknown/68670001020304050607"},
		{"686700010203040506070000000000000102", "host/sockets/0001020304050607/258"},
		{"686f00", "unknown/686f00"},
		{"68", "unknown/68"},
		{"0a", "unknown/0a"},
		{"", "unknown/"},
	}
	for _, tt := range tests {
		if got := actorstore.Describe(testkit.Unhex(t, tt.hex)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.hex, got, tt.want)
		}
	}
}

// TestDescribeVectors: every golden key has words of its own. Prefixes of keys are
// none, and have no words.
func TestDescribeVectors(t *testing.T) {
	seen := map[string]string{}
	for _, v := range testkit.Vectors(t, "keys.json") {
		key := v.Bytes(t)
		got := actorstore.Describe(key)
		prefix := strings.Contains(v.Schema, "prefix") || strings.Contains(v.Schema, "range") || v.Name == "queue messages prefix"
		// The first two elements of a longer location are a location too.
		if unknown := strings.HasPrefix(got, "unknown/"); unknown != prefix && !strings.HasPrefix(v.Name, "loop iteration") {
			t.Errorf("%s: got %s", v.Name, got)
		}
		if other, ok := seen[got]; ok && other != v.Hex {
			t.Errorf("%s is both %s and %s", got, other, v.Hex)
		}
		seen[got] = v.Hex
	}
}

// FuzzDescribe: no key makes Describe panic, and no two keys have the same words.
func FuzzDescribe(f *testing.F) {
	for _, v := range testkit.Vectors(f, "keys.json") {
		f.Add(v.Bytes(f), []byte{})
	}
	f.Add([]byte("\x09\x01a/1\x00\x00\x00\x00\x02"), []byte("\x09\x01a\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x04\xff"), []byte("\x04\\xff"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := actorstore.Describe(a), actorstore.Describe(b)
		if x == y && !bytes.Equal(a, b) {
			t.Errorf("%x and %x are both %s", a, b, x)
		}
		if strings.ContainsAny(x, "\x00\n\t") {
			t.Errorf("%x has control characters in its words %q", a, x)
		}
	})
}
