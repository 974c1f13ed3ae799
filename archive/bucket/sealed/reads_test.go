package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/sealed"
)

// counting counts what is read of a Bucket.
type counting struct {
	bucket.Bucket
	gets, bytes, open int
	before            func(get int) // called before each Get, if it isn't nil
}

type countingReader struct {
	io.ReadCloser
	b *counting
}

func (b *counting) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	b.gets++
	if b.before != nil {
		b.before(b.gets)
	}
	in, o, err := b.Bucket.Get(ctx, name, offset, length)
	if err == nil {
		in = countingReader{in, b}
		b.open++
	}
	return in, o, err
}

func (r countingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.b.bytes += n
	return n, err
}

func (r countingReader) Close() error {
	r.b.open--
	return r.ReadCloser.Close()
}

// TestReads tests how much of a bucket a Get reads.
func TestReads(t *testing.T) {
	k := keys(t)
	const full = chunk + 16 // a full chunk as it is stored
	for _, c := range []struct {
		size, offset, length int
		gets, chunks         int // chunks are full ones that are read
		more                 int // bytes, besides them, at most
	}{
		{100, 0, -1, 1, 0, 1000},
		{100, 50, 10, 1, 0, 1000},
		{chunk, 0, -1, 1, 1, 1000},
		{chunk, 10, 10, 2, 1, 1000},
		{10 * chunk, 0, -1, 2, 11, 1000},           // the last chunk twice
		{10*chunk + 100, 0, -1, 2, 10, 1000},       // and here, too
		{10 * chunk, 3*chunk + 5, 7, 3, 2, 4096},   // one chunk, and the last
		{10 * chunk, 4*chunk - 5, 10, 3, 3, 4096},  // two, and the last
		{10 * chunk, 4 * chunk, chunk, 3, 2, 4096}, // one chunk, as a whole
		{10 * chunk, 0, chunk, 3, 2, 4096},         // the first
		{10 * chunk, 10*chunk - 3, 3, 2, 1, 4096},  // the last alone
		{10 * chunk, 10*chunk - 3, -1, 2, 1, 4096}, // the same
		{10 * chunk, 7 * chunk, -1, 3, 3, 4096},    // to the end: nothing twice
		{10*chunk + 100, 9*chunk + 5, -1, 3, 1, 4300},
		{10 * chunk, 11 * chunk, 5, 2, 1, 4096}, // behind the end
		{10 * chunk, 5, 0, 2, 1, 4096},          // nothing
	} {
		inner := &counting{Bucket: folder(t)}
		b := sealed.New(inner, k)
		data := noise(c.size)
		put(t, b, "a", data)
		want := data[min(c.offset, c.size):]
		if c.length >= 0 && c.length < len(want) {
			want = want[:c.length]
		}
		got, o, err := bucket.GetBytes(t.Context(), b, "a", int64(c.offset), int64(c.length))
		if err != nil || !bytes.Equal(got, want) || o.Size != int64(c.size) {
			t.Errorf("%+v: %d bytes, %+v, %v", c, len(got), o, err)
		}
		if min := c.chunks * full; inner.gets != c.gets || inner.bytes < min || inner.bytes > min+c.more || inner.open != 0 {
			t.Errorf("%+v: %d reads of %d bytes, %d left open", c, inner.gets, inner.bytes, inner.open)
		}
	}
}

// TestReplaced tests that a Get that another Put overtakes has all of one of the objects.
func TestReplaced(t *testing.T) {
	k := keys(t)
	for _, at := range []int{2, 3} {
		inner := &counting{Bucket: folder(t)}
		b := sealed.New(inner, k)
		put(t, b, "a", noise(4*chunk))
		inner.before = func(get int) {
			if get == at {
				put(t, b, "a", bytes.Repeat([]byte("new"), 2*chunk))
			}
		}
		got, o, err := bucket.GetBytes(t.Context(), b, "a", chunk, 3)
		if err != nil || o.Size != 6*chunk || string(got) != "wne" && string(got) != "ewn" && string(got) != "new" || inner.open != 0 {
			t.Errorf("replaced before read %d: %q, %+v, %v", at, got, o, err)
		}
	}
}

// failing is a Bucket whose reads fail after some bytes.
type failing struct {
	bucket.Bucket
	after int64
	err   error
}

func (b *failing) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	in, o, err := b.Bucket.Get(ctx, name, offset, length)
	if err != nil || b.err == nil {
		return in, o, err
	}
	type cut struct {
		io.Reader
		io.Closer
	}
	return cut{io.MultiReader(io.LimitReader(in, b.after), failure{b.err}), in}, o, nil
}

// failure is a reader that fails.
type failure struct{ err error }

func (f failure) Read([]byte) (int, error) { return 0, f.err }

// TestFailures tests that an error of the bucket stays what it is: nothing is said to be damaged.
func TestFailures(t *testing.T) {
	inner := &failing{Bucket: folder(t)}
	b := sealed.New(inner, keys(t))
	put(t, b, "a", noise(5*chunk))
	for _, lost := range []error{errors.New("the connection is lost"), io.ErrUnexpectedEOF} {
		for _, after := range []int64{0, 50, 1000, 4096, chunk + 4000, chunk + 8000, 3 * chunk} {
			inner.after, inner.err = after, lost
			if _, _, err := bucket.GetBytes(t.Context(), b, "a", 0, -1); !errors.Is(err, lost) || errors.Is(err, sealed.ErrCorrupt) {
				t.Errorf("after %d bytes: %v", after, err)
			}
		}
	}
}
