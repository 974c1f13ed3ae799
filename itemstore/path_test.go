package itemstore_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/itemstore"
)

func TestAt(t *testing.T) {
	type name string
	for _, c := range []struct {
		els  []any
		want itemstore.Path
	}{
		{[]any{"course", "MATH321", "year", 2023, "quarter", uint8(1)}, "/course-MATH321/year-2023/quarter-1"},
		{[]any{"course", "MATH321", "syllabus"}, "/course-MATH321/syllabus"},
		{[]any{"a", name("50%/50")}, "/a-50%%%/50"},
		{[]any{"a", "-x-"}, "/a--x-"},
		{[]any{"a", -5}, "/a--5"},
		{[]any{"a", uint64(math.MaxUint64)}, "/a-18446744073709551615"},
		{[]any{"a", int64(math.MinInt64)}, "/a--9223372036854775808"},
		{[]any{"a", []byte{0xff, 0xfe}}, "/a-__4"},
		{[]any{"a", [16]byte{1}}, "/a-AQAAAAAAAAAAAAAAAAAAAA"},
		{[]any{"a", "Äpfel 🍎"}, "/a-Äpfel 🍎"},
	} {
		got := itemstore.At(c.els...)
		if got != c.want {
			t.Errorf("At(%v): got %q, want %q", c.els, got, c.want)
		}
		if p, err := itemstore.ParsePath(got.String()); err != nil || p != got {
			t.Errorf("%q: parsed it is %q, %v", got, p, err)
		}
	}
	for _, els := range [][]any{{"a", ""}, {"a", 1.5}, {"a", nil}, {"a", []byte{}}, {"a"}, {"", 1}, {"a-b", 1}, {5, 5}} {
		p := itemstore.At(els...)
		if _, err := itemstore.ParsePath(string(p)); !errors.Is(err, itemstore.ErrPath) {
			t.Errorf("At(%v) is %q, which is accepted: %v", els, p, err)
		}
	}
}

// TestBadPaths has strings that aren't paths, and paths that no item of the schema can have.
func TestBadPaths(t *testing.T) {
	s := school(t)
	for _, p := range []itemstore.Path{
		"", "/", "student-1", "/student-", "/student-1/", "/student-1//year-2", "/student", "/course-A/year/quarter-1", "/1-1", "/a b-1",
		"/course-%x/year-1/quarter-1", "/course-%", "/student-1\xff", "/@student-1",
		"/student-01", "/student-+1", "/student-1.0", "/student-x", "/student-18446744073709551616", "/student--9223372036854775809",
		"/teacher-1", "/student-1/house-2", "/student-1/@by-1",
	} {
		_, err := itemstore.Get[Student](t.Context(), s, p)
		if !errors.Is(err, itemstore.ErrPath) {
			t.Errorf("get %q: %v", p, err)
		}
		if err := s.Delete(t.Context(), p); !errors.Is(err, itemstore.ErrPath) {
			t.Errorf("delete %q: %v", p, err)
		}
		if p == "" {
			continue // all of the store
		}
		for _, err := range s.List(t.Context(), p, nil) {
			if !errors.Is(err, itemstore.ErrPath) {
				t.Errorf("list %q: %v", p, err)
			}
		}
	}
	if got := itemstore.Path("/course-A%/B/year-1").Group(); got != "/course-A%/B" {
		t.Errorf("the group is %q", got)
	}
}

type Keyed struct {
	_      struct{} `path:"/all-:All/a-:Text/n-:Number/r-:Raw/u-:UUID"`
	All    int
	Text   string
	Number int64
	Raw    []byte
	UUID   [16]byte
}

