package keys_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

// pattern is n bytes of which no two pieces are alike.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i / 7 % 251)
	}
	return b
}

// TestChunked: values of any length come back, whatever was there before, and their
// pieces are of the length they should be.
func TestChunked(t *testing.T) {
	d := store()
	k := under{"u"}.image(1)
	must(t, keys.Put(d, under{"u"}.image(0), pattern(5)))
	must(t, keys.Put(d, under{"u"}.image(2), pattern(25_000)))
	around := len(d.rows(t))
	const size = keys.ChunkSize
	for _, n := range []int{3*size + 1, 0, 1, size - 1, size, size + 1, 2 * size, 30*size + 7, 2 * size, 0} {
		if n%2 == 0 { // also without anything before
			must(t, keys.Delete(d, k))
			if ok, err := keys.Exists(ctx, d, k); ok || err != nil {
				t.Fatalf("deleted: got %v, %v", ok, err)
			}
		}
		v := pattern(n)
		must(t, keys.Put(d, k, v))
		if got, err := keys.Get(ctx, d, k); !bytes.Equal(got, v) || err != nil {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
		if ok, err := keys.Exists(ctx, d, k); !ok || err != nil {
			t.Errorf("%d bytes: exists: %v, %v", n, ok, err)
		}
		if got, want := len(d.rows(t))-around, max(1, (n+size-1)/size); got != want {
			t.Errorf("%d bytes are %d pieces, want %d", n, got, want)
		}
		for _, reverse := range []bool{false, true} {
			found := false
			for item, err := range keys.All[imageKey](ctx, d, sub(), &keys.ScanOptions{Reverse: reverse}) {
				must(t, err)
				found = found || item.Key == k && bytes.Equal(item.Value, v)
			}
			if !found {
				t.Errorf("%d bytes: a scan with reverse %v doesn't find it", n, reverse)
			}
		}
	}
	if e, err := d.Get(ctx, pack(actor, data, "u", image, 2, 2), nil); len(e) != 25_000-2*keys.ChunkSize || err != nil {
		t.Errorf("piece 2 has %d bytes, %v", len(e), err)
	}
}

func TestChunkedDamaged(t *testing.T) {
	full, short := pattern(keys.ChunkSize), []byte("short")
	row := func(i any, v []byte) kv.Op { return kv.Set(pack(actor, data, "u", image, 1, i), v) }
	for name, c := range map[string]struct {
		ops  []kv.Op
		want string // both of Get and of scans, in both directions
	}{
		"hole":             {[]kv.Op{row(0, full), row(2, short)}, "piece 1 of the value is missing"},
		"first is missing": {[]kv.Op{row(1, full), row(2, short)}, "piece 0 of the value is missing"},
		"short piece":      {[]kv.Op{row(0, short), row(1, short)}, "piece 0 of the value has 5 bytes and is not the last"},
		"empty first":      {[]kv.Op{row(0, nil), row(1, short)}, "piece 0 of the value has 0 bytes and is not the last"},
		"empty last":       {[]kv.Op{row(0, full), row(1, nil)}, "piece 1 of the value is empty"},
		"long piece":       {[]kv.Op{row(0, pattern(ChunkAndMore))}, "piece 0 of the value has 10001 bytes"},
		"negative":         {[]kv.Op{row(-1, short)}, "piece -1 of the value can't be"},
	} {
		d := store(c.ops...)
		_, err := keys.Get(ctx, d, under{"u"}.image(1))
		errs := []error{err}
		for _, reverse := range []bool{false, true} {
			errs = append(errs, scanError(keys.All[imageKey](ctx, d, sub(), &keys.ScanOptions{Reverse: reverse})))
		}
		for i, err := range errs {
			if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), `(32, 4, "u", 23, 1): `+c.want) {
				t.Errorf("%s, way %d: got %v, want %s", name, i, err, c.want)
			}
		}
	}
	// What lies between the pieces and isn't one: Get owns what is behind the key.
	d := store(row(0, full), row("x", short))
	if _, err := keys.Get(ctx, d, under{"u"}.image(1)); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), `("x") behind it`) {
		t.Errorf("got %v", err)
	}
}

// TestChunkedOrder: an engine that yields pieces out of their order is found out.
func TestChunkedOrder(t *testing.T) {
	d := store()
	k := under{"u"}.image(1)
	must(t, keys.Put(d, k, pattern(3*keys.ChunkSize)))
	twisted := twister{d}
	_, err := keys.Get(ctx, twisted, k)
	if !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	for _, reverse := range []bool{false, true} {
		if err := scanError(keys.All[imageKey](ctx, twisted, sub(), &keys.ScanOptions{Reverse: reverse})); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("reverse %v: got %v", reverse, err)
		}
	}
}

// A twister swaps the last two entries of a scan, and yields the first one twice.
type twister struct{ kv.Reader }

func (tw twister) Scan(c context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		var all []kv.Entry
		for e, err := range tw.Reader.Scan(c, r) {
			if err != nil {
				yield(e, err)
				return
			}
			all = append(all, kv.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})
		}
		if n := len(all); n > 1 {
			all[n-1], all[n-2] = all[n-2], all[n-1]
			all = slices.Insert(all, 1, all[0])
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestChunkedMisuse: what chunked values can't do is said, and does nothing.
func TestChunkedMisuse(t *testing.T) {
	d := store()
	for name, err := range map[string]error{
		"mutate":  keys.Mutate(d, txn.MutationByteMax, under{"u"}.image(1), []byte("x")),
		"stamped": keys.Put(d, stampedImage{}, nil),
	} {
		if !errors.Is(err, keys.ErrMisuse) {
			t.Errorf("%s: got %v, want %v", name, err, keys.ErrMisuse)
		}
	}
	if rows := d.rows(t); len(rows) != 0 {
		t.Errorf("there are %q", rows)
	}
	for _, n := range []int{1, 3} { // no write of several may fail unnoticed
		d := &failing{direct: store(), in: n}
		if err := keys.Put(d, under{"u"}.image(1), pattern(3*keys.ChunkSize)); err != errFailing && !errors.Is(err, errFailing) {
			t.Errorf("write %d fails: got %v", n, err)
		}
	}
}

var errFailing = fmt.Errorf("failing")

// failing fails the write number in, and those behind it.
type failing struct {
	*direct
	in int
}

func (f *failing) Set(key, value []byte) error {
	if f.in--; f.in <= 0 {
		return errFailing
	}
	return f.direct.Set(key, value)
}

func (f *failing) ClearRange(start, end []byte) error {
	if f.in--; f.in <= 0 {
		return errFailing
	}
	return f.direct.ClearRange(start, end)
}

// A stampedImage would be a chunked value under a versionstamped key.
type stampedImage struct{ logKey }

func (k *stampedImage) Elements(e *keys.Elements) {
	at := tuple.IncompleteVersionstamp(0)
	e.Versionstamp(&at)
}
func (stampedImage) Value() keys.Codec[[]byte] { return keys.Chunked(keys.Bytes()) }
