package text

import (
	"iter"
	"maps"
	"slices"
	"unicode/utf8"
)

// A Segment collects which of up to MaxDocs documents have which grams. The zero Segment has none. It is for one
// goroutine at a time.
type Segment struct {
	at    map[Gram]int // in sets
	sets  []Set
	grams []Gram
}

// Add adds a document with a text that Normalize has returned. doc is in [0, MaxDocs).
func (s *Segment) Add(doc int, normalized string) {
	if s.at == nil {
		s.at = map[Gram]int{}
	}
	s.grams = Grams(s.grams[:0], normalized)
	for _, g := range s.grams {
		i, ok := s.at[g]
		if !ok {
			i, s.sets = len(s.sets), append(s.sets, Set{})
			s.at[g] = i
		}
		s.sets[i].Add(doc)
	}
}

// RowSize is how many bytes a row has at most before its last gram, which has less than 150.
const RowSize = 90_000

// Rows yields a row for each two characters that begin grams, in the order of their UTF-8, or several one after the
// other if one would be longer than RowSize allows. The row is of use until the next one is yielded. Existing encodings will
// not change.
//
// A row has, for each of its grams in their order, the third character in UTF-8, a byte with the length of the postings,
// and the postings.
func (s *Segment) Rows() iter.Seq2[string, []byte] {
	return func(yield func(pair string, row []byte) bool) {
		var row []byte
		var docs []uint16
		of, grams := Gram(0), slices.Sorted(maps.Keys(s.at))
		for i, g := range grams {
			pair, third := g>>runeBits, g.Third()
			if (pair != of || len(row) > RowSize) && i > 0 {
				if !yield(pairOf(of), row) {
					return
				}
				row = row[:0]
			}
			docs = docs[:0]
			for doc := range s.sets[s.at[g]].All() {
				docs = append(docs, uint16(doc))
			}
			of, row = pair, append(utf8.AppendRune(row, third), 0)
			at := len(row)
			row = AppendPostings(row, docs)
			row[at-1] = byte(len(row) - at)
		}
		if len(grams) > 0 {
			yield(pairOf(of), row)
		}
	}
}

// NextGram returns the first gram of a row: its third character, its postings, and the rest of the row, both of which are
// parts of it. The error is ErrCorrupt.
func NextGram(row []byte) (third rune, postings, rest []byte, err error) {
	third, n := utf8.DecodeRune(row)
	if third == utf8.RuneError && n < 3 || n == len(row) || int(row[n]) >= len(row)-n {
		return 0, nil, nil, ErrCorrupt
	}
	end := n + 1 + int(row[n])
	return third, row[n+1 : end], row[end:], nil
}

// AddRow adds the documents that have a gram of a row: any gram, or if third isn't negative the one with that third
// character. The error is ErrCorrupt, and then s has some of them.
func (s *Set) AddRow(row []byte, third rune) error {
	for len(row) > 0 {
		r, postings, rest, err := NextGram(row)
		if err != nil {
			return err
		}
		if row = rest; third >= 0 && r != third {
			continue
		}
		var of Set
		if err := of.Decode(postings); err != nil {
			return err
		}
		if s.Or(&of); third >= 0 {
			return nil
		}
	}
	return nil
}
