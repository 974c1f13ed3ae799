package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/tuple"
)

// Attributes are what an actor is found by. Their row lies beside the head, and each of them that is set has a row of the index. The zero
// Attributes have no row at all.
type Attributes struct {
	Workflow string  // state of the actor's workflow; "" without one
	Since    int64   // when the workflow entered it, in ms
	Stuck    bool    // nothing that comes by itself wakes the workflow
	Schema   uint64  // version of the schema of the actor's database; 0 for none
	Slept    int64   // when the actor last fell asleep, in ms; 0 if that isn't known
	Labels   []Label // in the order of their keys, which differ
}

// A Label is a text that an actor's code gives the actor, under a key.
type Label struct{ Key, Value string }

// IsZero reports whether nothing is set.
func (a *Attributes) IsZero() bool {
	return a.Workflow == "" && a.Since == 0 && !a.Stuck && a.Schema == 0 && a.Slept == 0 && len(a.Labels) == 0
}

// Append appends the row.
func (a *Attributes) Append(dst []byte) []byte {
	dst = bare.AppendString(bare.AppendVersion(dst, attributesVersion), a.Workflow)
	dst = bare.AppendBool(bare.AppendI64(dst, a.Since), a.Stuck)
	dst = bare.AppendI64(bare.AppendU64(dst, a.Schema), a.Slept)
	dst = bare.AppendUint(dst, uint64(len(a.Labels)))
	for _, l := range a.Labels {
		dst = bare.AppendString(bare.AppendString(dst, l.Key), l.Value)
	}
	return dst
}

// ParseAttributes decodes the row; id is the actor's, for the errors.
func ParseAttributes(id ID, row []byte) (a Attributes, err error) {
	what := "attributes of actor " + id.String()
	r, err := open(row, attributesVersion, what)
	if err != nil {
		return Attributes{}, err
	}
	a.Workflow, a.Since, a.Stuck, a.Schema, a.Slept = r.String(), r.I64(), r.Bool(), r.U64(), r.I64()
	for i := range r.Len(len(row)) { // a label takes two bytes or more
		a.Labels = append(a.Labels, Label{r.String(), r.String()})
		if i > 0 && a.Labels[i].Key <= a.Labels[i-1].Key {
			r.Fail("label %q follows %q", a.Labels[i].Key, a.Labels[i-1].Key)
		}
	}
	if a.Workflow == "" && (a.Since != 0 || a.Stuck) {
		r.Fail("a state of no workflow")
	}
	if err := r.Done(); err != nil {
		return Attributes{}, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	return a, nil
}

// The attributes of which there are rows of the index: the first element behind the kind.
const (
	FieldLabel    = 1 // Name is its key, Text its value, Order 0
	FieldWorkflow = 2 // Text is the state, Order since when
	FieldStuck    = 3 // Order is since when the workflow is in its state
	FieldSchema   = 4 // Order is the version
	FieldSlept    = 5 // Order is the time
)

// An IndexRow is the key of a row of the index of attributes, which has no value: the actor has that value of the attribute. Rows
// of one value are in the order of Order, and those of one Order in that of the ids.
type IndexRow struct {
	Field      uint64
	Name, Text string
	Order      int64
	ID         ID
}

// Elements says how the key is packed.
func (k *IndexRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, KindIndex)
	e.Uint64(&k.Field)
	e.String(&k.Name)
	e.String(&k.Text)
	e.Int64(&k.Order)
	e.ID((*tuple.UUID)(&k.ID.UUID), &k.ID.Label)
}

// Value returns the codec of the row.
func (IndexRow) Value() keys.Codec[struct{}] { return keys.Empty() }

// Key returns the packed key. It panics if Name or Text isn't UTF-8.
func (k IndexRow) Key() []byte { return appendKey(nil, k) }

