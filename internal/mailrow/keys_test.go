package mailrow_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

func TestLetterGolden(t *testing.T) {
	l := &mailrow.Letter{
		Number: 0x0102, From: mailrow.SenderOf(actorstore.ID{UUID: [16]byte{0: 0xaa, 15: 0xbb}, Label: 0x0304}),
		Nonce: [16]byte{0: 0xcc, 15: 0xdd}, To: "a/b", Name: "n", Body: []byte{0xf6}, Key: "k", Sent: 5, Delay: 6, Generation: 7, Existing: true,
	}
	zeros := strings.Repeat("\x00", 14)
	want := "\x02\x00\xaa" + zeros + "\xbb\x03\x04\xcc" + zeros + "\xdd\x03a/b\x01n\x01\xf6\x01k\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x01"
	if got := string(l.Append(nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	l.Priority, l.Debounce, l.DebounceMax = -3, "d", 9
	if got, want := string(l.Append(nil)), "\x03"+want[1:]+"\xfd\x01d\x09\x00\x00\x00\x00\x00\x00\x00"; got != want {
		t.Errorf("with a priority: got %q, want %q", got, want)
	}
	if got, want := string(mailrow.LetterKey(l.Number)), "ho\x00\x00\x00\x00\x00\x00\x01\x02"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := mailrow.Seen{l.Nonce, 7, 8}
	if got, want := string(s.Append(nil)), "\x01\x00\xcc"+zeros+"\xdd\x07\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(mailrow.SeenKey(l.From)), "hi\xaa"+zeros+"\xbb\x03\x04"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := mailrow.ParseAccount([]byte{9, 9}); !errors.Is(err, kv.ErrNewerFormat) {
		t.Errorf("got %v", err)
	}
}

// TestLetterVersions reads what every version has written. The newest one writes it, too.
func TestLetterVersions(t *testing.T) {
	b, err := os.ReadFile("testdata/letters.json")
	testkit.Must(t, err)
	var golden []struct{ Name, Hex string }
	testkit.Must(t, json.Unmarshal(b, &golden))
	l := mailrow.Letter{
		Number: 1, From: mailrow.Sender{0: 0xaa, 17: 4}, Nonce: [16]byte{0: 0xcc}, To: "a/b", Name: "n", Body: []byte{0xf6}, Key: "k", Sent: 5, Delay: 6,
	}
	l1, l2 := l, l
	l1.Generation = 1
	l2.Generation, l2.Existing = 7, true
	l3 := l2
	l3.Priority, l3.Debounce, l3.DebounceMax = -100, "d", 9
	a1 := mailrow.Account{Nonce: l.Nonce}
	a2 := mailrow.Account{Nonce: l.Nonce, Generation: 7, Debt: 1_500_000, At: 8}
	values := map[string]struct{ want, is, newest []byte }{}
	for _, g := range golden {
		value, err := hex.DecodeString(g.Hex)
		testkit.Must(t, err)
		v := values[g.Name]
		switch g.Name {
		case "letter 1", "letter 2", "letter 3":
			got, err := mailrow.ParseLetter(mailrow.LetterKey(1), value)
			testkit.Must(t, err)
			v.is, v.want = got.Append(nil), l1.Append(nil)
			switch g.Name {
			case "letter 2":
				v.want, v.newest = l2.Append(nil), value
			case "letter 3":
				v.want, v.newest = l3.Append(nil), value
			}
		case "account 1", "account 2":
			got, err := mailrow.ParseAccount(value)
			testkit.Must(t, err)
			v.is, v.want = got.Append(nil), a1.Append(nil)
			if g.Name == "account 2" {
				v.want, v.newest = a2.Append(nil), value
			}
		}
		values[g.Name] = v
	}
	if len(values) != 5 {
		t.Errorf("there are %d", len(values))
	}
	for name, v := range values {
		if string(v.is) != string(v.want) || v.newest != nil && string(v.newest) != string(v.want) {
			t.Errorf("%s: %x, want %x, stored %x", name, v.is, v.want, v.newest)
		}
	}
}

func FuzzLetter(f *testing.F) {
	l := &mailrow.Letter{To: "a/b", Name: "n", Body: []byte{0xf6}}
	f.Add(mailrow.LetterKey(1), l.Append(nil))
	l.Priority = 9
	f.Add(mailrow.LetterKey(1), l.Append(nil))
	f.Add(mailrow.LetterKey(1), mailrow.Seen{}.Append(nil))
	f.Add(mailrow.LetterKey(1), mailrow.Account{Nonce: [16]byte{1}}.Append(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		newest := len(value) > 0 && value[0] >= 2
		if l, err := mailrow.ParseLetter(key, value); err == nil && newest && (string(l.Append(nil)) != string(value) || string(mailrow.LetterKey(l.Number)) != string(key)) {
			t.Errorf("%x: %x is read as %+v", key, value, l)
		}
		if s, err := mailrow.ParseSeen(value); err == nil && string(s.Append(nil)) != string(value) {
			t.Errorf("%x is read as %+v", value, s)
		}
		if a, err := mailrow.ParseAccount(value); err == nil && newest && string(a.Append(nil)) != string(value) {
			t.Errorf("%x is read as %+v", value, a)
		}
	})
}
