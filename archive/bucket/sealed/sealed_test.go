package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/archive/bucket/sealed"
)

const chunk = 64 << 10

// pair returns a new recipient and its identity, as text.
func pair(t testing.TB) (recipient, identity string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String(), id.String()
}

func parse(t testing.TB, recipients, identities string) *sealed.Keys {
	t.Helper()
	k, err := sealed.Parse(recipients, identities)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keys returns new keys that write and read.
func keys(t testing.TB) *sealed.Keys {
	t.Helper()
	recipient, identity := pair(t)
	return parse(t, recipient, identity)
}

func folder(t testing.TB) bucket.Bucket {
	t.Helper()
	b, err := bucket.Folder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put stores an object.
func put(t testing.TB, b bucket.Bucket, name string, data []byte) {
	t.Helper()
	if err := bucket.PutBytes(t.Context(), b, name, data, bucket.Replacing); err != nil {
		t.Fatalf("Put(%s): %v", name, err)
	}
}

// get returns all of an object.
func get(t testing.TB, b bucket.Bucket, name string) []byte {
	t.Helper()
	data, o, err := bucket.GetBytes(t.Context(), b, name, 0, -1)
	if err != nil || o.Size != int64(len(data)) {
		t.Fatalf("Get(%s): %d bytes, %+v, %v", name, len(data), o, err)
	}
	return data
}

// noise returns n bytes that are the same in each run.
func noise(n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{})
	for i := 0; i < n; i += 8 {
		v := r.Uint64()
		for j := i; j < min(n, i+8); j++ {
			data[j] = byte(v)
			v >>= 8
		}
	}
	return data
}

// sizes are those at which chunks begin and end.
var sizes = []int{0, 1, 100, chunk - 1, chunk, chunk + 1, 2*chunk - 1, 2 * chunk, 2*chunk + 1, 5*chunk + 77}

func TestBucket(t *testing.T) {
	k := keys(t)
	inner := folder(t)
	put(t, sealed.New(inner, k), "x", nil)
	header := int64(len(get(t, inner, "x"))) - 16 - 1 // without the name and the tag of the one chunk
	buckettest.RunStored(t, func(t *testing.T) bucket.Bucket { return sealed.New(folder(t), k) }, func(o bucket.Object) int64 {
		return header + int64(len(o.Name)) + o.Size + 16*max(1, (o.Size+chunk-1)/chunk)
	})
}

// TestAge tests that each stored object is a file of age, whose plain text is the object.
func TestAge(t *testing.T) {
	old, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	quantum, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		recipient string
		identity  age.Identity
	}{"X25519": {old.Recipient().String(), old}, "hybrid": {quantum.Recipient().String(), quantum}} {
		inner := folder(t)
		text := c.identity.(fmt.Stringer).String()
		b := sealed.New(inner, parse(t, c.recipient, text))
		for _, size := range sizes {
			data := noise(size)
			put(t, b, "a/b", data)
			plain, err := age.Decrypt(bytes.NewReader(get(t, inner, "a/b")), c.identity)
			if err != nil {
				t.Fatal(name, size, err)
			}
			if got, err := io.ReadAll(plain); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%s: age reads %d bytes of %d, %v", name, len(got), size, err)
			}
			if got := get(t, b, "a/b"); !bytes.Equal(got, data) {
				t.Fatalf("%s: Get reads %d bytes of %d", name, len(got), size)
			}
		}
	}
}

// TestRecipients tests that each identity of several recipients reads, and one of none of them doesn't.
func TestRecipients(t *testing.T) {
	var recipients, identities []string
	for range 40 { // their header is longer than one read
		r, id := pair(t)
		recipients, identities = append(recipients, r), append(identities, id)
	}
	inner, data := folder(t), noise(3*chunk)
	put(t, sealed.New(inner, parse(t, strings.Join(recipients, "\n"), "")), "a", data)
	for i, id := range identities {
		b := sealed.New(inner, parse(t, "", id))
		got, _, err := bucket.GetBytes(t.Context(), b, "a", chunk+5, 10)
		if err != nil || !bytes.Equal(got, data[chunk+5:][:10]) {
			t.Fatalf("identity %d: %q, %v", i, got, err)
		}
		if i%20 == 0 && !bytes.Equal(get(t, b, "a"), data) {
			t.Fatalf("identity %d reads something else", i)
		}
	}
	_, id := pair(t)
	if _, _, err := sealed.New(inner, parse(t, "", id)).Get(t.Context(), "a", 0, -1); !errors.Is(err, sealed.ErrOtherIdentity) || errors.Is(err, sealed.ErrCorrupt) {
		t.Errorf("Get with another identity: %v", err)
	}
}

