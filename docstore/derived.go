package docstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/internal/filter"
	"github.com/greenroomdb/greenroom/metrics"
)

// A document is a document's label and properties. A nil *document is one that doesn't exist.
type document struct {
	path  Path
	label string
	props Properties
	size  int // how long the properties are as they are stored
}

// Lookup returns a property to an expression; see filter.Vars. "this" is all of them, if none is called so.
func (d *document) Lookup(name string) (any, bool) {
	v, ok := d.props[name]
	if !ok && name == "this" {
		return map[string]any(d.props), true
	}
	return v, ok
}

// A registration is the row of a category, catalogue or index among those of its type.
type registration struct {
	Kind       Kind   `json:"kind"`
	Expression string `json:"expression"`
	// Live is the generation that is read, and Next the one that is being built.
	Live *int `json:"live,omitempty"`
	Next *int `json:"next,omitempty"`
	// Problem is why the expression was refused. Nothing changes what the entity has then.
	Problem *ExpressionError `json:"problem,omitempty"`
}

// state returns what the row says.
func (r *registration) state() State {
	switch {
	case r.Problem != nil:
		return StateDisabled
	case r.Live == nil:
		return StateBuilding
	case r.Next != nil:
		return StateRebuilding
	}
	return StateReadable
}

// A derived is a category, catalogue or index: what follows from the documents of its type. It isn't changed.
type derived struct {
	registration
	path    Path
	program *filter.Program // nil if it is disabled
}

// bases returns what the keys of all generations begin with that changes are written to.
func (d *derived) bases() (bases []string) {
	for _, g := range []*int{d.Live, d.Next} {
		if g != nil && d.program != nil {
			bases = append(bases, base(d.Kind, d.path, *g))
		}
	}
	return bases
}

// readable returns what the keys of the generation begin with that is read.
func (d *derived) readable() (string, error) {
	if d.Live == nil {
		return "", fmt.Errorf("%w: %s", ErrBuilding, clip(d.path))
	}
	return base(d.Kind, d.path, *d.Live), nil
}

// programs keeps compiled expressions, and rows of the registry that were parsed, by their bytes.
type programs struct {
	mu     sync.Mutex
	parsed map[string]*derived // +checklocks:mu
}

// maxPrograms bounds how many rows are kept.
const maxPrograms = 4096

// parse returns what a row of the registry says.
func (p *programs) parse(path Path, row []byte) (*derived, error) {
	key := string(path) + "\x00" + string(row)
	p.mu.Lock()
	d := p.parsed[key]
	p.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d = &derived{path: path}
	if err := json.Unmarshal(row, &d.registration); err != nil {
		return nil, err
	}
	if d.Problem == nil {
		var err error
		if d.program, err = compile(d.Expression); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parsed == nil || len(p.parsed) >= maxPrograms {
		p.parsed = map[string]*derived{}
	}
	p.parsed[key] = d
	return d, nil
}

// compile returns the program of an expression, or an *ExpressionError.
func compile(source string) (*filter.Program, error) {
	p, err := filter.Compile(source, nil)
	var syntax *filter.SyntaxError
	if errors.As(err, &syntax) {
		return nil, &ExpressionError{source, syntax.Line, syntax.Column, syntax.Message}
	}
	return p, err
}

// value evaluates the expression for a document, and reports whether it has a value: a document that the expression
// doesn't suit has none, and neither has one of another type.
func (r *records) value(ctx context.Context, d *derived, label string, doc *document) (any, bool) {
	if doc == nil || doc.label != label || d.program == nil || r.err != nil {
		return nil, false
	}
	v, err := d.program.Eval(ctx, doc)
	if mismatch(err) {
		r.meter.Count(mismatches, 1)
		return nil, false
	}
	r.fail(err)
	return v, err == nil
}

// mismatch reports whether an expression doesn't suit a document.
func mismatch(err error) bool {
	return errors.Is(err, filter.ErrMismatch) || errors.Is(err, filter.ErrTooCostly)
}

// has returns what a category, catalogue or index has of a document: the text of an index, else the place in a set; and
// false if it has nothing.
func (r *records) has(ctx context.Context, d *derived, label string, doc *document) (string, bool) {
	if d.Kind == KindIndex {
		return r.content(ctx, d, label, doc)
	}
	return r.place(ctx, d, label, doc)
}

// place returns what follows the base in the key of the set that has a document in a category or catalogue, and false if
// none has it.
func (r *records) place(ctx context.Context, d *derived, label string, doc *document) (string, bool) {
	v, ok := r.value(ctx, d, label, doc)
	if !ok {
		return "", false
	}
	place := ":members"
	yes, suits := v.(bool)
	if d.Kind == KindCatalogue {
		place, suits = groupOf(v)
		place, yes = groups+place, suits
	}
	if !suits {
		r.meter.Count(mismatches, 1)
	}
	return place, yes
}

// content returns the text of a document in an index, and false if it has none.
func (r *records) content(ctx context.Context, d *derived, label string, doc *document) (string, bool) {
	v, ok := r.value(ctx, d, label, doc)
	s, isText := v.(string)
	if ok && v != nil && !isText {
		r.meter.Count(mismatches, 1)
	}
	return s, isText
}

// derivedOf returns the categories, catalogues and indexes of a type.
func (r *records) derivedOf(ctx context.Context, label string) []*derived {
	all, ok := r.derived[label]
	if !ok {
		for p, row := range r.prefixed(ctx, registryKey(label)+"\x00", "") {
			all = append(all, r.parse(Path(p), row))
		}
		r.derived[label] = all
	}
	return all
}

// parse returns what a row of the registry says.
func (r *records) parse(p Path, row []byte) *derived {
	d, err := r.programs.parse(p, row)
	if err != nil {
		r.corrupt("reg:…"+string(p), "%w", err)
		d = &derived{path: p}
	}
	return d
}

// derivedAt returns the category, catalogue or index of a kind that is stored at a path, and its label.
func (r *records) derivedAt(ctx context.Context, k Kind, p Path) (*derived, string) {
	label, _ := r.config(ctx, k, p)
	key := registryKey(label) + "\x00" + string(p)
	b, ok := r.get(ctx, key)
	if !ok {
		r.corrupt(key, "it is missing")
		return &derived{path: p}, label
	}
	return r.parse(p, b), label
}

// derivedStored is derivedAt for a path at which there may be something else.
func (r *records) derivedStored(ctx context.Context, p Path) (*derived, string, error) {
	if err := p.check(); err != nil {
		return nil, "", err
	}
	e, ok := r.entity(ctx, p)
	if !ok {
		return nil, "", ErrNotFound
	}
	if e.kind == KindDocument || e.kind == KindContainer {
		return nil, "", fmt.Errorf("%w: a %v is not built", ErrOperation, e.kind)
	}
	d, label := r.derivedAt(ctx, e.kind, p)
	return d, label, nil
}

// register stores the row of a category, catalogue or index.
func (r *records) register(label string, path Path, reg *registration) {
	delete(r.derived, label)
	r.putJSON(registryKey(label)+"\x00"+string(path), reg)
}

// mismatches counts what an expression didn't suit.
var mismatches = &metrics.Metric{Kind: metrics.Counter, Name: "docstore_mismatches", Help: "Documents that an expression did not suit"}
