package text_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
)

// alphabet has the characters that normalisation, padding and escaping treat in ways of their own.
var alphabet = []rune("abcABC~*.\n\x00\x02\x03\uFFFDeé\u0301\u0323\u0345ßẞiıİI\u0307kK\u212AsſσςΣᾳᾼǰʼn\u1FD3日本\u8C48😀👩\u200Dꭰ\u13A0가\u1100\u1161\u0958")

// lastCased is behind all characters with a case, or with a normal form that differs.
const lastCased = 0x30000

// randomText returns a text of up to most characters of the first size ones of alphabet.
func randomText(r *rand.Rand, most, size int) string {
	var s strings.Builder
	for range r.IntN(most + 1) {
		s.WriteRune(alphabet[r.IntN(size)])
	}
	return s.String()
}

func TestNormalize(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"already lower, 1~2", "already lower, 1~2"},
		{"UPPER", "upper"},
		{"e\u0301", "é"},
		{"E\u0301", "é"},
		{"a\u0301\u0323", "ạ\u0301"},
		{"Straße", "strasse"},
		{"STRAẞE", "strasse"},
		{"ΣΊΣΥΦΟΣ", "σίσυφοσ"},
		{"σίσυφος", "σίσυφοσ"},
		{"İ", "i\u0307"},
		{"ı", "ı"},
		{"\u212A\u212B", "kå"},
		{"J\u030C", "ǰ"},
		{"ᾼ", "αι"},
		{"\u1100\u1161", "가"},
		{"日本", "日本"},
		{"👩\u200D🚀", "👩\u200D🚀"},
		{"\u13A0\uAB70\u13F8\u13F0", "\u13A0\u13A0\u13F0\u13F0"},
		{"A\xffB\xc3", "a\uFFFDb\uFFFD"},
		{"\x00\x02\x03", "\x00\x02\x03"},
	} {
		if got := text.Normalize(test.in); got != test.want {
			t.Errorf("Normalize(%+q) = %+q, want %+q", test.in, got, test.want)
		}
	}
}

// TestNormalizeTwice normalises what is normalised: characters, and random texts full of marks.
func TestNormalizeTwice(t *testing.T) {
	check := func(s string) (changed bool) {
		once := text.Normalize(s)
		if once == s {
			return false
		}
		if twice := text.Normalize(once); twice != once {
			t.Errorf("%+q becomes %+q and then %+q", s, once, twice)
		}
		return true
	}
	var marks, changed []rune
	for r := range rune(lastCased) {
		changes := check(string(r))
		if unicode.Is(unicode.M, r) {
			marks = append(marks, r)
		} else if changes {
			changed = append(changed, r)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 10_000 {
		var s strings.Builder
		most, rare := 6, 3
		if i%50 == 0 {
			most, rare = 80, 30 // more marks on one letter than the stream-safe form allows
		}
		for range r.IntN(most) {
			from := marks
			switch r.IntN(rare) {
			case 0:
				from = changed
			case 1:
				from = alphabet
			}
			s.WriteRune(from[r.IntN(len(from))])
		}
		check(s.String())
	}
}

// TestNormalizeFolds: characters that package regexp takes for the same are the same to Normalize. The plans of
// regular expressions rest on it.
func TestNormalizeFolds(t *testing.T) {
	for r := range rune(lastCased) {
		other := unicode.SimpleFold(r)
		if other == r {
			continue
		}
		if got, want := text.Normalize(string(other)), text.Normalize(string(r)); got != want {
			t.Errorf("Normalize(%+q) = %+q, but Normalize(%+q) = %+q", other, got, r, want)
		}
	}
}

func TestNormalizeAllocs(t *testing.T) {
	s := strings.Repeat("nothing to do here. ", 100)
	if n := testing.AllocsPerRun(100, func() { text.Normalize(s) }); n != 0 {
		t.Errorf("%v allocations for a normalised text, want 0", n)
	}
}

func BenchmarkNormalize(b *testing.B) {
	for _, bench := range []struct{ name, s string }{
		{"lower", strings.Repeat("the quick brown fox ", 50)},
		{"ascii", strings.Repeat("The Quick brown fox ", 50)},
		{"latin", strings.Repeat("Die Größe der Bäume ", 50)},
		{"cjk", strings.Repeat("日本語のテキスト検索", 35)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.s)))
			b.ReportAllocs()
			for b.Loop() {
				text.Normalize(bench.s)
			}
		})
	}
}