// FuzzPath: a path is read and written without a change, an item is found at it, and lists have typed order.
func FuzzPath(f *testing.F) {
	f.Add("a", "b", int64(9), int64(10), []byte{0}, []byte{0, 0xff})
	f.Add("%", "/", int64(-1), int64(1<<62), []byte("-"), []byte("/"))
	f.Add("x\x00", "x", int64(256), int64(255), []byte{1, 0}, []byte{1})
	schema, err := itemstore.NewSchema(1, itemstore.TypeOf[Keyed](nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b string, m, n int64, r, q []byte) {
		s, err := itemstore.Open(t.Context(), memory(t), "fuzz", schema, nil)
		if err != nil {
			t.Fatal(err)
		}
		items := []*Keyed{{All: 1, Text: a, Number: m, Raw: r, UUID: [16]byte{1}}, {All: 1, Text: b, Number: n, Raw: q, UUID: [16]byte{1}}}
		for _, k := range items {
			p := itemstore.At("all", 1, "a", k.Text, "n", k.Number, "r", k.Raw, "u", k.UUID)
			_, bad := itemstore.ParsePath(string(p))
			err := s.Put(t.Context(), k, nil)
			if zero := k.Text == "" || k.Number == 0 || len(k.Raw) == 0; zero && !errors.Is(err, itemstore.ErrInvalid) || !zero && (err != nil) != (bad != nil) {
				t.Fatalf("put at %q: %v; as a path it is %v", p, err, bad)
			}
			if err != nil {
				return
			}
			got, err := itemstore.Get[Keyed](t.Context(), s, p)
			if err != nil || got.Text != k.Text || got.Number != k.Number || !bytes.Equal(got.Raw, k.Raw) {
				t.Fatalf("%q: got %+v, %v", p, got, err)
			}
		}
		slices.SortFunc(items, func(x, y *Keyed) int {
			if c := strings.Compare(x.Text, y.Text); c != 0 {
				return c
			}
			if x.Number != y.Number {
				if x.Number < y.Number {
					return -1
				}
				return 1
			}
			return bytes.Compare(x.Raw, y.Raw)
		})
		i := 0
		for item, err := range s.List(t.Context(), "/all-1", nil) {
			if err != nil {
				t.Fatal(err)
			}
			k := item.Value.(*Keyed)
			if k.Text != items[i].Text || k.Number != items[i].Number || !bytes.Equal(k.Raw, items[i].Raw) {
				t.Fatalf("place %d of the list is %+v, want %+v", i, k, items[i])
			}
			if i++; i < len(items) && items[0].Text == items[1].Text && items[0].Number == items[1].Number && bytes.Equal(items[0].Raw, items[1].Raw) {
				return
			}
		}
	})
}

// FuzzParsePath: whatever is accepted is written as it was read.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"/a-1", "/a-%%/b", "/a--5/@b", "", "/a-1/b-2/c", "/a-%/%/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := itemstore.ParsePath(s)
		if err != nil {
			if !errors.Is(err, itemstore.ErrPath) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if strings.ContainsAny(s, "\x01\x02") {
			t.Skip("segments of the model uses these")
		}
		var els []any
		for _, seg := range segments(p) {
			if els = append(els, seg.ns); seg.has {
				els = append(els, seg.id)
			}
		}
		if again := itemstore.At(els...); again != p {
			t.Errorf("%q is written %q", p, again)
		}
	})
}

// golden is a row of an item of version 1, and what it says.
const golden = "0100" + "0102030405060708090a" + "00" + "00" + "03" + "01" + // version, stamp, primary, not chunked, type 3, schema 1
	"40420f0000000000" + "80841e0000000000" + "0000000000000000" + // created, modified, ends
	"00" + "00" + // this commit, no count
	"01" + "01" + "03" + "026100" + "01" + "0000000000000000000b" + "07" + // one path: number 1, 3 bytes, since, count 7
	"a0" // the payload

// FuzzRecord: whatever is accepted as a row has one form, and what isn't is an error.
func FuzzRecord(f *testing.F) {
	row, err := hex.DecodeString(golden)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(row)
	f.Add([]byte{})
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, row []byte) {
		again, err := itemstore.Recode(row)
		if err == nil && !bytes.Equal(again, row) {
			t.Errorf("%x is written %x", row, again)
		}
		if err != nil && !errors.Is(err, itemstore.ErrCorrupt) && !errors.Is(err, itemstore.ErrNewerFormat) {
			t.Errorf("%x: %v", row, err)
		}
	})
}

func TestRecordVersion(t *testing.T) {
	row, _ := hex.DecodeString(golden)
	if _, err := itemstore.Recode(row); err != nil {
		t.Errorf("a row of version 1: %v", err)
	}
	row[0] = 2
	if _, err := itemstore.Recode(row); !errors.Is(err, itemstore.ErrNewerFormat) {
		t.Errorf("a row of a newer version: %v", err)
	}
}

// FuzzToken: no bytes but those of a token are taken for one.
func FuzzToken(f *testing.F) {
	s := school(f)
	if err := s.Put(f.Context(), &Student{ID: 1, GraduatingYear: 2}, nil); err != nil {
		f.Fatal(err)
	}
	page, err := s.Page(f.Context(), "/student-1", &itemstore.ListOptions{Limit: 1, Types: []string{"Student"}})
	if err != nil {
		f.Fatal(err)
	}
	if again, err := itemstore.Repack(page.Token); err != nil || !bytes.Equal(again, page.Token) {
		f.Fatalf("%s is packed again %s, %v", page.Token, again, err)
	}
	f.Add([]byte(page.Token), 0)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		if _, err := s.NextPage(t.Context(), b, nil); err != nil && !errors.Is(err, itemstore.ErrToken) {
			t.Errorf("%q: %v", b, err)
		}
		bad := bytes.Clone(page.Token)
		bad[uint(at)%uint(len(bad))] ^= 1
		if _, err := s.Sync(t.Context(), bad); !errors.Is(err, itemstore.ErrToken) {
			t.Errorf("a damaged token: %v", err)
		}
	})
}
