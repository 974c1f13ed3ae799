// Package buckettest is the conformance suite of package bucket's Bucket.
package buckettest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// Run tests a Bucket. Each call of open returns one that is empty.
func Run(t *testing.T, open func(t *testing.T) bucket.Bucket) {
	RunStored(t, open, func(o bucket.Object) int64 { return o.Size })
}

// RunStored is Run for a Bucket that stores another form of its objects: stored returns the size of that, which List yields, for an
// object.
func RunStored(t *testing.T, open func(t *testing.T) bucket.Bucket, stored func(bucket.Object) int64) {
	for name, test := range map[string]func(*testing.T, bucket.Bucket){
		"Objects": objects, "Ranges": ranges, "Names": names, "Once": once, "Large": large,
		"List": func(t *testing.T, b bucket.Bucket) { list(t, b, stored) },
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// put stores an object.
func put(t *testing.T, b bucket.Bucket, name, data string) {
	t.Helper()
	if err := bucket.PutBytes(t.Context(), b, name, []byte(data), bucket.Replacing); err != nil {
		t.Fatalf("Put(%s): %v", name, err)
	}
}

// holds tests what an object is.
func holds(t *testing.T, b bucket.Bucket, name, want string) {
	t.Helper()
	data, o, err := bucket.GetBytes(t.Context(), b, name, 0, -1)
	if err != nil || string(data) != want || o.Size != int64(len(want)) || o.Name != name {
		t.Fatalf("Get(%s) = %.40q, %+v, %v; want %.40q", name, data, o, err, want)
	}
	if o.Modified.IsZero() {
		t.Fatalf("Get(%s) doesn't say when it was stored", name)
	}
}

func objects(t *testing.T, b bucket.Bucket) {
	if _, _, err := b.Get(t.Context(), "none", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Get of no object: %v", err)
	}
	put(t, b, "a", "one")
	holds(t, b, "a", "one")
	put(t, b, "a", "two, which is longer")
	holds(t, b, "a", "two, which is longer")
	put(t, b, "deep/er/empty", "")
	holds(t, b, "deep/er/empty", "")
	for range 2 {
		if err := b.Delete(t.Context(), "a"); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	if _, _, err := b.Get(t.Context(), "a", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Get of a deleted object: %v", err)
	}
}

func ranges(t *testing.T, b bucket.Bucket) {
	put(t, b, "a", "0123456789")
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, 3, "012"}, {4, 2, "45"}, {7, 3, "789"}, {7, 30, "789"}, {3, -1, "3456789"}, {9, 1, "9"}} {
		data, o, err := bucket.GetBytes(t.Context(), b, "a", c.offset, c.length)
		if err != nil || string(data) != c.want || o.Size != 10 {
			t.Errorf("Get(%d, %d) = %q, %+v, %v; want %q", c.offset, c.length, data, o, err, c.want)
		}
	}
}

// list tests List, with objects that consist of their names.
func list(t *testing.T, b bucket.Bucket, stored func(bucket.Object) int64) {
	var all []string
	for i := range 25 {
		for _, format := range []string{"log/%03d", "log/%03d-9", "log.2/%03d", "l%03d", "tables/%03d/x"} {
			all = append(all, fmt.Sprintf(format, i))
		}
	}
	for _, name := range all {
		put(t, b, name, name)
	}
	slices.Sort(all)
	for _, prefix := range []string{"", "l", "log", "log/", "log/00", "log/003", "tables/", "tables/004/x", "tables/004/xy", "none/at/all"} {
		var got, want []string
		for o, err := range b.List(t.Context(), prefix) {
			if err != nil {
				t.Fatalf("List(%q): %v", prefix, err)
			}
			if o.Size != stored(bucket.Object{Name: o.Name, Size: int64(len(o.Name))}) || o.Modified.IsZero() {
				t.Fatalf("List(%q) yields %+v", prefix, o)
			}
			got = append(got, o.Name)
		}
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, want %q", prefix, got, want)
		}
	}
	n := 0
	for range b.List(t.Context(), "") {
		if n++; n == 3 {
			break
		}
	}
}

func names(t *testing.T, b bucket.Bucket) {
	for _, name := range []string{"", "/", "a/", "/a", "a//b", "..", "a/../b", ".a", "a/.b", "a b", "ä", "a\x00", "a\\b", strings.Repeat("n", 513)} {
		err := bucket.PutBytes(t.Context(), b, name, nil, bucket.Once)
		_, _, gerr := b.Get(t.Context(), name, 0, -1)
		if derr := b.Delete(t.Context(), name); !errors.Is(err, bucket.ErrName) || !errors.Is(gerr, bucket.ErrName) || !errors.Is(derr, bucket.ErrName) {
			t.Errorf("name %q: %v, %v, %v", name, err, gerr, derr)
		}
	}
}

// once tests that of many that store an object which must not be there one does.
func once(t *testing.T, b bucket.Bucket) {
	var wg sync.WaitGroup
	var winner atomic.Value
	var won, refused atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			data := fmt.Sprint("writer ", i)
			err := bucket.PutBytes(t.Context(), b, "a/b", []byte(data), bucket.Once)
			switch {
			case err == nil:
				won.Add(1)
				winner.Store(data)
			case errors.Is(err, bucket.ErrExists):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || refused.Load() != 7 {
		t.Fatalf("%d writers stored it, %d were refused", won.Load(), refused.Load())
	}
	holds(t, b, "a/b", winner.Load().(string))
}

func large(t *testing.T, b bucket.Bucket) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	if err := bucket.PutBytes(t.Context(), b, "tables/large", data, bucket.Once); err != nil {
		t.Fatal(err)
	}
	in, o, err := b.Get(t.Context(), "tables/large", 5<<20+3, 7)
	if err != nil || o.Size != int64(len(data)) {
		t.Fatal(o, err)
	}
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, data[5<<20+3:][:7]) {
		t.Fatalf("%q, %v", got, err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
}
