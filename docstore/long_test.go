package docstore_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/cases"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/corpus"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestLongSearch compares what an index finds with a scan of the texts: 50 MB of them in the long form, 1 MB in the quick
// one. The rows of the index take at most twice the bytes of the texts, which are among them.
func TestLongSearch(t *testing.T) {
	texts, err := corpus.Texts(testkit.Pick(1<<18, 1<<20, 50<<20))
	must(t, err)
	engine := memkv.New()
	defer engine.Close()
	s, err := docstore.Open(t.Context(), engine, "library", nil)
	must(t, err)
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateContainer(t.Context(), "/t") })
	for first := 0; first < len(texts); first += 500 {
		update(t, s, func(tx *docstore.Tx) error {
			for i, body := range texts[first:min(first+500, len(texts))] {
				if err := tx.Create(t.Context(), textPath(first+i), "Text", docstore.Properties{"body": body}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(t.Context(), "/i", "Text", "body") })
	must(t, s.Build(t.Context(), "/i", nil))

	var normalized []string
	size := 0
	for _, text := range texts {
		normalized = append(normalized, cases.Fold().String(text))
		size += len(text)
	}
	rows := 0
	for e, err := range engine.Scan(t.Context(), kv.Range{}) {
		must(t, err)
		if bytes.Contains(e.Key, []byte("idx:/i:")) {
			rows += len(e.Key) + len(e.Value)
		}
	}
	t.Logf("%d texts of %d bytes, %d bytes in the rows of the index", len(texts), size, rows)
	if rows > 2*size {
		t.Errorf("the rows of the index have %d bytes, more than twice the %d of the texts", rows, size)
	}

	n := testkit.Pick(50, 200, 1000)
	for _, pattern := range append(corpus.Patterns(texts, n), corpus.Short(texts, n/20)...) {
		literal := cases.Fold().String(strings.Trim(pattern, "*"))
		before, after := strings.HasPrefix(pattern, "*"), strings.HasSuffix(pattern, "*")
		compare(t, s, pattern, nil, normalized, func(text string) bool {
			return before && after && strings.Contains(text, literal) || before && !after && strings.HasSuffix(text, literal) ||
				!before && after && strings.HasPrefix(text, literal) || text == literal
		})
	}
	for _, source := range corpus.Expressions(texts, n/10) {
		re := regexp.MustCompile(cases.Fold().String(source)) // faster than with the flag i
		compare(t, s, source, &docstore.SearchOptions{Regexp: true}, normalized, re.MatchString)
	}
}

func textPath(i int) docstore.Path { return docstore.Path(fmt.Sprintf("/t/%06d", i)) }

// compare compares what a search finds with the texts that match.
func compare(t *testing.T, s *docstore.Store, pattern string, opts *docstore.SearchOptions, texts []string, match func(string) bool) {
	t.Helper()
	var got, want []docstore.Path
	must(t, s.View(t.Context(), func(tx *docstore.Tx) error {
		found, err := tx.Search(t.Context(), "/i", pattern, opts)
		for _, m := range found {
			got = append(got, m.Path)
		}
		return err
	}))
	for i, text := range texts {
		if match(text) {
			want = append(want, textPath(i))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q finds %d documents, want %d", pattern, len(got), len(want))
	}
}
