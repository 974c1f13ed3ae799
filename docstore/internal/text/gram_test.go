package text_test

import (
	"cmp"
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
			if padded := strings.ContainsAny(g.String(), "\x02\x03"); g.Padded() != padded {
				t.Errorf("%q.Padded() = %v", g, g.Padded())
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
	for _, test := range []struct{ text, gram, key string }{
		{"the", "the", "the"},
		{"", "\x02\x03\x03", "\x02\x03\x03"},
		{"a\x00~", "a\x00~", "a~00~7e"},
		{"~~~", "~~~", "~7e~7e~7e"},
		{"~00", "~00", "~7e00"},
		{"日é😀", "日é😀", "日é😀"},
	} {
		grams := text.Grams(nil, test.text)
		i := slices.IndexFunc(grams, func(g text.Gram) bool { return g.String() == test.gram })
		if got := string(grams[i].AppendKey([]byte("k:"))); got != "k:"+test.key {
			t.Errorf("the key of %q is %q, want %q", test.gram, got, "k:"+test.key)
		}
		if got, ok := text.ParseGram(test.key); got != grams[i] || !ok {
			t.Errorf("ParseGram(%q) = %q, %v, want %q", test.key, got, ok, grams[i])
		}
	}
	for _, key := range []string{"", "a", "ab", "abcd", "ab\x00", "ab~", "ab~0", "~00", "~41bc", "~7Ebc", "ab\xff", "ab\xe6\x97", "ab\xed\xa0\x80"} {
		if g, ok := text.ParseGram(key); ok {
			t.Errorf("ParseGram(%q) = %q, want none", key, g)
		}
	}
}

// TestKeyPrefix: the keys with the prefix of one or two characters are those of the grams that begin so.
func TestKeyPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	letters := []rune("a0~\x00\x02\x037eé日😀\uFFFD")
	pick := func() string { return string(letters[r.IntN(len(letters))]) }
	for range 20_000 {
		prefix := pick()
		if r.IntN(2) == 0 {
			prefix += pick()
		}
		first, _ := text.ParseGram(string(text.AppendKeyPrefix(nil, pick()+pick()+pick())))
		key := string(first.AppendKey(nil))
		got, want := strings.HasPrefix(key, string(text.AppendKeyPrefix(nil, prefix))), strings.HasPrefix(first.String(), prefix)
		if got != want {
			t.Errorf("the key %q has the prefix of %q: %v, want %v", key, prefix, got, want)
		}
		second, _ := text.ParseGram(string(text.AppendKeyPrefix(nil, pick()+pick()+pick())))
		if got, want := cmp.Compare(first, second), strings.Compare(first.String(), second.String()); got != want {
			t.Errorf("%q and %q compare as %d, want %d", first, second, got, want)
		}
	}
}

func FuzzParseGram(f *testing.F) {
	for _, key := range []string{"abc", "~00~7ea", "~~~", "\x02\x03\x03", "日本語", "ab\xff"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if g, ok := text.ParseGram(key); ok && string(g.AppendKey(nil)) != key {
			t.Errorf("ParseGram(%q) = %q, whose key is %q", key, g, g.AppendKey(nil))
		}
	})
}

func TestGramsAllocs(t *testing.T) {
	s := strings.Repeat("the quick brown fox 日本語 ", 50)
	dst := text.Grams(nil, s)
	if n := testing.AllocsPerRun(100, func() { dst = text.Grams(dst[:0], s) }); n != 0 {
		t.Errorf("%v allocations with a used dst, want 0", n)
	}
	key := dst[0].AppendKey(nil)
	if n := testing.AllocsPerRun(100, func() { key = dst[0].AppendKey(key[:0]) }); n != 0 {
		t.Errorf("%v allocations for a key, want 0", n)
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
