package host

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
)

func TestLetterGolden(t *testing.T) {
	l := &letter{
		number: 0x0102, from: senderOf(actorstore.ID{UUID: [16]byte{0: 0xaa, 15: 0xbb}, Label: 0x0304}),
		nonce: [16]byte{0: 0xcc, 15: 0xdd}, to: "a/b", name: "n", body: Raw{0xf6}, key: "k", sent: 5, delay: 6, generation: 7, existing: true,
	}
	zeros := strings.Repeat("\x00", 14)
	want := "\x02\x00\xaa" + zeros + "\xbb\x03\x04\xcc" + zeros + "\xdd\x03a/b\x01n\x01\xf6\x01k\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x01"
	if got := string(l.append(nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(letterKey(l.number)), "ho\x00\x00\x00\x00\x00\x00\x01\x02"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := seen{l.nonce, 7, 8}
	if got, want := string(s.append(nil)), "\x01\x00\xcc"+zeros+"\xdd\x07\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(seenKey(l.from)), "hi\xaa"+zeros+"\xbb\x03\x04"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := parseAccount([]byte{9, 9}); !errors.Is(err, kv.ErrNewerFormat) {
		t.Errorf("got %v", err)
	}
}

// TestLetterVersions reads what every version has written. The newest one writes it, too.
func TestLetterVersions(t *testing.T) {
	b, err := os.ReadFile("testdata/letters.json")
	must(t, err)
	var golden []struct{ Name, Hex string }
	must(t, json.Unmarshal(b, &golden))
	l := letter{
		number: 1, from: sender{0: 0xaa, 17: 4}, nonce: [16]byte{0: 0xcc}, to: "a/b", name: "n", body: Raw{0xf6}, key: "k", sent: 5, delay: 6,
	}
	l1, l2 := l, l
	l1.generation = 1
	l2.generation, l2.existing = 7, true
	a1 := account{nonce: l.nonce}
	a2 := account{nonce: l.nonce, generation: 7, debt: 1_500_000, at: 8}
	values := map[string]struct{ want, is, newest []byte }{}
	for _, g := range golden {
		value, err := hex.DecodeString(g.Hex)
		must(t, err)
		v := values[g.Name]
		switch g.Name {
		case "letter 1", "letter 2":
			got, err := parseLetter(letterKey(1), value)
			must(t, err)
			v.is, v.want = got.append(nil), l1.append(nil)
			if g.Name == "letter 2" {
				v.want, v.newest = l2.append(nil), value
			}
		case "account 1", "account 2":
			got, err := parseAccount(value)
			must(t, err)
			v.is, v.want = got.append(nil), a1.append(nil)
			if g.Name == "account 2" {
				v.want, v.newest = a2.append(nil), value
			}
		}
		values[g.Name] = v
	}
	if len(values) != 4 {
		t.Errorf("there are %d", len(values))
	}
	for name, v := range values {
		if string(v.is) != string(v.want) || v.newest != nil && string(v.newest) != string(v.want) {
			t.Errorf("%s: %x, want %x, stored %x", name, v.is, v.want, v.newest)
		}
	}
}

func FuzzLetter(f *testing.F) {
	l := &letter{to: "a/b", name: "n", body: Raw{0xf6}}
	f.Add(letterKey(1), l.append(nil))
	f.Add(letterKey(1), seen{}.append(nil))
	f.Add(letterKey(1), account{nonce: [16]byte{1}}.append(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		newest := len(value) > 0 && value[0] == letterVersion
		if l, err := parseLetter(key, value); err == nil && newest && (string(l.append(nil)) != string(value) || string(letterKey(l.number)) != string(key)) {
			t.Errorf("%x: %x is read as %+v", key, value, l)
		}
		if s, err := parseSeen(value); err == nil && string(s.append(nil)) != string(value) {
			t.Errorf("%x is read as %+v", value, s)
		}
		if a, err := parseAccount(value); err == nil && newest && string(a.append(nil)) != string(value) {
			t.Errorf("%x is read as %+v", value, a)
		}
	})
}
