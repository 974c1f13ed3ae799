package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
)

func TestLetterGolden(t *testing.T) {
	l := &letter{
		number: 0x0102, from: senderOf(actorstore.ID{UUID: [16]byte{0: 0xaa, 15: 0xbb}, Label: 0x0304}),
		nonce: [16]byte{0: 0xcc, 15: 0xdd}, to: "a/b", name: "n", body: Raw{0xf6}, key: "k", sent: 5, delay: 6,
	}
	zeros := strings.Repeat("\x00", 14)
	want := "\x01\x00\xaa" + zeros + "\xbb\x03\x04\xcc" + zeros + "\xdd\x03a/b\x01n\x01\xf6\x01k\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
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
	if _, err := parseNonce([]byte{9, 9}); !errors.Is(err, kv.ErrNewerFormat) {
		t.Errorf("got %v", err)
	}
}

func FuzzLetter(f *testing.F) {
	l := &letter{to: "a/b", name: "n", body: Raw{0xf6}}
	f.Add(letterKey(1), l.append(nil))
	f.Add(letterKey(1), seen{}.append(nil))
	f.Add(letterKey(1), appendNonce(nil, [16]byte{1}))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if l, err := parseLetter(key, value); err == nil && (string(l.append(nil)) != string(value) || string(letterKey(l.number)) != string(key)) {
			t.Errorf("%x: %x is read as %+v", key, value, l)
		}
		if s, err := parseSeen(value); err == nil && string(s.append(nil)) != string(value) {
			t.Errorf("%x is read as %+v", value, s)
		}
		if n, err := parseNonce(value); err == nil && string(appendNonce(nil, n)) != string(value) {
			t.Errorf("%x is read as %x", value, n)
		}
	})
}
