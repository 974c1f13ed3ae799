package text_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
)

func TestGrams(t *testing.T) {
	for _, test := range []struct {
		in   string
		want []string
	}{
		{"", []string{"\x02\x03\x03"}},
		{"a", []string{"\x02a\x03", "a\x03\x03"}},
		{"ab", []string{"\x02ab", "ab\x03", "b\x03\x03"}},
		{"abc", []string{"\x02ab", "abc", "bc\x03", "c\x03\x03"}},
		{"aaaaa", []string{"\x02aa", "a\x03\x03", "aa\x03", "aaa"}},
		{"\x02", []string{"\x02\uFFFD\x03", "\uFFFD\x03\x03"}},
		{"\x03", []string{"\x02\uFFFD\x03", "\uFFFD\x03\x03"}},
		{"\x00", []string{"\x00\x03\x03", "\x02\x00\x03"}},
		{"日本語", []string{"\x02日本", "日本語", "本語\x03", "語\x03\x03"}},
		{"😀a", []string{"\x02😀a", "a\x03\x03", "😀a\x03"}},
	} {
		before := []text.Gram{7}
		grams := text.Grams(before, test.in)
		if grams[0] != 7 {
			t.Errorf("Grams(%q) changed what was in dst", test.in)
		}
		var got []string
		for _, g := range grams[1:] {
			got = append(got, g.String())
			if padded := strings.ContainsAny(g.String(), "\x02\x03"); text.Padded(g.String()) != padded {
				t.Errorf("Padded(%q) = %v", g, !padded)
			}
			if s := g.Pair() + string(g.Third()); s != g.String() {
				t.Errorf("the parts of %q are %q", g, s)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("Grams(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

// TestGramsRandom compares the grams of random texts with what their definition says.
func TestGramsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var dst []text.Gram
	for range 2000 {
		s := text.Normalize(randomText(r, 12, len(alphabet)))
		dst = text.Grams(dst[:0], s)
		padded := []rune("\x02" + strings.NewReplacer("\x02", "\uFFFD", "\x03", "\uFFFD").Replace(s) + "\x03\x03")
		var want []string
		for ; len(padded) >= 3; padded = padded[1:] {
			want = append(want, string(padded[:3]))
		}
		slices.Sort(want)
		want = slices.Compact(want)
		var got []string
		for _, g := range dst {
			got = append(got, g.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("Grams(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestKey(t *testing.T) {
	for _, test := range []struct{ chars, key string }{
		{"th", "th"}, {"\x02\x03", "\x02\x03"}, {"\x00~", "~00~7e"}, {"~~", "~7e~7e"}, {"~0", "~7e0"}, {"日é", "日é"}, {"😀", "😀"}, {"", ""},
	} {
		if got := string(text.AppendKey([]byte("k:"), test.chars)); got != "k:"+test.key {
			t.Errorf("the key of %q is %q, want %q", test.chars, got, "k:"+test.key)
		}
		if got, ok := text.ParseKey(test.key); got != test.chars || !ok {
			t.Errorf("ParseKey(%q) = %q, %v, want %q", test.key, got, ok, test.chars)
		}
	}
	for _, key := range []string{"b\x00", "b~", "~0", "~41b", "~7Eb", "b\xff", "b\xe6\x97", "b\xed\xa0\x80"} {
		if chars, ok := text.ParseKey(key); ok {
			t.Errorf("ParseKey(%q) = %q, want none", key, chars)
		}
	}
}

// TestKeyPrefix: the keys that begin with that of one character are those of the characters that begin with it.
func TestKeyPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	letters := []rune("a0~\x00\x02\x037eé日😀\uFFFD")
	pick := func() string { return string(letters[r.IntN(len(letters))]) }
	for range 20_000 {
		prefix, pair := pick(), pick()+pick()
		got, want := bytes.HasPrefix(text.AppendKey(nil, pair), text.AppendKey(nil, prefix)), strings.HasPrefix(pair, prefix)
		if got != want {
			t.Errorf("the key of %q has the prefix of %q: %v, want %v", pair, prefix, got, want)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, key := range []string{"ab", "~00~7e", "~~~", "\x02\x03", "日本", "ab\xff"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if chars, ok := text.ParseKey(key); ok && string(text.AppendKey(nil, chars)) != key {
			t.Errorf("ParseKey(%q) = %q, whose key is %q", key, chars, text.AppendKey(nil, chars))
		}
	})
}

func TestGramsAllocs(t *testing.T) {
	s := strings.Repeat("the quick brown fox 日本語 ", 50)
	dst := text.Grams(nil, s)
	if n := testing.AllocsPerRun(100, func() { dst = text.Grams(dst[:0], s) }); n != 0 {
		t.Errorf("%v allocations with a used dst, want 0", n)
	}
}

func BenchmarkGrams(b *testing.B) {
	r := rand.New(rand.NewPCG(4, 4))
	var words strings.Builder
	for words.Len() < 2000 {
		for range 2 + r.IntN(8) {
			words.WriteByte("etaoinshrdlucm"[min(r.IntN(14), r.IntN(14))])
		}
		words.WriteByte(' ')
	}
	for _, bench := range []struct{ name, s string }{
		{"ascii", words.String()},
		{"short", words.String()[:40]},
		{"cjk", strings.Repeat("日本語のテキスト検索です。", 50)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(len(bench.s)))
			b.ReportAllocs()
			var dst []text.Gram
			for b.Loop() {
				dst = text.Grams(dst[:0], bench.s)
			}
		})
	}
}
