package docstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/greenroomdb/greenroom/docstore/internal/text"
	"github.com/greenroomdb/greenroom/internal/filter"
)

// A Document is a document that a query found. It is the caller's.
type Document struct {
	Path       Path
	Label      string
	Properties Properties
}

// FindOptions are the options of Find. The zero value is what a nil *FindOptions means.
type FindOptions struct {
	// Params are the values of p0, p1 and so on in the expression.
	Params []any
	// After begins behind a path.
	After Path
	// Limit is how many documents are returned at most; 0 means all.
	Limit int
}

// SearchOptions are the options of Search. The zero value is what a nil *SearchOptions means.
type SearchOptions struct {
	// Regexp: the pattern is a regular expression of Go's package regexp, which is searched for in the normalised
	// text, and in which case doesn't matter.
	Regexp bool
	// Scan reads all documents of the type if the index is still being built, which is ErrBuilding else.
	Scan bool
	// Ranked returns what matches most often first, and what matches equally often by path. Else all is by path.
	Ranked bool
	// After begins behind a path. It is of no use with Ranked.
	After Path
	// Limit is how many documents are returned at most; 0 means all.
	Limit int
}

// A Match is a document that a search found.
type Match struct {
	Path Path
	// Count is how often the pattern matches if the search is Ranked, and 1 if it isn't.
	Count int
}

// A Plan says how Find finds documents.
type Plan struct {
	// Index is the category, catalogue or index whose members are read; empty if all documents of the type are.
	Index Path
	Kind  Kind
	// Group is the value of the group of a catalogue, or the pattern for an index.
	Group any
	// Filter: the expression is evaluated for each document that is read.
	Filter bool
	// Skipped are those that would have been of use but are being built.
	Skipped []Path
	index   *derived
}

// String returns the plan in one line, as "catalogue /by-role, group admin, then the expression".
func (p *Plan) String() string {
	s := "all documents of the type"
	switch p.Kind {
	case KindCategory:
		s = fmt.Sprintf("category %s", p.Index)
	case KindCatalogue:
		s = fmt.Sprintf("catalogue %s, group %v", p.Index, p.Group)
	case KindIndex:
		s = fmt.Sprintf("index %s, pattern %v", p.Index, p.Group)
	}
	if p.Filter {
		s += ", then the expression"
	}
	for _, b := range p.Skipped {
		s += fmt.Sprintf("; %s is still being built", b)
	}
	return s
}

// Find yields the documents of a type for which an expression is true, by path. An empty expression is true for all. A
// category of the same expression is read in place of evaluating it; a catalogue or an index makes the documents fewer for
// which it is evaluated. A document that the expression doesn't suit isn't yielded. Errors: ErrExpression.
func (tx *Tx) Find(ctx context.Context, label, expression string, opts *FindOptions) iter.Seq2[*Document, error] {
	if opts == nil {
		opts = &FindOptions{}
	}
	return func(yield func(*Document, error) bool) {
		q, err := tx.plan(ctx, label, expression, opts.Params)
		if err == nil {
			n := 0
			for p := range tx.candidates(ctx, q, opts.After) {
				d := tx.accept(ctx, q, p)
				if d == nil {
					continue
				}
				if n++; !yield(d, nil) || n == opts.Limit {
					return
				}
			}
			err = tx.err
		}
		if err != nil {
			yield(nil, fmt.Errorf("docstore: find %s: %w", clip(label), err))
		}
	}
}

// Explain returns how Find would find the documents.
func (tx *Tx) Explain(ctx context.Context, label, expression string, opts *FindOptions) (*Plan, error) {
	if opts == nil {
		opts = &FindOptions{}
	}
	q, err := tx.plan(ctx, label, expression, opts.Params)
	if err == nil {
		err = tx.err
	}
	if err != nil {
		return nil, fmt.Errorf("docstore: explain %s: %w", clip(label), err)
	}
	return &q.Plan, nil
}

// A query is a Plan with what it takes to carry it out.
type query struct {
	Plan
	label   string
	program *filter.Program // nil for all documents
	params  filter.Map
}

// plan returns how the documents are found.
func (l *lookup) plan(ctx context.Context, label, expression string, params []any) (*query, error) {
	q := &query{label: label, params: filter.Map{}}
	for i, p := range params {
		q.params[fmt.Sprintf("p%d", i)] = p
	}
	if expression == "" {
		return q, nil
	}
	var err error
	if q.program, err = compile(expression); err != nil {
		return nil, err
	}
	q.Filter = true
	all := l.derivedOf(ctx, label)
	if len(all) == 0 {
		return q, nil
	}
	whole := ""
	if len(params) == 0 {
		whole = q.program.Canonical()
	}
	terms := q.program.Terms(q.params)
	best := 0
	for _, d := range all {
		if d.program == nil {
			continue
		}
		use, rank := d.use(whole, terms)
		switch {
		case rank == 0:
		case d.Live == nil:
			q.Skipped = append(q.Skipped, d.path)
		case rank > best:
			best = rank
			use.Skipped, use.Index, use.Kind, use.index = q.Skipped, d.path, d.Kind, d
			q.Plan = use
		}
	}
	return q, nil
}

