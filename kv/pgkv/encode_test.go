//go:build unix

package pgkv

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestArray(t *testing.T) {
	var a array
	for _, test := range []struct {
		in   [][]byte
		want string
	}{
		{nil, "00000000" + "00000000" + "00000011"},
		{[][]byte{[]byte("ab"), {}}, "00000001" + "00000000" + "00000011" + "00000002" + "00000001" + "000000026162" + "00000000"},
		{[][]byte{nil, []byte("a")}, "00000001" + "00000001" + "00000011" + "00000002" + "00000001" + "ffffffff" + "0000000161"},
		{nil, "00000000" + "00000000" + "00000011"},
	} {
		a.reset()
		for _, b := range test.in {
			a.add(b)
		}
		if got := hex.EncodeToString(a.bytes()); got != test.want {
			t.Errorf("%q: got %s, want %s", test.in, got, test.want)
		}
	}
}

// What the server makes of an array is what was put in.
func FuzzArray(f *testing.F) {
	db := open(f)
	c, err := db.reads.take(f.Context(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.reads.give(c) })
	f.Add([]byte("a,b,,\x00,\xff"), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, in []byte, null bool) {
		elements := bytes.Split(in, []byte{','})
		if null {
			elements = append(elements, nil)
		}
		var a array
		for _, e := range elements {
			a.add(e)
		}
		r := c.pg.ExecParams(t.Context(), "select x from unnest($1::bytea[]) x", [][]byte{a.bytes()}, []uint32{oidByteaArray}, binaryFormat, binaryFormat).Read()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if len(r.Rows) != len(elements) {
			t.Fatalf("%d elements came back as %d", len(elements), len(r.Rows))
		}
		for i, row := range r.Rows {
			if !bytes.Equal(row[0], elements[i]) || (row[0] == nil) != (elements[i] == nil) {
				t.Errorf("element %d: got %q, want %q", i, row[0], elements[i])
			}
		}
	})
}
