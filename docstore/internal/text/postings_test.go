package text_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// setOf returns the set of documents.
func setOf(docs []uint16) (s text.Set) {
	for _, doc := range docs {
		s.Add(int(doc))
	}
	return s
}

// docsOf returns the documents of a set.
func docsOf(s *text.Set) (docs []uint16) {
	for doc := range s.All() {
		docs = append(docs, uint16(doc))
	}
	return docs
}

// randomDocs returns documents in their order, each of all with a probability that is random too.
func randomDocs(r *rand.Rand) (docs []uint16) {
	one := 1 + r.IntN(1<<r.IntN(11))
	for doc := range text.MaxDocs {
		if r.IntN(one) == 0 {
			docs = append(docs, uint16(doc))
		}
	}
	return docs
}

// upTo returns the documents [from, to).
func upTo(from, to int) (docs []uint16) {
	for doc := from; doc < to; doc++ {
		docs = append(docs, uint16(doc))
	}
	return docs
}

func TestSet(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		a, b := randomDocs(r), randomDocs(r)
		sa, sb := setOf(a), setOf(b)
		in := func(docs []uint16) func(uint16) bool {
			return func(doc uint16) bool { return slices.Contains(docs, doc) }
		}
		for _, test := range []struct {
			name  string
			apply func(s, other *text.Set)
			want  []uint16
		}{
			{"And", (*text.Set).And, slices.DeleteFunc(slices.Clone(a), func(d uint16) bool { return !in(b)(d) })},
			{"AndNot", (*text.Set).AndNot, slices.DeleteFunc(slices.Clone(a), in(b))},
			{"Or", (*text.Set).Or, slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))},
		} {
			got := sa
			test.apply(&got, &sb)
			if !slices.Equal(docsOf(&got), test.want) {
				t.Errorf("%v %s %v = %v, want %v", a, test.name, b, docsOf(&got), test.want)
			}
			if got.Len() != len(test.want) || got.Empty() != (len(test.want) == 0) {
				t.Errorf("%v: Len() = %d, Empty() = %v", test.want, got.Len(), got.Empty())
			}
		}
		if first, end := sa.Bounds(); len(a) > 0 && (first != int(a[0]) || end != int(a[len(a)-1])+1) {
			t.Errorf("%v: Bounds() = %d, %d", a, first, end)
		}
		if len(a) > 0 {
			if sa.Remove(int(a[0])); !slices.Equal(docsOf(&sa), a[1:]) {
				t.Errorf("%v: after Remove(%d) %v", a, a[0], docsOf(&sa))
			}
			sa.Add(int(a[0]))
		}
		if doc := r.IntN(text.MaxDocs); sa.Has(doc) != in(a)(uint16(doc)) {
			t.Errorf("%v: Has(%d) = %v", a, doc, sa.Has(doc))
		}
	}
	for _, n := range []int{0, 1, 63, 64, 65, 1023, 1024} {
		if s := text.First(n); !slices.Equal(docsOf(&s), upTo(0, n)) {
			t.Errorf("First(%d) = %v", n, docsOf(&s))
		}
	}
	all := text.First(text.MaxDocs)
	for doc := range all.All() {
		if doc == 3 {
			break
		}
	}
}

