package docstore

import (
	"context"
	"errors"
	"iter"
	"maps"
)

// A Tx is a transaction of a Store: its reads are of one state, with its own changes on top. It is for one goroutine
// at a time; see Store.Update. Errors about a path are *Error; those of its methods that aren't said are of
// package txn and of the engine.
type Tx struct {
	*changer
}

// Create creates a document of a type. Its container must exist. Errors: ErrExists, ErrNotFound for the container,
// ErrOperation if that is not a container, ErrPath, ErrValue, ErrTooLarge.
func (tx *Tx) Create(ctx context.Context, path Path, label string, props Properties) error {
	return tx.done("create", path, tx.createDocument(ctx, path, label, maps.Clone(props)))
}

// CreateContainer creates a container. Errors are those of Create.
func (tx *Tx) CreateContainer(ctx context.Context, path Path) error {
	return tx.done("create", path, tx.create(ctx, path, entity{kind: KindContainer}))
}

// CreateCategory creates the category of the documents of a type for which an expression is true. A document that the
// expression doesn't suit isn't in it.
//
// If there are at most 100 documents of the type, of 900 kB, the category is built with them at once, in this transaction. If
// there are more it is StateBuilding, and Store.Build adds those that exist. CreateCatalogue and CreateIndex do the same.
//
// Errors are those of Create, and ErrExpression.
func (tx *Tx) CreateCategory(ctx context.Context, path Path, label, expression string) error {
	return tx.done("create", path, tx.createDerived(ctx, path, KindCategory, label, expression))
}

// CreateCatalogue creates the catalogue of the documents of a type, in groups by the value of an expression. Values that
// are equal in the expression language are one group: 1 and 1.0. A list, a dictionary, bytes, and a text of more
// than 1000 bytes make no group. See CreateCategory.
func (tx *Tx) CreateCatalogue(ctx context.Context, path Path, label, expression string) error {
	return tx.done("create", path, tx.createDerived(ctx, path, KindCatalogue, label, expression))
}

// CreateIndex creates the index of the documents of a type by text, which is the value of an expression. A
// document for which it is not a text isn't in it; one for which it has more than 1,052,672 bytes is ErrTooLarge. The path of
// an index takes at most 300 bytes. See CreateCategory.
func (tx *Tx) CreateIndex(ctx context.Context, path Path, label, expression string) error {
	return tx.done("create", path, tx.createDerived(ctx, path, KindIndex, label, expression))
}

// Entity returns what lies at a path: also a group of a catalogue, the result of a search, and a document in one of them
// or in a category. Errors: ErrNotFound, ErrPath, ErrAmbiguous.
func (tx *Tx) Entity(ctx context.Context, path Path) (*Entity, error) {
	t, err := tx.resolve(ctx, path)
	if err != nil {
		return nil, tx.done("get", path, err)
	}
	return tx.describe(ctx, t), tx.done("get", path, nil)
}

// Exists reports whether something lies at a path. Errors are those of Entity but ErrNotFound.
func (tx *Tx) Exists(ctx context.Context, path Path) (bool, error) {
	_, err := tx.resolve(ctx, path)
	if errors.Is(err, ErrNotFound) {
		return false, tx.done("get", path, nil)
	}
	return err == nil, tx.done("get", path, err)
}

// Properties returns what the document at a path holds. They are the caller's. ErrOperation if it is not a document.
func (tx *Tx) Properties(ctx context.Context, path Path) (Properties, error) {
	d, err := tx.documentAt(ctx, path)
	if err = tx.done("get", path, err); err != nil {
		return nil, err
	}
	return d.props, nil
}

// SetProperties replaces all properties of the document at a path. Errors are those of Properties and Create.
func (tx *Tx) SetProperties(ctx context.Context, path Path, props Properties) error {
	return tx.done("set", path, tx.update(ctx, path, func(d *document) { d.props = maps.Clone(props) }))
}

// SetProperty sets one property of the document at a path.
func (tx *Tx) SetProperty(ctx context.Context, path Path, name string, value any) error {
	return tx.done("set", path, tx.update(ctx, path, func(d *document) { d.props[name] = value }))
}

// RemoveProperty removes one property of the document at a path; a missing one is fine.
func (tx *Tx) RemoveProperty(ctx context.Context, path Path, name string) error {
	return tx.done("set", path, tx.update(ctx, path, func(d *document) { delete(d.props, name) }))
}

// SetLabel makes the document at a path one of another type.
func (tx *Tx) SetLabel(ctx context.Context, path Path, label string) error {
	if err := checkLabel(label); err != nil {
		return tx.done("set", path, err)
	}
	return tx.done("set", path, tx.update(ctx, path, func(d *document) { d.label = label }))
}

// Delete deletes the entity that is stored at a path, not a document through a category. A container with children is
// ErrNotEmpty unless recursive is set; then everything in it is deleted, in this transaction, for which it can be too
// much: Store.Delete takes several.
func (tx *Tx) Delete(ctx context.Context, path Path, recursive bool) error {
	_, err := tx.deleteSome(ctx, path, recursive, 0)
	return tx.done("delete", path, err)
}

// Move moves an entity, with everything in it, to a path at which nothing lies. A category, catalogue or index is
// built again there, see CreateCategory. More than 1000 entities are ErrTooLarge.
func (tx *Tx) Move(ctx context.Context, from, to Path) error {
	return tx.done("move", from, tx.move(ctx, from, to))
}

// Children yields what lies in a container, the members of a category, the groups of a catalogue, and the members of a
// group or a search, by path, from the one behind after on. A document is ErrOperation, and an index yields
// nothing. An error is yielded once, with a nil Entity, and ends the sequence.
func (tx *Tx) Children(ctx context.Context, path, after Path) iter.Seq2[*Entity, error] {
	return func(yield func(*Entity, error) bool) {
		t, err := tx.resolve(ctx, path)
		if err == nil {
			for p, err := range tx.membersOf(ctx, t, after) {
				var e *Entity
				if err == nil {
					e = tx.child(ctx, t, p)
				}
				// A member of what is disabled may not exist any more.
				if err = tx.done("list", path, err); e == nil && err == nil {
					continue
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
		if err = tx.done("list", path, err); err != nil {
			yield(nil, err)
		}
	}
}

// Members yields the paths of what Children yields, and reads no more than those.
func (tx *Tx) Members(ctx context.Context, path Path) Paths {
	return func(yield func(Path, error) bool) {
		t, err := tx.resolve(ctx, path)
		if err != nil {
			yield("", tx.done("list", path, err))
			return
		}
		for p, err := range tx.membersOf(ctx, t, "") {
			if !yield(p, tx.done("list", path, err)) || err != nil {
				return
			}
		}
	}
}

// Err returns why the transaction can't be committed: the first read or write that failed, or an error of a hook. All methods
// return it from then on. Store.Update looks after it.
func (tx *Tx) Err() error { return tx.err }

// done returns what a method returns: why the transaction can't be committed, or else its own error.
func (tx *Tx) done(op string, path Path, err error) error {
	if tx.err != nil {
		err = tx.err
	}
	return wrap(op, path, err)
}
