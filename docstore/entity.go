package docstore

import (
	"context"
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
	StateDisabled         // its expression was refused; it is read as it was imported
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
	rows    *rows
	derived map[string][]*derived // by label, as far as they were read
}

// entity is what is stored at an entity's path.
type entity struct {
	kind  Kind
	label string
}

// find returns what is stored of the entity at a path.
func (r *records) find(ctx context.Context, p Path) (e entity, ok bool, err error) {
	b, ok, err := r.rows.get(ctx, entityKey(p))
	if err != nil || !ok {
		return e, false, err
	}
	e, err = parseEntity(b)
	return e, true, wrapRow(entityKey(p), err)
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
		return e, fmt.Errorf("%w: an entity of kind %v and label %v", ErrCorrupt, kind, label)
	}
	return entity{Kind(k), l}, nil
}

// wrapRow returns err with the row that it is about, as ErrCorrupt.
func wrapRow(key string, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, clip(key), err)
	}
	return nil
}

// putEntity stores what an entity is.
func (r *records) putEntity(p Path, e entity) error {
	var label any
	if e.label != "" {
		label = e.label
	}
	b, err := element.AppendPair(nil, int64(e.kind), label)
	if err != nil {
		return fmt.Errorf("%w: label: %w", ErrValue, err)
	}
	return r.rows.w.Set([]byte(entityKey(p)), b)
}

// config returns label and expression of a category, catalogue or index.
func (r *records) config(ctx context.Context, k Kind, p Path) (label, expression string, err error) {
	key := configKey(k, p)
	b, ok, err := r.rows.find(ctx, key)
	if err != nil {
		return "", "", err
	}
	if !ok {
		return "", "", fmt.Errorf("%w: %s is missing", ErrCorrupt, clip(key))
	}
	label, expression, err = parseConfig(b)
	return label, expression, wrapRow(key, err)
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
		return "", "", fmt.Errorf("%w: a label and an expression are texts", ErrCorrupt)
	}
	return label, expression, nil
}

// load returns a document of a type, as it is stored.
func (r *records) load(ctx context.Context, p Path, label string) (*document, error) {
	b, ok, err := r.rows.find(ctx, propsKey(p))
	if err != nil {
		return nil, err
	}
	d := &document{path: p, label: label, props: Properties{}, size: len(b)}
	if ok {
		d.props, err = parseProperties(b)
	}
	return d, wrapRow(propsKey(p), err)
}

// parseProperties decodes a dictionary.
func parseProperties(b []byte) (Properties, error) {
	v, err := element.Decode(b)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: properties are a dictionary", ErrCorrupt)
	}
	return m, nil
}

// encode returns the document with properties as they will be read, and their bytes.
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
