package sealed_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/sealed"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// stored returns a bucket, the one that it stands on, and what that has of a new object.
func stored(t testing.TB, name string, data []byte) (b, inner bucket.Bucket, bytes []byte) {
	t.Helper()
	inner = folder(t)
	b = sealed.New(inner, keys(t))
	put(t, b, name, data)
	return b, inner, get(t, inner, name)
}

// mustBeCorrupt tests that a Get, or its reader, says that the object is damaged, and that what it returns before is right.
func mustBeCorrupt(t testing.TB, b bucket.Bucket, name string, plain []byte, offset, length int64) {
	t.Helper()
	data, _, err := bucket.GetBytes(t.Context(), b, name, offset, length)
	if !errors.Is(err, sealed.ErrCorrupt) || errkind.Code(err) != "corrupt" || !strings.Contains(err.Error(), name) {
		t.Fatalf("Get(%s, %d, %d): %d bytes, %v", name, offset, length, len(data), err)
	}
	if !bytes.HasPrefix(plain[min(offset, int64(len(plain))):], data) {
		t.Fatalf("Get(%s, %d, %d) returns bytes that weren't stored", name, offset, length)
	}
}

// TestDamage changes a bit of each byte of a small object, which is never read as something else.
func TestDamage(t *testing.T) {
	plain := []byte("what was committed")
	b, inner, whole := stored(t, "log/1", plain)
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		put(t, inner, "log/1", bad)
		mustBeCorrupt(t, b, "log/1", plain, 0, -1)
	}
}

