package bare_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// steps read one value each and append what they read to dst.
var steps = []func(r *bare.Reader, dst []byte) []byte{
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendUint(dst, r.Uint()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendU8(dst, r.U8()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendU16(dst, r.U16()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendU32(dst, r.U32()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendU64(dst, r.U64()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendI64(dst, r.I64()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendBool(dst, r.Bool()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendU8(dst, r.Tag(5)) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendString(dst, r.String()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendData(dst, r.Data()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendData(dst, r.DataCopy()) },
	func(r *bare.Reader, dst []byte) []byte { return bare.AppendFixed(dst, r.Fixed(3)) },
	func(r *bare.Reader, dst []byte) []byte {
		n := r.Len(1 << 20)
		dst = bare.AppendUint(dst, uint64(n))
		for range n {
			dst = bare.AppendU8(dst, r.U8())
		}
		return dst
	},
}

// FuzzReader reads any bytes as a message of any schema. Reading never panics,
// and what could be read is exactly what encoding the values gives: no value has
// two forms.
func FuzzReader(f *testing.F) {
	f.Add([]byte{5}, []byte{0, 16, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{14, 15, 9, 12, 4}, []byte("\x08greeting\x02\xb9\x00\x00\x68\xe5\xcf\x8b\x01\x00\x00\x01\x03\x00\x00\x00"))
	f.Add([]byte{0, 1}, []byte{0x80, 0x00, 0xff, 0x01})
	f.Add([]byte{18, 13, 17}, []byte{2, 1, 1, 4, 1, 2, 3})
	f.Fuzz(func(t *testing.T, schema, b []byte) {
		r := bare.NewReader(b)
		var again []byte
		for _, s := range schema {
			again = steps[int(s)%len(steps)](r, again)
			if r.Err() != nil {
				break
			}
		}
		switch err := r.Done(); {
		case err == nil && !bytes.Equal(again, b):
			t.Errorf("read %x, which encodes as %x", b, again)
		case err != nil && !errors.Is(err, bare.ErrMalformed):
			t.Errorf("error %v, want ErrMalformed", err)
		}
	})
}
