package docstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/docstore/internal/element"
)

// Properties are what a document holds, by name: nil, bool, int64, uint64, float64, string, []byte, []any and
// map[string]any. On the way in the other integers and floats of Go and []string are taken as well.
type Properties map[string]any

// maxDocument bounds the properties of a document as they are stored, in bytes.
const maxDocument = 1 << 20

// A Kind is what an entity is. The numbers are those that are stored.
type Kind int64

// The kinds of entities.
const (
	KindDocument  Kind = 1 // has properties and a type
	KindCategory  Kind = 2 // the documents of a type for which an expression is true
	KindCatalogue Kind = 3 // the documents of a type in groups, by the value of an expression
	KindContainer Kind = 4 // has children; a group and the result of a search are containers, too
	KindIndex     Kind = 5 // finds the documents of a type by text, which is the value of an expression
)

var kindNames = map[Kind]string{KindDocument: "document", KindCategory: "category", KindCatalogue: "catalogue", KindContainer: "container", KindIndex: "index"}

// String returns the name, "document" for example.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", int64(k))
}

// A State says whether a category, catalogue or index can be read.
type State uint8

// The states. Every change of a document is kept in all of them but the last.
const (
	StateReadable   State = 1 + iota
	StateBuilding         // not all documents are in it yet; reading it is ErrBuilding
	StateRebuilding       // it is read as it was, until what is being built takes its place
	StateDisabled         // its expression was refused, or gives others than were imported; it is read as it was imported
)

// String returns the name, "readable" for example; that of the zero State is empty.
func (s State) String() string {
	return [...]string{"", "readable", "building", "rebuilding", "disabled"}[s]
}

// An Entity is what lies at a path.
type Entity struct {
	// Path is where the entity lies. For a document that was reached through a category, a catalogue or a search it is
	// the document's own path.
	Path Path
	Kind Kind
	// Virtual: it is a group of a catalogue or the result of a search, which are stored nowhere.
	Virtual bool
	// Label is the type of a document, or of the documents of a category, catalogue or index.
	Label string
	// Expression is that of a category, catalogue or index, State says whether it can be read, and
	// Problem is why it is disabled.
	Expression string
	State      State
	Problem    error
	// Group is the value of the documents in a group of a catalogue.
	Group any
}

// records are the entities of a store as they are stored.
type records struct {
	*env
	rows
	derived map[string][]*derived // by label, as far as they were read
}

// entity is what is stored at an entity's path.
type entity struct {
	kind  Kind
	label string
}

// entity returns what is stored of the entity at a path, and whether there is one.
func (r *records) entity(ctx context.Context, p Path) (entity, bool) {
	b, ok := r.get(ctx, entityKey(p))
	if !ok {
		return entity{}, false
	}
	e, err := parseEntity(b)
	if err != nil {
		r.corrupt(entityKey(p), "%w", err)
	}
	return e, err == nil
}

// mustBe is entity for what is known to be there.
func (r *records) mustBe(ctx context.Context, p Path) entity {
	e, ok := r.entity(ctx, p)
	if !ok {
		r.corrupt(entityKey(p), "it is missing")
	}
	return e
}

// parseEntity decodes kind and label.
func parseEntity(b []byte) (e entity, err error) {
	kind, label, err := element.DecodePair(b)
	if err != nil {
		return e, err
	}
	k, isInt := kind.(int64)
	l, isText := label.(string)
	if _, known := kindNames[Kind(k)]; !isInt || !known || !isText && label != nil {
		return e, fmt.Errorf("an entity of kind %v and label %v", kind, label)
	}
	return entity{Kind(k), l}, nil
}

// putEntity stores what an entity is.
func (r *records) putEntity(p Path, e entity) {
	var label any
	if e.label != "" {
		label = e.label
	}
	b, err := element.AppendPair(nil, int64(e.kind), label)
	r.fail(err)
	r.set(entityKey(p), b)
}

// config returns label and expression of a category, catalogue or index.
func (r *records) config(ctx context.Context, k Kind, p Path) (label, expression string) {
	key := configKey(k, p)
	b, ok := r.find(ctx, key)
	if !ok {
		r.corrupt(key, "it is missing")
		return "", ""
	}
	label, expression, err := parseConfig(b)
	if err != nil {
		r.corrupt(key, "%w", err)
	}
	return label, expression
}

// parseConfig decodes label and expression.
func parseConfig(b []byte) (label, expression string, err error) {
	l, e, err := element.DecodePair(b)
	if err != nil {
		return "", "", err
	}
	label, isText := l.(string)
	expression, isText2 := e.(string)
	if !isText || !isText2 {
		err = errors.New("a label and an expression are texts")
	}
	return label, expression, err
}

// load returns a document of a type, as it is stored.
func (r *records) load(ctx context.Context, p Path, label string) *document {
	b, ok := r.find(ctx, propsKey(p))
	d := &document{path: p, label: label, props: Properties{}, size: len(b)}
	if ok {
		props, err := parseProperties(b)
		if err != nil {
			r.corrupt(propsKey(p), "%w", err)
		} else {
			d.props = props
		}
	}
	return d
}

// parseProperties decodes a dictionary.
func parseProperties(b []byte) (Properties, error) {
	v, err := element.Decode(b)
	m, ok := v.(map[string]any)
	if err == nil && !ok {
		err = errors.New("properties are a dictionary")
	}
	return m, err
}

// encode returns the bytes of the properties, which it makes what they will be when they are read.
func (d *document) encode() ([]byte, error) {
	if d.props == nil {
		d.props = Properties{}
	}
	b, err := element.Append(nil, map[string]any(d.props))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrValue, err)
	}
	if len(b) > maxDocument {
		return nil, fmt.Errorf("%w: a document of %d bytes, the bound is %d", ErrTooLarge, len(b), maxDocument)
	}
	d.size = len(b)
	d.props, err = parseProperties(b)
	return b, err
}
