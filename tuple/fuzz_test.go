package tuple_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/tuple"
)

// addSeeds calls add with the golden and the corrupt tuples.
func addSeeds(f *testing.F, add func(b []byte)) {
	for _, v := range readJSON[[]vector](f, "tuple.json") {
		add(unhex(f, v.Hex))
	}
	for _, c := range corrupt {
		add(unhex(f, c.hex))
	}
}

// FuzzUnpack: no input makes Unpack panic, and what it accepts is the one form of
// what it returns. The decoders that don't allocate agree with it.
func FuzzUnpack(f *testing.F) {
	addSeeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		first, rest, err := tuple.Next(b)
		if v, r, e := tuple.NextInt(b); e == nil && (err != nil || v != first || !bytes.Equal(r, rest)) {
			t.Errorf("NextInt(%x) = %d, %x; Next = %v, %x, %v", b, v, r, first, rest, err)
		}
		if v, r, e := tuple.NextBytes(nil, b); e == nil && (err != nil || !bytes.Equal(v, first.([]byte)) || !bytes.Equal(r, rest)) {
			t.Errorf("NextBytes(%x) = %x, %x; Next = %v, %x, %v", b, v, r, first, rest, err)
		}
		tup, err := tuple.Unpack(b)
		if err != nil {
			if !errors.Is(err, tuple.ErrMalformed) {
				t.Errorf("error %v, want ErrMalformed", err)
			}
			return
		}
		if got, err := tuple.Append(nil, tup); err != nil || !bytes.Equal(got, b) {
			t.Errorf("Unpack(%x) = %v, which packs to %x, %v", b, tup, got, err)
		}
	})
}

// FuzzOrder: the order of values is the order of bytes.
func FuzzOrder(f *testing.F) {
	var last []byte
	addSeeds(f, func(b []byte) {
		f.Add(last, b)
		last = b
	})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, errX := tuple.Unpack(a)
		y, errY := tuple.Unpack(b)
		if errX != nil || errY != nil {
			return
		}
		want := bytes.Compare(a, b)
		if got := tuple.Compare(x, y); got != want {
			t.Errorf("Compare(%v, %v) = %d, bytes.Compare(%x, %x) = %d", x, y, got, a, b, want)
		}
		// Inside a nested tuple null has another form and more may follow.
		x, y = tuple.Tuple{x, 1}, tuple.Tuple{y, 1}
		pa, errA := tuple.Append(nil, x)
		pb, errB := tuple.Append(nil, y)
		if errA != nil || errB != nil {
			return // nested too deep by now
		}
		if got, want := tuple.Compare(x, y), bytes.Compare(pa, pb); got != want {
			t.Errorf("nested: Compare(%v, %v) = %d, bytes.Compare(%x, %x) = %d", x, y, got, pa, pb, want)
		}
	})
}
