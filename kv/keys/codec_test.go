package keys_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

func TestCodecs(t *testing.T) {
	for _, v := range []struct {
		v   int64
		hex string
	}{{0, "0000000000000000"}, {1, "0000000000000001"}, {-2, "fffffffffffffffe"}, {math.MinInt64, "8000000000000000"}} {
		golden(t, keys.Int64(), v.v, v.hex)
	}
	golden(t, keys.Uint64(), math.MaxUint64, "ffffffffffffffff")
	golden(t, keys.Uint64(), 258, "0000000000000102")
	golden(t, keys.Counter(), 258, "0201000000000000")
	golden(t, keys.Counter(), -1, "ffffffffffffffff")
	golden(t, keys.Bool(), true, "01")
	golden(t, keys.Bool(), false, "00")
	golden(t, keys.String(), "", "")
	golden(t, keys.String(), "a\x00é", "6100c3a9")
	golden(t, keys.Bytes(), []byte{}, "")
	golden(t, keys.Bytes(), []byte{0, 0xff}, "00ff")
	golden(t, keys.Time(), time.Date(2026, 2, 23, 1, 2, 3, 4e6, time.UTC), "0000019c880482fc")
	golden(t, keys.Time(), at(-1), "ffffffffffffffff")
	golden(t, keys.Empty(), struct{}{}, "")
	golden(t, keys.JSON[person](), person{"Ada", 0}, hex.EncodeToString([]byte(`{"name":"Ada"}`)))
	golden(t, keys.JSON[*person](), nil, hex.EncodeToString([]byte(`null`)))
	golden(t, keys.Tuple(), tuple.Tuple{"a", int64(1)}, "0261001501")
	golden(t, keys.Tuple(), tuple.Tuple{}, "")
	golden(t, keys.Versionstamp(), tuple.Versionstamp{Transaction: [10]byte{1, 9: 2}, User: 3}, "010000000000000000020003")
	golden(t, keys.Chunked(keys.Bytes()), []byte{7}, "07")
}

// golden: the value has these bytes, behind others too, and the bytes are the value.
func golden[V any](t *testing.T, c keys.Codec[V], v V, want string) {
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
	damaged(t, keys.Int64(), "", "00", "00000000000000", "000000000000000000")
	damaged(t, keys.Uint64(), "", "00000000000000", "000000000000000000")
	damaged(t, keys.Counter(), "", "00000000000000", "000000000000000000")
	damaged(t, keys.Time(), "", "00000000000000")
	damaged(t, keys.Bool(), "", "02", "ff", "0000")
	damaged(t, keys.String(), "ff", "61c3")
	damaged(t, keys.Empty(), "00")
	damaged(t, keys.JSON[person](), "", "7b", "31", "7b7d31")
	damaged(t, keys.Tuple(), "15", "fe", "1500")
	damaged(t, keys.Versionstamp(), "", "0102", "00000000000000000000000000")
	if _, err := (keys.String()).Append(nil, "\xff"); !errors.Is(err, keys.ErrMisuse) {
		t.Errorf("got %v", err)
	}
	if _, err := (keys.JSON[func()]()).Append(nil, nil); err == nil {
		t.Error("a function is JSON")
	}
	if _, err := (keys.Tuple()).Append(nil, tuple.Tuple{int8(1)}); !errors.Is(err, tuple.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func damaged[V any](t *testing.T, c keys.Codec[V], all ...string) {
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
		fuzzCodec(t, keys.Int64(), b)
		fuzzCodec(t, keys.Uint64(), b)
		fuzzCodec(t, keys.Counter(), b)
		fuzzCodec(t, keys.Bool(), b)
		fuzzCodec(t, keys.String(), b)
		fuzzCodec(t, keys.Bytes(), b)
		fuzzCodec(t, keys.Time(), b)
		fuzzCodec(t, keys.Empty(), b)
		fuzzCodec(t, keys.Tuple(), b)
		fuzzCodec(t, keys.Versionstamp(), b)
		if v, err := (keys.JSON[person]()).Decode(b); err == nil {
			again, err := keys.JSON[person]().Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := (keys.JSON[person]()).Decode(again); back != v || err != nil {
				t.Errorf("%q is %v, and back %v, %v", b, v, back, err)
			}
		}
	})
}

func fuzzCodec[V any](t *testing.T, c keys.Codec[V], b []byte) {
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