// TestWriter tests what a bucket does without an identity, and without a recipient.
func TestWriter(t *testing.T) {
	recipient, identity := pair(t)
	inner := folder(t)
	writer, reader := sealed.New(inner, parse(t, recipient, "")), sealed.New(inner, parse(t, "", identity))
	put(t, writer, "log/1", []byte("one"))
	if err := bucket.PutBytes(t.Context(), writer, "log/1", nil, bucket.Once); !errors.Is(err, bucket.ErrExists) {
		t.Errorf("Put of an object that is there: %v", err)
	}
	if _, _, err := writer.Get(t.Context(), "log/1", 0, -1); !errors.Is(err, sealed.ErrNoIdentity) {
		t.Errorf("Get without an identity: %v", err)
	}
	if _, _, err := writer.Get(t.Context(), "log/2", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of no object, without an identity: %v", err)
	}
	if err := bucket.PutBytes(t.Context(), reader, "log/2", nil, bucket.Once); !errors.Is(err, sealed.ErrNoRecipient) {
		t.Errorf("Put without a recipient: %v", err)
	}
	if got := get(t, reader, "log/1"); string(got) != "one" {
		t.Errorf("the reader gets %q", got)
	}
	if err := writer.Delete(t.Context(), "log/1"); err != nil {
		t.Error(err)
	}
	if _, _, err := reader.Get(t.Context(), "log/1", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of no object: %v", err)
	}
}

// twice is a Bucket that reads a body several times at once, as a server does to which parts of it are sent, and sent again.
type twice struct {
	bucket.Bucket
	t testing.TB
}

func (b twice) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	all, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if int64(len(all)) != body.Size() {
		b.t.Errorf("a body of %d bytes has %d", body.Size(), len(all))
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk([]int64{0, 1, 150, 300, 5000, 70000, 131000, 200000}, 2) {
		wg.Go(func() {
			for _, offset := range part {
				for _, n := range []int{1, 16, 4096, 100000} {
					p := make([]byte, n)
					got, err := body.ReadAt(p, offset)
					want := all[min(offset, body.Size()):]
					want = want[:min(n, len(want))]
					if err != nil && err != io.EOF || !bytes.Equal(p[:got], want) {
						b.t.Errorf("%d bytes at %d: %d others, %v", n, offset, got, err)
					}
				}
			}
		})
	}
	wg.Wait()
	return b.Bucket.Put(ctx, name, body, how)
}

// TestAgain tests that the sealed form of a body is the same each time, at every offset.
func TestAgain(t *testing.T) {
	b := sealed.New(twice{folder(t), t}, keys(t))
	for _, size := range sizes {
		data := noise(size)
		put(t, b, "a", data)
		if !bytes.Equal(get(t, b, "a"), data) {
			t.Fatalf("of %d bytes others were stored", size)
		}
	}
}

// retrying is a Bucket whose first try to store an object fails at its end.
type retrying struct{ bucket.Bucket }

func (b retrying) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if _, err := io.Copy(io.Discard, io.NewSectionReader(body, 0, body.Size())); err != nil {
		return err
	}
	return b.Bucket.Put(ctx, name, body, how)
}

// changing is a body that is another one from the fourth read on.
type changing struct{ reads int }

func (c *changing) ReadAt(p []byte, _ int64) (int, error) {
	c.reads++
	for i := range p {
		p[i] = byte(c.reads / 4)
	}
	return len(p), nil
}

// TestChanges tests that no nonce is used for two texts.
func TestChanges(t *testing.T) {
	b := sealed.New(retrying{folder(t)}, keys(t))
	err := b.Put(t.Context(), "a", io.NewSectionReader(&changing{}, 0, 3*chunk), bucket.Once)
	if !errors.Is(err, sealed.ErrChanged) {
		t.Errorf("Put of a body that changes: %v", err)
	}
	if _, _, err := b.Get(t.Context(), "a", 0, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of what was not stored: %v", err)
	}
}

// zeros is a body of any length.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// sink is a Bucket that stores nothing.
type sink struct{ bucket.Bucket }

func (sink) Put(_ context.Context, _ string, body *io.SectionReader, _ bucket.How) error {
	_, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{body}, make([]byte, chunk))
	return err
}

// TestMemory tests that a Put has the same memory for every length, but for 16 bytes a chunk.
func TestMemory(t *testing.T) {
	b := sealed.New(sink{}, keys(t))
	const size = 64 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := b.Put(t.Context(), "a", io.NewSectionReader(zeros{}, 0, size), bucket.Once); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 512<<10 {
		t.Errorf("a Put of %d bytes allocates %d", size, got)
	}
}
