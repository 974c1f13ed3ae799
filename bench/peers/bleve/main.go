// Command bleve is a peer of bench's lines on texts: github.com/blevesearch/bleve/v2 with grams of three characters.
//
//	bleve DIR put|build|search|search-short|load SIZE
//
// It works on SIZE bytes of the texts of package corpus, in an index in DIR. It reads numbers from its standard input, one a
// line. For each it does as many operations and prints the number. It ends with its input. It measures nothing: the program
// that asks takes the time.
//
// Bleve gives all grams of a text one position, so it has no phrase of them: what it finds are the texts that have all
// grams of a pattern, of which some may not match. It returns their ids, and nothing compares the texts, which are not
// stored. A pattern of one or two characters is a wildcard among the grams. A batch is on disk when it returns.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/token/lowercase"
	"github.com/blevesearch/bleve/v2/analysis/token/ngram"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/single"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/greenroomdb/greenroom/internal/corpus"
)

func main() {
	if err := serve(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bleve:", err)
		os.Exit(1)
	}
}

// A session is a workload on one index.
type session struct {
	index    bleve.Index
	texts    []string
	patterns []string
	next     int
}

// grams is the name of the analyzer.
const grams = "grams"

var errUsage = errors.New("want the arguments DIR put|build|search|search-short|load SIZE")

func serve(args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 3 {
		return errUsage
	}
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return errUsage
	}
	s := &session{}
	if s.texts, err = corpus.Texts(size); err != nil {
		return err
	}
	m, err := newMapping()
	if err != nil {
		return err
	}
	if s.index, err = bleve.New(filepath.Join(args[0], "bleve"), m); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.index.Close()) }()
	run, err := s.operation(args[1])
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		for i := 0; i < n && err == nil; i++ {
			err = run()
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
	return lines.Err()
}

// newMapping makes grams of the whole body in small letters, and stores nothing else.
func newMapping() (*mapping.IndexMappingImpl, error) {
	m := bleve.NewIndexMapping()
	err := m.AddCustomTokenFilter(grams, map[string]any{"type": ngram.Name, "min": 3.0, "max": 3.0})
	if err != nil {
		return nil, err
	}
	err = m.AddCustomAnalyzer(grams, map[string]any{"type": custom.Name, "tokenizer": single.Name, "token_filters": []any{lowercase.Name, grams}})
	if err != nil {
		return nil, err
	}
	body, document := bleve.NewTextFieldMapping(), bleve.NewDocumentStaticMapping()
	body.Analyzer, body.Store, body.IncludeInAll, body.IncludeTermVectors, body.DocValues = grams, false, false, false, false
	document.AddFieldMappingsAt("body", body)
	m.DefaultMapping = document
	return m, nil
}

// operation prepares a workload and returns its operation.
func (s *session) operation(workload string) (func() error, error) {
	switch workload {
	case "put":
		return func() error { return s.put(s.texts[s.next%len(s.texts)]) }, nil
	case "build", "load":
		return s.load, nil
	case "search":
		s.patterns = corpus.Patterns(s.texts, 1000)
	case "search-short":
		s.patterns = corpus.Short(s.texts, 1000)
	default:
		return nil, errUsage
	}
	return s.search, s.load()
}

// load puts all texts, 500 at once.
func (s *session) load() error {
	for first := 0; first < len(s.texts); first += 500 {
		if err := s.put(s.texts[first:min(first+500, len(s.texts))]...); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) put(texts ...string) error {
	b := s.index.NewBatch()
	for _, body := range texts {
		if err := b.Index(fmt.Sprintf("/texts/%08d", s.next), map[string]any{"body": body}); err != nil {
			return err
		}
		s.next++
	}
	return s.index.Batch(b)
}

// search looks for the next pattern.
func (s *session) search() error {
	pattern := strings.ToLower(strings.Trim(s.patterns[0], "*"))
	s.patterns = append(s.patterns[1:], s.patterns[0])
	var q query.Query
	if runes := []rune(pattern); len(runes) < 3 {
		wildcard := bleve.NewWildcardQuery("*" + strings.NewReplacer("?", `\?`).Replace(pattern) + "*")
		wildcard.SetField("body")
		q = wildcard
	} else {
		match := bleve.NewMatchQuery(pattern)
		match.SetField("body")
		match.SetOperator(query.MatchQueryOperatorAnd)
		q = match
	}
	request := bleve.NewSearchRequestOptions(q, s.next, 0, false)
	request.Score = "none"
	_, err := s.index.Search(request)
	return err
}