// String says what the row is, as part of a sentence.
func (k IndexRow) String() string {
	switch k.Field {
	case FieldLabel:
		return fmt.Sprintf("the label %q=%q", k.Name, k.Text)
	case FieldWorkflow:
		return fmt.Sprintf("a workflow that is %s since %d ms", k.Text, k.Order)
	case FieldStuck:
		return fmt.Sprintf("a workflow that is stuck since %d ms", k.Order)
	case FieldSchema:
		return fmt.Sprintf("the version %d of a schema", k.Order)
	case FieldSlept:
		return fmt.Sprintf("that it fell asleep at %d ms", k.Order)
	}
	return fmt.Sprintf("a value of the unknown attribute %d", k.Field)
}

// ParseIndexKey decodes the key of a row of the index. The error is one of package keys.
func ParseIndexKey(key []byte) (IndexRow, error) { return keys.Parse[IndexRow](key) }

// AppendIndex appends what the keys of the rows of a value of an attribute begin with.
func AppendIndex(dst []byte, field uint64, name, text string) []byte {
	return tuple.AppendString(tuple.AppendString(tuple.AppendUint(AppendRows(dst, KindIndex), field), name), text)
}

// Rows returns the rows of the index that the attributes of an actor have, in ascending order of their keys.
func (a *Attributes) Rows(id ID) (rows []IndexRow) {
	for _, l := range a.Labels {
		rows = append(rows, IndexRow{Field: FieldLabel, Name: l.Key, Text: l.Value, ID: id})
	}
	if a.Workflow != "" {
		rows = append(rows, IndexRow{Field: FieldWorkflow, Text: a.Workflow, Order: a.Since, ID: id})
	}
	if a.Stuck {
		rows = append(rows, IndexRow{Field: FieldStuck, Order: a.Since, ID: id})
	}
	if a.Schema != 0 {
		rows = append(rows, IndexRow{Field: FieldSchema, Order: int64(min(a.Schema, maxSchema)), ID: id})
	}
	if a.Slept != 0 {
		rows = append(rows, IndexRow{Field: FieldSlept, Order: a.Slept, ID: id})
	}
	return rows
}

// maxSchema is the largest version of a schema that the index can tell from others.
const maxSchema = 1<<63 - 1

// SetLabel sets a label, or removes it if value is "". It leaves the labels that a shares with others as they are.
func (a *Attributes) SetLabel(key, value string) {
	i, has := slices.BinarySearchFunc(a.Labels, key, func(l Label, key string) int { return strings.Compare(l.Key, key) })
	labels := slices.Clone(a.Labels)
	switch {
	case has && value == "":
		labels = slices.Delete(labels, i, i+1)
	case has:
		labels[i].Value = value
	case value != "":
		labels = slices.Insert(labels, i, Label{key, value})
	}
	a.Labels = labels
}

// Equal reports whether a and o have the same row.
func (a *Attributes) Equal(o *Attributes) bool {
	return a.Workflow == o.Workflow && a.Since == o.Since && a.Stuck == o.Stuck && a.Schema == o.Schema && a.Slept == o.Slept &&
		slices.Equal(a.Labels, o.Labels)
}

// A Built is how far the index of attributes is built.
type Built struct {
	Done  bool
	After ID // the actor behind which the build goes on; zero at the beginning
}

// BuiltKey returns the key of the row that says how far the index is built.
func BuiltKey() []byte { return AppendRows(nil, kindBuilt) }

// Append appends the row.
func (p *Built) Append(dst []byte) []byte {
	dst = bare.AppendFixed(bare.AppendBool(bare.AppendVersion(dst, builtVersion), p.Done), p.After.UUID[:])
	return bare.AppendU16(dst, p.After.Label)
}

// ParseBuilt decodes the row.
func ParseBuilt(row []byte) (p Built, err error) {
	const what = "progress of the index"
	r, err := open(row, builtVersion, what)
	if err != nil {
		return Built{}, err
	}
	p.Done = r.Bool()
	copy(p.After.UUID[:], r.Fixed(len(p.After.UUID)))
	p.After.Label = r.U16()
	if err := r.Done(); err != nil {
		return Built{}, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	return p, nil
}
