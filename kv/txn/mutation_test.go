package txn_test

import (
	"bytes"
	"math/big"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// number reads a little-endian number of any length.
func number(b []byte) *big.Int {
	b = bytes.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// FuzzMutation checks the numeric ones against package big, that inputs stay as they
// are, and that nothing panics.
func FuzzMutation(f *testing.F) {
	f.Add(uint8(0), []byte{0xff, 0xff}, true, []byte{1, 0})
	f.Add(uint8(4), []byte{0x80}, true, []byte{0x7f, 0})
	f.Add(uint8(5), []byte{}, false, []byte{1})
	f.Fuzz(func(t *testing.T, which uint8, value []byte, exists bool, param []byte) {
		m := txn.Mutation(which)
		if !m.Valid() {
			if m.String() != "unknown" {
				t.Errorf("mutation %d is %v", which, m)
			}
			return
		}
		was, par := bytes.Clone(value), bytes.Clone(param)
		got, ok := m.Apply(value, exists, param)
		if !bytes.Equal(value, was) || !bytes.Equal(param, par) {
			t.Fatalf("%v changes what it was given", m)
		}
		if !exists {
			value = nil
		}
		n := len(param)
		cut := append(bytes.Clone(value), make([]byte, n)...)[:n]
		a, b := number(cut), number(param)
		var want *big.Int
		switch m {
		case txn.MutationAdd:
			want = new(big.Int).Add(a, b)
			want.And(want, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*n)), big.NewInt(1)))
		case txn.MutationBitOr:
			want = new(big.Int).Or(a, b)
		case txn.MutationBitXor:
			want = new(big.Int).Xor(a, b)
		case txn.MutationBitAnd, txn.MutationMin:
			if want = b; exists && m == txn.MutationBitAnd {
				want = new(big.Int).And(a, b)
			} else if exists && a.Cmp(b) < 0 {
				want = a
			}
		case txn.MutationMax:
			if want = a; a.Cmp(b) < 0 {
				want = b
			}
		default:
			return
		}
		if !ok || len(got) != n || number(got).Cmp(want) != 0 {
			t.Errorf("%v of %x (%v) and %x is %x, %v, want %v in %d bytes", m, value, exists, param, got, ok, want, n)
		}
	})
}
