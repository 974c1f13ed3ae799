package itemstore

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of an item store. Those of package txn and of engines come as well.
var (
	// ErrNotFound: no item has the path.
	ErrNotFound = errkind.New("itemstore: no such item", errkind.ErrNotFound)
	// ErrPath: what was given as a path isn't one, or isn't the path of an item type.
	ErrPath = errors.New("itemstore: bad path")
	// ErrPathTaken: another item has one of the item's paths. It comes as a *PathTakenError. Nothing was changed.
	ErrPathTaken = errkind.New("itemstore: path is taken", errkind.ErrConflict)
	// ErrExists: an item that must not exist does. Nothing was changed.
	ErrExists = errkind.New("itemstore: item exists", errkind.ErrConflict)
	// ErrMoved: an item with a Meta was read at one primary path and put at another one.
	// Put a new value, and delete the old item.
	ErrMoved = errors.New("itemstore: item was read at another primary path")
	// ErrInvalid: an item breaks a rule of its type: a required field is zero, or a condition doesn't hold.
	// It comes as a *FieldError.
	ErrInvalid = errors.New("itemstore: invalid item")
	// ErrSchema: a schema can't be what it says it is; a template of a key path comes as a *TemplateError.
	ErrSchema = errors.New("itemstore: bad schema")
	// ErrIncompatible: a version of the schema would break readers or writers of one that is published.
	ErrIncompatible = errors.New("itemstore: schema versions don't fit together")
	// ErrUnknownType: an item is of a type that the schema lacks.
	ErrUnknownType = errors.New("itemstore: item type is not in the schema")
	// ErrToken: bytes are not a token of this store, or not of this version of the schema.
	ErrToken = errors.New("itemstore: bad token")
	// ErrCorrupt: what is stored is not what the format allows.
	ErrCorrupt = errkind.New("itemstore: stored data is corrupt", errkind.ErrCorrupt)
	// ErrNewerFormat: a newer version of the module wrote it.
	ErrNewerFormat = errkind.New("itemstore: newer format", errkind.ErrNewerFormat)
)

// A PathTakenError says which path of an item another one has.
type PathTakenError struct {
	Path  Path
	Owner Path // the primary path of the other item
}

// Error names both.
func (e *PathTakenError) Error() string {
	return fmt.Sprintf("%v: %s belongs to %s", ErrPathTaken, clip(string(e.Path)), clip(string(e.Owner)))
}

// Unwrap returns ErrPathTaken.
func (e *PathTakenError) Unwrap() error { return ErrPathTaken }

// A FieldError says which field of an item breaks a rule.
type FieldError struct {
	Type, Field string
	What        string // what is wrong with it
}

// Error names type, field and rule.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%v: %s.%s %s", ErrInvalid, e.Type, e.Field, e.What)
}

// Unwrap returns ErrInvalid.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// A TemplateError says which rule a template of a key path breaks, and where.
type TemplateError struct {
	Type, Template string
	Rule           string // "R1" to "R9", see Type
	Pos            int    // the byte of the template, from 0
	What           string
}

// Error names type, template, place and rule.
func (e *TemplateError) Error() string {
	return fmt.Sprintf("%v: %s: key path %q: rule %s at byte %d: %s", ErrSchema, e.Type, clip(e.Template), e.Rule, e.Pos, e.What)
}

// Unwrap returns ErrSchema.
func (e *TemplateError) Unwrap() error { return ErrSchema }
