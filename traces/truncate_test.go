package traces

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLongTexts: texts and bytes that are too long are cut, between two characters, and
// counted, whatever their characters take; and they leave room for what comes behind them.
func TestLongTexts(t *testing.T) {
	for _, limit := range []int{16 << 10, 128 << 10} {
		for what, c := range map[string]string{"ASCII": "x", "two bytes": "ä", "three": "日", "four": "😀", "not UTF-8": "x\xff", "mixed": "x😀ä日"} {
			r := newRigOn(t, memkv.New(), quiet(), batch.Limits{ValueSize: limit})
			long := strings.Repeat(c, limit)
			attrs := []Attr{String("a", long), String("b", "x"+long), String("c", "xx"+long), String("d", "xxx"+long), String("e", "xxxx"+long), Int("n", 7)}
			s := r.Begin("s", &StartOptions{Attributes: attrs})
			s.Event("e", attrs...)
			s.update(attrs[:1], 0, &Status{StatusError, long})
			s.End()
			r.flush()
			d := r.one(Query{})
			where := fmt.Sprintf("%s, values of %d", what, limit)
			if len(d.Events) != 1 {
				t.Fatalf("%s: %+v", where, d)
			}
			for _, list := range [][]Attr{d.Attributes, d.Events[0].Attributes} {
				want(t, where+": the small one behind them", list[len(list)-1].Value.String(), "7")
				for i, a := range list[:len(list)-1] {
					text := a.Value.text
					prefix := strings.Repeat("x", i)
					if rest, ok := strings.CutPrefix(text, prefix); !ok || !utf8.ValidString(text) || rest != "" && !strings.HasPrefix(strings.ToValidUTF8(long, "\uFFFD"), rest) && what != "not UTF-8" {
						t.Errorf("%s: %s has %d bytes, and isn't the beginning of what it was", where, a.Key, len(text))
					}
				}
				want(t, where+": attributes", len(list), 6)
			}
			want(t, where+": dropped", r.Stats().DroppedAttributes, 0)
			if r.Stats().Truncated < 10 {
				t.Errorf("%s: %d were cut", where, r.Stats().Truncated)
			}
			if got := d.Status.Message; got == "" || !utf8.ValidString(got) {
				t.Errorf("%s: a status of %d bytes", where, len(got))
			}
			_, _, sizes := r.chunks()
			for _, n := range sizes {
				if n > limit {
					t.Errorf("%s: a chunk of %d bytes", where, n)
				}
			}
			want(t, where+": records dropped", r.Stats().DroppedRecords, 0)
			r.close()
		}
	}
}

// TestLongValues: bytes are limited as texts are, and what can't be cut is dropped whole.
func TestLongValues(t *testing.T) {
	o := quiet()
	o.Limits.ValueLength = 3
	r := newRig(t, o)
	r.Begin("s", &StartOptions{Attributes: []Attr{
		{"bytes", BytesValue([]byte{1, 2, 3, 4})}, String("text", "😀😀😀😀"), {"list", ArrayValue(StringValue("ääää"), StringValue("b"))},
		{"map", MapValue(Attr{"k", BytesValue([]byte("abcd"))})}, {"huge", ArrayValue(make([]Value, 100_000)...)}, Int("n", 123456789),
	}}).End()
	d := r.one(Query{})
	for key, v := range map[string]string{"bytes": "010203", "text": "😀😀😀", "list": `["äää","b"]`, "map": `{"k":"616263"}`, "huge": "none", "n": "123456789"} {
		want(t, key, attr(&d, key), v)
	}
	want(t, "dropped", r.Stats().DroppedAttributes, 1)
	want(t, "cut", r.Stats().Truncated, 4)
}
