package kv_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

func TestCodecs(t *testing.T) {
	for _, v := range []struct {
		v   int64
		hex string
	}{{0, "0000000000000000"}, {1, "0000000000000001"}, {-2, "fffffffffffffffe"}, {math.MinInt64, "8000000000000000"}} {
		golden(t, kv.Int64(), v.v, v.hex)
	}
	golden(t, kv.Uint64(), math.MaxUint64, "ffffffffffffffff")
	golden(t, kv.Uint64(), 258, "0000000000000102")
	golden(t, kv.Counter(), 258, "0201000000000000")
	golden(t, kv.Counter(), -1, "ffffffffffffffff")
	golden(t, kv.Bool(), true, "01")
	golden(t, kv.Bool(), false, "00")
	golden(t, kv.String(), "", "")
	golden(t, kv.String(), "a\x00é", "6100c3a9")
	golden(t, kv.Bytes(), []byte{}, "")
	golden(t, kv.Bytes(), []byte{0, 0xff}, "00ff")
	golden(t, kv.Time(), time.Date(2026, 2, 23, 1, 2, 3, 4e6, time.UTC), "0000019c880482fc")
	golden(t, kv.Time(), at(-1), "ffffffffffffffff")
	golden(t, kv.Empty(), struct{}{}, "")
	golden(t, kv.JSON[person](), person{"Ada", 0}, hex.EncodeToString([]byte(`{"name":"Ada"}`)))
	golden(t, kv.JSON[*person](), nil, hex.EncodeToString([]byte(`null`)))
	golden(t, kv.Tuple(), tuple.Tuple{"a", int64(1)}, "0261001501")
	golden(t, kv.Tuple(), tuple.Tuple{}, "")
	golden(t, kv.Versionstamp(), tuple.Versionstamp{Transaction: [10]byte{1, 9: 2}, User: 3}, "010000000000000000020003")
	golden(t, kv.Chunked(kv.Bytes()), []byte{7}, "07")
}

// golden: the value has these bytes, behind others too, and the bytes are the value.
func golden[V any](t *testing.T, c kv.Codec[V], v V, want string) {
	t.Helper()
	got, err := c.Append([]byte("x"), v)
	if err != nil || hex.EncodeToString(got) != "78"+want {
		t.Errorf("%T of %v: got %x, %v, want %s behind 78", c, v, got, err, want)
	}
	b := unhex(t, want)
	back, err := c.Decode(b)
	clear(b) // the value must not share it
	if err != nil || !reflect.DeepEqual(back, v) {
		t.Errorf("%T of %s: got %v, %v, want %v", c, want, back, err, v)
	}
}

func TestCodecsDamaged(t *testing.T) {
	damaged(t, kv.Int64(), "", "00", "00000000000000", "000000000000000000")
	damaged(t, kv.Uint64(), "", "00000000000000", "000000000000000000")
	damaged(t, kv.Counter(), "", "00000000000000", "000000000000000000")
	damaged(t, kv.Time(), "", "00000000000000")
	damaged(t, kv.Bool(), "", "02", "ff", "0000")
	damaged(t, kv.String(), "ff", "61c3")
	damaged(t, kv.Empty(), "00")
	damaged(t, kv.JSON[person](), "", "7b", "31", "7b7d31")
	damaged(t, kv.Tuple(), "15", "fe", "1500")
	damaged(t, kv.Versionstamp(), "", "0102", "00000000000000000000000000")
	if _, err := (kv.String()).Append(nil, "\xff"); !errors.Is(err, kv.ErrMisuse) {
		t.Errorf("got %v", err)
	}
	if _, err := (kv.JSON[func()]()).Append(nil, nil); err == nil {
		t.Error("a function is JSON")
	}
	if _, err := (kv.Tuple()).Append(nil, tuple.Tuple{int8(1)}); !errors.Is(err, tuple.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func damaged[V any](t *testing.T, c kv.Codec[V], all ...string) {
	t.Helper()
	for _, s := range all {
		if v, err := c.Decode(unhex(t, s)); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%T of %q: got %v, %v, want %v", c, s, v, err, kv.ErrCorrupt)
		}
	}
}

// FuzzCodecs: nothing makes a codec panic, what one takes it gives back, and but for
// JSON there is one form of each value.
func FuzzCodecs(f *testing.F) {
	for _, s := range []string{"", "01", "0000000000000001", "0261001501", "010000000000000000020003", "7b7d"} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzCodec(t, kv.Int64(), b)
		fuzzCodec(t, kv.Uint64(), b)
		fuzzCodec(t, kv.Counter(), b)
		fuzzCodec(t, kv.Bool(), b)
		fuzzCodec(t, kv.String(), b)
		fuzzCodec(t, kv.Bytes(), b)
		fuzzCodec(t, kv.Time(), b)
		fuzzCodec(t, kv.Empty(), b)
		fuzzCodec(t, kv.Tuple(), b)
		fuzzCodec(t, kv.Versionstamp(), b)
		if v, err := (kv.JSON[person]()).Decode(b); err == nil {
			again, err := kv.JSON[person]().Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := (kv.JSON[person]()).Decode(again); back != v || err != nil {
				t.Errorf("%q is %v, and back %v, %v", b, v, back, err)
			}
		}
	})
}

func fuzzCodec[V any](t *testing.T, c kv.Codec[V], b []byte) {
	v, err := c.Decode(b)
	if err != nil {
		if !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%T of %x: %v", c, b, err)
		}
		return
	}
	if again, err := c.Append(nil, v); err != nil || !bytes.Equal(again, b) {
		t.Errorf("%T of %x is %v, which is %x, %v", c, b, v, again, err)
	}
}
