package tuple_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/tuple"
)

func TestSubspace(t *testing.T) {
	s := tuple.NewSubspace(tuple.Tuple{0, 3}).Sub(72, tuple.NewID(tuple.UUID{}, 7))
	want := tuple.Tuple{0, 3, 72, tuple.NewID(tuple.UUID{}, 7)}.Pack()
	if got := s.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("Bytes = %x, want %x", got, want)
	}
	key := s.Pack(tuple.Tuple{"a", int64(1)})
	if want := append(bytes.Clone(want), tuple.Tuple{"a", 1}.Pack()...); !bytes.Equal(key, want) {
		t.Errorf("Pack = %x, want %x", key, want)
	}
	appended, err := s.Append([]byte("x"), tuple.Tuple{"a", 1})
	if want := append([]byte("x"), key...); err != nil || !bytes.Equal(appended, want) {
		t.Errorf("Append = %x, %v, want %x", appended, err, want)
	}
	if got, err := s.Append([]byte("x"), tuple.Tuple{int8(1)}); !errors.Is(err, tuple.ErrUnsupported) || string(got) != "x" {
		t.Errorf("Append of an int8 = %q, %v, want x, ErrUnsupported", got, err)
	}
	out, err := s.Unpack(key)
	if err != nil || tuple.Compare(out, tuple.Tuple{"a", 1}) != 0 {
		t.Errorf("Unpack = %v, %v, want (a, 1)", out, err)
	}
	if _, err := s.Unpack(key[1:]); !errors.Is(err, tuple.ErrPrefix) {
		t.Errorf("Unpack of a foreign key: error %v, want ErrPrefix", err)
	}
	if _, err := s.Unpack(append(key, 0xff)); !errors.Is(err, tuple.ErrMalformed) {
		t.Errorf("Unpack of a damaged key: error %v, want ErrMalformed", err)
	}
}

func TestSubspaceRange(t *testing.T) {
	s := tuple.FromBytes([]byte("p"))
	begin, end := s.Range()
	for _, c := range []struct {
		key  string
		in   bool // in the subspace
		span bool // in its range
	}{
		{"p", true, false},
		{"p\x00", true, true},
		{"p\x14", true, true},
		{"p\xfe\xff", true, true},
		{"p\xff", true, false},
		{"q", false, false},
		{"o\xff", false, false},
		{"", false, false},
	} {
		key := []byte(c.key)
		if got := s.Contains(key); got != c.in {
			t.Errorf("Contains(%q) = %v, want %v", c.key, got, c.in)
		}
		span := bytes.Compare(key, begin) >= 0 && bytes.Compare(key, end) < 0
		if span != c.span {
			t.Errorf("%q in the range: %v, want %v", c.key, span, c.span)
		}
	}
	begin, end = tuple.Subspace{}.Range()
	if !bytes.Equal(begin, []byte{0}) || !bytes.Equal(end, []byte{0xff}) {
		t.Errorf("range of everything = %x, %x, want 00, ff", begin, end)
	}
}

// TestSubspaceOwnsItsBytes: neither what it was made from nor what it returned
// can change a subspace.
func TestSubspaceOwnsItsBytes(t *testing.T) {
	prefix := []byte("p")
	s := tuple.FromBytes(prefix)
	prefix[0] = 'x'
	s.Pack(nil)[0] = 'y'
	_ = append(s.Bytes(), 'z')
	a, b := s.Pack(tuple.Tuple{1}), s.Pack(tuple.Tuple{2})
	begin, end := s.Range()
	_ = append(begin, 'z')
	if string(s.Bytes()) != "p" || string(a) != "p\x15\x01" || string(b) != "p\x15\x02" || string(end) != "p\xff" {
		t.Errorf("prefix %q, keys %q, %q, end %q", s.Bytes(), a, b, end)
	}
}

func TestPackWithVersionstamp(t *testing.T) {
	stamp := tuple.IncompleteVersionstamp(0x0291)
	ff := "ffffffffffffffffffff0291"
	for _, c := range []struct {
		prefix string
		t      tuple.Tuple
		want   string
	}{
		{"", tuple.Tuple{stamp}, "33" + ff + "01000000"},
		{"", tuple.Tuple{1, stamp, "a"}, "150133" + ff + "026100" + "03000000"},
		{"prefix", tuple.Tuple{stamp}, "707265666978" + "33" + ff + "07000000"},
		{"", tuple.Tuple{tuple.Tuple{nil, stamp}}, "0500ff33" + ff + "00" + "04000000"},
		{"", tuple.Tuple{tuple.Versionstamp{User: 1}, stamp}, "3300000000000000000000000133" + ff + "0e000000"},
	} {
		got, err := tuple.PackWithVersionstamp([]byte(c.prefix), c.t)
		if err != nil || !bytes.Equal(got, unhex(t, c.want)) {
			t.Errorf("%v: got %x, %v, want %s", c.t, got, err, c.want)
		}
	}
	for _, bad := range []tuple.Tuple{{}, {1}, {stamp, stamp}, {stamp, tuple.Tuple{stamp}}, {tuple.Versionstamp{}}, {stamp, int8(1)}} {
		if got, err := tuple.PackWithVersionstamp(nil, bad); !errors.Is(err, tuple.ErrUnsupported) || got != nil {
			t.Errorf("%v: got %x, error %v, want ErrUnsupported", bad, got, err)
		}
	}
	if !stamp.Incomplete() || (tuple.Versionstamp{}).Incomplete() {
		t.Error("Incomplete is wrong")
	}
}
