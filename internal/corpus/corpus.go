// Package corpus makes texts, and patterns to look for in them, for tests and measurements of text indexes. It is for
// those alone. The texts are in English, or look like it: the frequencies of words, and of three characters, are those
// of descriptions of software.
package corpus

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"unicode"
)

// Variable is the environment variable that names a file of texts in UTF-8, with an empty line between any two, which
// Texts takes in place of the made ones. Translation-en of a Debian archive is one, as apt-helper cat-file prints it.
const Variable = "GREENROOM_CORPUS"

// sample is prose of this project's pages.
//
//go:embed sample.txt
var sample string

// Texts returns texts of at least size bytes together, or all texts of a file that Variable names and that is shorter. The
// texts that it makes are the same each time. The error is that of reading the file.
func Texts(size int) (texts []string, err error) {
	if file := os.Getenv(Variable); file != "" {
		return read(file, size)
	}
	for m := newMaker(); size > 0; size -= len(texts[len(texts)-1]) {
		texts = append(texts, m.text())
	}
	return texts, nil
}

func read(file string, size int) (texts []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	lines.Split(func(data []byte, end bool) (int, []byte, error) {
		if i := bytes.Index(data, []byte("\n\n")); i >= 0 {
			return i + 2, data[:i], nil
		}
		if end && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for size > 0 && lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			texts, size = append(texts, text), size-len(text)
		}
	}
	return texts, lines.Err()
}

// vocabulary is how many words the maker knows.
const vocabulary = 20_000

// A maker makes texts of words whose frequencies are Zipf's. The frequent ones are those of the sample, most frequent
// first. The others are made of its letters: each follows the two before it as often as it does in the sample.
type maker struct {
	r     *rand.Rand
	words []string
	zipf  *rand.Zipf
}

func newMaker() *maker {
	r := rand.New(rand.NewPCG(1, 2))
	count, next := map[string]int{}, map[string][]rune{}
	for _, w := range strings.FieldsFunc(strings.ToLower(sample), func(r rune) bool { return !unicode.IsLetter(r) }) {
		count[w]++
		two := "  "
		for _, c := range w + " " {
			next[two] = append(next[two], c)
			two = two[1:] + string(c)
		}
	}
	m := &maker{r: r, zipf: rand.NewZipf(r, 1.1, 4, vocabulary-1)}
	for w := range count {
		m.words = append(m.words, w)
	}
	slices.SortFunc(m.words, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	for len(m.words) < vocabulary {
		var w []rune
		for two := "  "; ; {
			c := next[two][r.IntN(len(next[two]))]
			if c == ' ' {
				break
			}
			two = two[1:] + string(c)
			w = append(w, c)
		}
		if count[string(w)]++; len(w) > 3 && len(w) < 16 && count[string(w)] == 1 {
			m.words = append(m.words, string(w))
		}
	}
	return m
}

// text returns a text of some sentences in lines.
func (m *maker) text() string {
	var b strings.Builder
	line, sentence := 0, 0
	for size := int(math.Exp(m.r.NormFloat64()*0.7 + 5.9)); b.Len() < size; {
		w := m.words[m.zipf.Uint64()]
		switch n := m.r.IntN(400); {
		case n < 8:
			w = fmt.Sprintf("%d.%d", m.r.IntN(20), m.r.IntN(100))
		case n < 16:
			w = "lib" + w + "-dev"
		case n == 16:
			w = strings.NewReplacer("a", "ä", "o", "ö", "e", "é").Replace(w)
		case sentence == 0 || n < 30:
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		if sentence++; m.r.IntN(14) == 0 {
			w, sentence = w+".", 0
		} else if m.r.IntN(12) == 0 {
			w += ","
		}
		if line += len(w) + 1; line > 78 {
			b.WriteByte('\n')
			line = len(w)
		} else if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
}