// TestDamagedChunks changes one byte of each chunk. The chunks before it, and ranges beside it, are read.
func TestDamagedChunks(t *testing.T) {
	plain := noise(4*chunk + 100)
	b, inner, whole := stored(t, "log/1", plain)
	header := len(whole) - len(plain) - 5*16
	for c := range 5 {
		bad := bytes.Clone(whole)
		bad[header+c*(chunk+16)+50] ^= 1
		put(t, inner, "log/1", bad)
		mustBeCorrupt(t, b, "log/1", plain, 0, -1)
		mustBeCorrupt(t, b, "log/1", plain, int64(c)*chunk+10, 3)
		if c == 4 {
			continue // the size isn't proved
		}
		mustBeCorrupt(t, b, "log/1", plain, int64(c)*chunk, -1)
		other := int64(c+1) % 4 * chunk
		if got, _, err := bucket.GetBytes(t.Context(), b, "log/1", other, chunk); err != nil || !bytes.Equal(got, plain[other:][:chunk]) {
			t.Errorf("a range beside the damaged chunk %d: %d bytes, %v", c, len(got), err)
		}
		in, _, err := b.Get(t.Context(), "log/1", 0, -1)
		if c == 0 {
			continue // Get has said it
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if !errors.Is(err, sealed.ErrCorrupt) || len(got) != c*chunk {
			t.Errorf("of an object whose chunk %d is damaged: %d bytes, %v", c, len(got), err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCut tests objects that end early, or late: at every byte of a small one, and where the chunks of a large one begin.
func TestCut(t *testing.T) {
	plain := []byte("what was committed")
	b, inner, whole := stored(t, "log/1", plain)
	for n := range whole {
		put(t, inner, "log/1", whole[:n])
		mustBeCorrupt(t, b, "log/1", plain, 0, -1)
	}
	put(t, inner, "log/1", append(bytes.Clone(whole), 'x'))
	mustBeCorrupt(t, b, "log/1", plain, 0, -1)

	plain = noise(4 * chunk)
	b, inner, whole = stored(t, "log/1", plain)
	header := len(whole) - len(plain) - 4*16
	for c := range 4 {
		for _, more := range []int{-1, 0, 1, 16, 17, 1000} {
			put(t, inner, "log/1", whole[:header+c*(chunk+16)+more])
			mustBeCorrupt(t, b, "log/1", plain, 0, -1)
			mustBeCorrupt(t, b, "log/1", plain, 0, 5)
			mustBeCorrupt(t, b, "log/1", plain, 2*chunk, 5)
		}
	}
	put(t, inner, "log/1", slices.Concat(whole, whole[header:][:chunk+16]))
	mustBeCorrupt(t, b, "log/1", plain, 0, 5)
}

// TestSwapped tests chunks and objects that are in the place of others.
func TestSwapped(t *testing.T) {
	plain := noise(3 * chunk)
	b, inner, whole := stored(t, "log/1", plain)
	put(t, b, "log/2", plain)
	put(t, inner, "log/3", whole)
	mustBeCorrupt(t, b, "log/3", plain, 0, -1)
	mustBeCorrupt(t, b, "log/3", plain, 5, 1)
	if _, _, err := b.Get(t.Context(), "log/3", 0, -1); !strings.Contains(err.Error(), `"log/1"`) {
		t.Errorf("the error doesn't say whose bytes they are: %v", err)
	}
	// The name in the header is the other one, and the MAC isn't.
	put(t, inner, "log/3", bytes.Replace(whole, []byte("log/1"), []byte("log/3"), 1))
	mustBeCorrupt(t, b, "log/3", plain, 0, -1)

	header := len(whole) - len(plain) - 3*16
	const full = chunk + 16
	put(t, inner, "log/1", slices.Concat(whole[:header], whole[header+full:][:full], whole[header:][:full], whole[header+2*full:]))
	mustBeCorrupt(t, b, "log/1", plain, 0, -1)
	mustBeCorrupt(t, b, "log/1", plain, 5, 5)
	other := get(t, inner, "log/2")
	put(t, inner, "log/1", slices.Concat(whole[:header], other[header:]))
	mustBeCorrupt(t, b, "log/1", plain, 5, 5)
}

// TestForeign tests what isn't a sealed object.
func TestForeign(t *testing.T) {
	recipient, identity := pair(t)
	inner := folder(t)
	b := sealed.New(inner, parse(t, recipient, identity))
	r, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := age.Encrypt(&file, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{nil, []byte("x"), []byte("age-encryption.org/v1\n"), []byte("-----BEGIN AGE ENCRYPTED FILE-----\n"), noise(100), noise(3 * chunk), file.Bytes()} {
		put(t, inner, "log/1", data)
		mustBeCorrupt(t, b, "log/1", nil, 0, -1)
		mustBeCorrupt(t, b, "log/1", nil, 5, 5)
	}
	// The error has nothing of what is in it.
	put(t, inner, "log/1", []byte("a secret\n"))
	if _, _, err := b.Get(t.Context(), "log/1", 0, -1); strings.Contains(err.Error(), "secret") {
		t.Errorf("the error quotes the object: %v", err)
	}
}

// TestOtherIdentity tests that an object that is damaged, and for other recipients, is not said to be whole.
func TestOtherIdentity(t *testing.T) {
	_, inner, whole := stored(t, "log/1", []byte("one"))
	b := sealed.New(inner, keys(t))
	if _, _, err := b.Get(t.Context(), "log/1", 0, -1); !errors.Is(err, sealed.ErrOtherIdentity) || errors.Is(err, errkind.ErrCorrupt) {
		t.Errorf("with another identity: %v", err)
	}
	for _, part := range []string{"X25519 ", "object log", "v1\n-> "} {
		bad := bytes.Clone(whole)
		bad[bytes.Index(bad, []byte(part))+len(part)+3] ^= 2
		put(t, inner, "log/1", bad)
		mustBeCorrupt(t, b, "log/1", nil, 0, -1)
	}
}

// FuzzDamage changes, cuts, moves and repeats bytes of a sealed object: Get notices it, or returns what was stored.
func FuzzDamage(f *testing.F) {
	plain := noise(2*chunk + 100)
	b, inner, whole := stored(f, "log/1", plain)
	f.Add(uint32(0), byte(0), uint32(0), uint32(0), uint32(0), uint32(10), uint32(20))
	f.Add(uint32(300), byte(1), uint32(0), uint32(0), uint32(0), uint32(0), uint32(1<<20))
	f.Add(uint32(0), byte(0), uint32(20), uint32(20), uint32(1), uint32(chunk), uint32(5))
	f.Add(uint32(chunk), byte(7), uint32(40), uint32(400), uint32(chunk), uint32(2*chunk), uint32(200))
	f.Fuzz(func(t *testing.T, at uint32, mask byte, from, to, n, offset, length uint32) {
		bad := bytes.Clone(whole)
		bad[int(at)%len(bad)] ^= mask
		i, j := int(from)%len(bad), int(to)%len(bad)
		bad = slices.Concat(bad[:j], bad[i:][:min(int(n), len(bad)-i)], bad[min(len(bad), j+int(n)):])
		put(t, inner, "log/1", bad)
		got, o, err := bucket.GetBytes(t.Context(), b, "log/1", int64(offset), int64(length))
		want := plain[min(int(offset), len(plain)):]
		want = want[:min(int(length), len(want))]
		switch {
		case err == nil && (!bytes.Equal(got, want) || o.Size != int64(len(plain))):
			t.Errorf("%d bytes that weren't stored, %+v", len(got), o)
		case err != nil && (!errors.Is(err, sealed.ErrCorrupt) || !bytes.HasPrefix(want, got) || bytes.Equal(bad, whole)):
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// TestGolden tests that an object is read that an earlier version stored.
func TestGolden(t *testing.T) {
	identity, err := os.ReadFile("testdata/identity.txt")
	if err != nil {
		t.Fatal(err)
	}
	object, err := os.ReadFile("testdata/log-1.age")
	if err != nil {
		t.Fatal(err)
	}
	inner := folder(t)
	put(t, inner, "log/1", object)
	if got := get(t, sealed.New(inner, parse(t, "", string(identity))), "log/1"); string(got) != "what was committed" {
		t.Errorf("it reads %q", got)
	}
	if _, _, err := sealed.New(inner, keys(t)).Get(t.Context(), "log/1", 0, -1); !errors.Is(err, sealed.ErrOtherIdentity) {
		t.Errorf("with another identity: %v", err)
	}
}
