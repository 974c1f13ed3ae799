package docstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestWideRow(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	var b strings.Builder
	for r := rune(0x3400); r < 0xd7a0; r++ {
		fmt.Fprintf(&b, ": %c", r)
	}
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") })
	for i := range 5 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", i)), "T", props{"s": b.String()})
		})
	}
	if err := s.Rebuild(ctx, "/idx", nil); err != nil {
		t.Errorf("rebuild: %v", err)
	}
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		for _, p := range []string{"*: 한*", "*한:*", "*:*", "*: *", "*丁: 丂*"} {
			if m, err := tx.Search(ctx, "/idx", p, nil); err != nil || len(m) != 5 {
				t.Errorf("%s finds %v, %v", p, m, err)
			}
		}
		return nil
	}))
	checked(t, s)
}

// odd returns a random text of characters that normalisation changes.
func odd(r *rand.Rand, n int) string {
	pool := []rune("aAbeiIsSßẞſkKKåÅÅ\u0301\u0308\u0345\u0327\u030c\u0131İĳŉǰΐΰᾳᾴᾷιΙσςΣ가각각日本😀~\x00\x02\x03:*. \u09c7\u09be\u0b47\u0b56ᏸᲀꭰᎠﬁﬃ\ufffdµμ")
	var b strings.Builder
	for range n {
		b.WriteRune(pool[r.IntN(len(pool))])
	}
	return b.String()
}

func rowsWith(t *testing.T, s *docstore.Store, part string) (n int) {
	t.Helper()
	keys, err := docstore.Keys(t.Context(), s)
	must(t, err)
	for _, k := range keys {
		if strings.Contains(k, part) {
			n++
		}
	}
	return n
}

func TestDeletedTexts(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/i", "T", "s") })
	for i := range 24 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", i)), "T", props{"s": fmt.Sprint("secret ", i)})
		})
	}
	for i := range 24 {
		update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, docstore.Path(fmt.Sprint("/", i)), false) })
	}
	if n := rowsWith(t, s, ":txt\x00"); n > 4 {
		t.Errorf("%d texts of deleted documents are left", n)
	}
	checked(t, s)
}

func TestLongPending(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/i", "T", "s") })
	for i := range 12 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", i)), "T", props{"s": strings.Repeat("text ", 180_000)})
		})
	}
	if n := rowsWith(t, s, ":new\x00"); n > 40 {
		t.Errorf("%d rows of pending texts of 10 MB", n)
	}
	checked(t, s)
}

// TestAlternatives: alternatives that no document has rule out all of them, without a look at their texts.
func TestAlternatives(t *testing.T) {
	ctx := t.Context()
	e := faultkv.New(memkv.New())
	s, err := docstore.Open(ctx, e, "c", nil)
	must(t, err)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/i", "T", "s") })
	for b := range 3 {
		update(t, s, func(tx *docstore.Tx) error {
			for i := range 600 {
				if err := tx.Create(ctx, docstore.Path(fmt.Sprintf("/%d-%d", b, i)), "T", props{"s": fmt.Sprint("common text abc ", i)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	scans := func(pattern string) int64 {
		e.Reset()
		must(t, s.View(ctx, func(tx *docstore.Tx) error {
			_, err := tx.Search(ctx, "/i", pattern, &docstore.SearchOptions{Regexp: true})
			return err
		}))
		return e.Counts().Scans
	}
	if one, two := scans("qqqq.*abc"), scans("(qqqq|zzzz).*abc"); two > one+3 {
		t.Errorf("%d scans, and %d with an alternative", one, two)
	}
}
