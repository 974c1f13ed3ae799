package text_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
)

// TestSegmentGolden: these bytes are stored.
func TestSegmentGolden(t *testing.T) {
	var s text.Segment
	s.Add(0, "ab")
	s.Add(3, "abé")
	s.Add(4, "")
	var got []string
	for pair, row := range s.Rows() {
		got = append(got, pair, string(row))
	}
	want := []string{
		"\x02\x03", "\x03\x01\x04", "\x02a", "b\x02\x00\x02", "ab", "\x03\x01\x00é\x01\x03", "b\x03", "\x03\x01\x00", "bé", "\x03\x01\x03", "é\x03", "\x03\x01\x03",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSegmentRandom compares the rows of random texts with the grams of each.
func TestSegmentRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 2 {
		var s text.Segment
		want := map[text.Gram]*text.Set{}
		for doc := range text.MaxDocs {
			in := text.Normalize(randomText(r, 12, len(alphabet)))
			s.Add(doc, in)
			for _, g := range text.Grams(nil, in) {
				if want[g] == nil {
					want[g] = new(text.Set)
				}
				want[g].Add(doc)
			}
		}
		rows := map[string]string{}
		last := ""
		for pair, row := range s.Rows() {
			if pair <= last {
				t.Errorf("%q comes after %q", pair, last)
			}
			rows[pair], last = string(row), pair
		}
		unions := map[string]*text.Set{}
		for g, set := range want {
			var got text.Set
			if err := got.AddRow([]byte(rows[g.Pair()]), g.Third()); err != nil || got != *set {
				t.Errorf("%q has %v, %v, want %v", g, docsOf(&got), err, docsOf(set))
			}
			if unions[g.Pair()] == nil {
				unions[g.Pair()] = new(text.Set)
			}
			unions[g.Pair()].Or(set)
		}
		if len(rows) != len(unions) {
			t.Errorf("%d rows, want %d", len(rows), len(unions))
		}
		for pair, set := range unions {
			var got text.Set
			if err := got.AddRow([]byte(rows[pair]), -1); err != nil || got != *set {
				t.Errorf("%q has %v, %v, want %v", pair, docsOf(&got), err, docsOf(set))
			}
		}
	}
}

func TestRowCorrupt(t *testing.T) {
	for _, row := range []string{"a", "a\x01", "a\x02\x00", "\xff\x01\x00", "a\x01\x00b", "a\x01\xfb"} {
		var s text.Set
		if err := s.AddRow([]byte(row), -1); !errors.Is(err, text.ErrCorrupt) {
			t.Errorf("%q: %v, want %v", row, err, text.ErrCorrupt)
		}
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte("b\x02\x00\x02"), int32(98))
	f.Add([]byte("\x03\x01\x00é\x01\x03"), int32(-1))
	f.Fuzz(func(t *testing.T, row []byte, third int32) {
		var all, one text.Set
		err := all.AddRow(row, -1)
		if one.AddRow(row, third); err == nil && third >= 0 {
			if one.AndNot(&all); !one.Empty() {
				t.Errorf("%q has documents with %q that it hasn't", row, rune(third))
			}
		}
	})
}

func BenchmarkSegment(b *testing.B) {
	r := rand.New(rand.NewPCG(10, 10))
	var texts []string
	for range 512 {
		texts = append(texts, text.Normalize(randomText(r, 300, len(alphabet))))
	}
	b.ReportAllocs()
	for b.Loop() {
		var s text.Segment
		for i, t := range texts {
			s.Add(i, t)
		}
		for range s.Rows() {
		}
	}
}