// TestPostingsGolden: these bytes are stored.
func TestPostingsGolden(t *testing.T) {
	full := "\xff" + strings.Repeat("\xff", 128)
	for _, test := range []struct {
		docs []uint16
		want string
	}{
		{nil, ""},
		{[]uint16{0}, "\x00"},
		{[]uint16{250}, "\xfa"},
		{[]uint16{251}, "\xfb\x00"},
		{[]uint16{506}, "\xfb\xff"},
		{[]uint16{507}, "\xfc\x00"},
		{[]uint16{1023}, "\xfe\x04"},
		{[]uint16{0, 1}, "\x00\x00"},
		{[]uint16{3, 10}, "\x03\x06"},
		{[]uint16{0, 251, 1023}, "\x00\xfa\xfd\x08"},
		{[]uint16{0, 1, 7}, "\xff\x83"},
		{[]uint16{0, 1, 8}, "\x00\x00\x06"},
		{upTo(5, 20), "\xff\xe0\xff\x0f"},
		{upTo(0, 1024), full},
	} {
		got := text.AppendPostings([]byte("p"), test.docs)
		if string(got) != "p"+test.want {
			t.Errorf("the postings of %v are %x, want %x", test.docs, got[1:], test.want)
		}
		var s text.Set
		if err := s.Decode([]byte(test.want)); err != nil || !slices.Equal(docsOf(&s), test.docs) {
			t.Errorf("Decode(%x) = %v, %v, want %v", test.want, docsOf(&s), err, test.docs)
		}
	}
}

func TestPostingsCorrupt(t *testing.T) {
	for _, b := range []string{
		"\xff", "\xff\x00", "\xff\x01\x00", "\xff" + strings.Repeat("\x01", 129), // bitmaps
		"\xfb", "\x00\xfe", "\xfe\x05", "\x00\xff", "\x00\xff\x00", "\xfe\x04\x00", strings.Repeat("\xfa", 5), // lists
	} {
		s := text.First(3)
		err := s.Decode([]byte(b))
		if !errors.Is(err, text.ErrCorrupt) || !errors.Is(err, errkind.ErrCorrupt) {
			t.Errorf("Decode(%x): %v, want %v", b, err, text.ErrCorrupt)
		}
		if !s.Empty() {
			t.Errorf("after Decode(%x) the set has %v", b, docsOf(&s))
		}
	}
}

func TestPostingsPanic(t *testing.T) {
	for _, docs := range [][]uint16{{1024}, {1, 1}, {2, 1}, {65535}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for %v", docs)
				}
			}()
			text.AppendPostings(nil, docs)
		}()
	}
}

func TestPostingsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 2000 {
		want := randomDocs(r)
		b := text.AppendPostings(nil, want)
		var s text.Set
		if err := s.Decode(b); err != nil || !slices.Equal(docsOf(&s), want) {
			t.Errorf("%x: got %v, %v, want %v", b, docsOf(&s), err, want)
		}
		if len(b) > 2*len(want) || len(b) > 1+text.MaxDocs/8 {
			t.Errorf("%d documents take %d bytes", len(want), len(b))
		}
	}
}

func FuzzPostings(f *testing.F) {
	for _, docs := range [][]uint16{nil, {7}, {3, 900}, upTo(0, 50), upTo(0, 1024)} {
		f.Add(text.AppendPostings(nil, docs))
	}
	f.Add([]byte("\xfe\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again text.Set
		in := bytes.Clone(b)
		err := s.Decode(b)
		if !bytes.Equal(b, in) {
			t.Errorf("Decode changed %x", in)
		}
		if err != nil {
			return
		}
		shortest := text.AppendPostings(nil, docsOf(&s))
		if len(shortest) > len(b) {
			t.Errorf("%x is shorter than %x", b, shortest)
		}
		if err := again.Decode(shortest); err != nil || again != s {
			t.Errorf("%x and %x differ: %v, %v", b, shortest, docsOf(&s), docsOf(&again))
		}
	})
}

func BenchmarkPostings(b *testing.B) {
	for _, bench := range []struct {
		name string
		docs []uint16
	}{
		{"one", []uint16{300}},
		{"list", []uint16{3, 40, 170, 400, 405, 900, 1000}},
		{"bitmap", upTo(100, 900)},
	} {
		encoded := text.AppendPostings(nil, bench.docs)
		b.Run(bench.name+"/append", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				text.AppendPostings(encoded[:0], bench.docs)
			}
		})
		b.Run(bench.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			var s text.Set
			for b.Loop() {
				if err := s.Decode(encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