// use returns how a category, catalogue or index can serve a query, and how well; 0 if it can't.
func (d *derived) use(whole string, terms []filter.Term) (p Plan, rank int) {
	own := d.program.Canonical()
	p.Filter = true
	if d.Kind == KindCategory {
		if own == whole {
			return Plan{}, 4
		}
		for _, t := range terms {
			if t.Source == own {
				rank = 1
			}
		}
		return p, rank
	}
	for _, t := range terms {
		if t.Subject != own {
			continue
		}
		if d.Kind == KindCatalogue && t.Op == "==" {
			if _, ok := groupOf(t.Value); ok && !rounded(t.Value) {
				p.Group, rank = t.Value, 3
			}
		}
		if s, ok := t.Value.(string); ok && d.Kind == KindIndex && t.Op != "matches" {
			if inner := inside(s); len([]rune(inner)) >= 3 {
				p.Group, rank = "*"+inner+"*", 2
			}
		}
	}
	return p, rank
}

// inside returns the part of a text that stays what it is when it is normalised, whatever stands around it.
func inside(s string) string {
	first, last := norm.NFC.FirstBoundaryInString(s), norm.NFC.LastBoundary([]byte(s))
	if first < 0 || last <= first {
		return ""
	}
	inner := text.Normalize(s[first:last])
	// A letter that folding has taken apart, as ß, may take a mark that stands behind s.
	return inner[:max(norm.NFC.LastBoundary([]byte(inner)), 0)]
}

// candidates yields the documents that the plan reads.
func (l *lookup) candidates(ctx context.Context, q *query, after Path) iter.Seq[Path] {
	if q.index == nil {
		return l.setPaths(ctx, typeKey(q.label), after)
	}
	base, err := q.index.readable()
	l.fail(err) // the plan has none that can't be read
	switch q.Kind {
	case KindCategory:
		return l.setPaths(ctx, base+":members", after)
	case KindCatalogue:
		g, _ := groupOf(q.Group)
		return l.setPaths(ctx, base+groups+g, after)
	}
	pattern, _ := q.Group.(string)
	paths, err := l.found(ctx, q.index, text.Parse(pattern), after)
	l.fail(err)
	return paths
}

// accept returns a candidate if the expression is true for it, and nil if it isn't.
func (l *lookup) accept(ctx context.Context, q *query, p Path) *Document {
	d := l.load(ctx, p, q.label)
	if d.size == 0 { // it has no properties, or was deleted since the list was read
		if _, ok := l.entity(ctx, p); !ok {
			return nil
		}
	}
	if q.Filter {
		ok, err := q.program.Match(ctx, withParams{d, q.params})
		if mismatch(err) {
			l.meter.Count(mismatches, 1)
			return nil
		}
		if l.fail(err); !ok {
			return nil
		}
	}
	if l.err != nil {
		return nil
	}
	return &Document{d.path, d.label, d.props}
}

// withParams is a document with the parameters of a query.
type withParams struct {
	*document
	params filter.Map
}

// Lookup returns a parameter, or a property.
func (w withParams) Lookup(name string) (any, bool) {
	if v, ok := w.params[name]; ok {
		return v, true
	}
	return w.document.Lookup(name)
}

// Search returns the documents whose text in an index matches a pattern: *middle*, start*, *end, or else the whole
// text. Pattern and text are normalised: Unicode's NFC, without a difference of case. Other stars are stars. Errors:
// ErrBuilding, ErrDisabled, ErrOperation if path is not an index, ErrExpression for a regular expression.
func (tx *Tx) Search(ctx context.Context, path Path, pattern string, opts *SearchOptions) ([]Match, error) {
	if opts == nil {
		opts = &SearchOptions{}
	}
	p := text.Parse(pattern)
	if opts.Regexp {
		var err error
		if p, err = text.Regexp(pattern); err != nil {
			return nil, wrap("search", path, fmt.Errorf("%w: %w", ErrExpression, err))
		}
	}
	d, _, err := tx.derivedStored(ctx, path)
	if err == nil && d.Kind != KindIndex {
		err = fmt.Errorf("%w: a %v can't be searched", ErrOperation, d.Kind)
	}
	if err != nil {
		return nil, tx.done("search", path, err)
	}
	m, err := tx.matches(ctx, d, p, opts)
	return m, tx.done("search", path, err)
}

// matches returns the documents of an index that match a pattern.
func (l *lookup) matches(ctx context.Context, d *derived, p *text.Pattern, opts *SearchOptions) (all []Match, err error) {
	found := func(doc Path, count int) bool {
		if doc > opts.After {
			all = append(all, Match{doc, count})
		}
		return true
	}
	switch {
	case d.Problem != nil:
		return nil, fmt.Errorf("%w: %w", ErrDisabled, d.Problem)
	case d.Live != nil:
		textIndex{l.rows, base(d.Kind, d.path, *d.Live)}.search(ctx, p, opts.Ranked, found)
	case opts.Scan:
		l.scanTexts(ctx, d, p, found)
	default:
		return nil, fmt.Errorf("%w: %s", ErrBuilding, clip(d.path))
	}
	slices.SortFunc(all, func(a, b Match) int {
		if a.Count != b.Count && opts.Ranked {
			return b.Count - a.Count
		}
		return strings.Compare(string(a.Path), string(b.Path))
	})
	if opts.Limit > 0 && opts.Limit < len(all) {
		all = all[:opts.Limit]
	}
	return all, nil
}

// scanTexts looks for a pattern in the text of each document.
func (l *lookup) scanTexts(ctx context.Context, d *derived, p *text.Pattern, found func(doc Path, count int) bool) {
	label, _ := l.config(ctx, d.Kind, d.path)
	for doc := range l.members(ctx, typeKey(label), "") {
		s, ok := l.content(ctx, d, label, l.load(ctx, Path(doc), label))
		if !ok {
			continue
		}
		if n := p.Count([]byte(text.Normalize(s))); n > 0 {
			found(Path(doc), n)
		}
	}
}
