package history

import (
	"fmt"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Failure is the error with which a workflow failed, as stored: CBOR of {name, message,
// stack?, metadata?}.
type Failure struct {
	Name    string // of the error's type
	Message string
	Stack   string // "" for none
	// Metadata are further properties of the error: text, numbers, truth values and null.
	// nil for none.
	Metadata cbor.Object
}

// Error returns the name and the message.
func (f *Failure) Error() string { return f.Name + ": " + f.Message }

// Encode returns f in CBOR. A member of the metadata that is something else is an error.
func (f *Failure) Encode() ([]byte, error) {
	o := cbor.Object{{Name: "name", Value: f.Name}, {Name: "message", Value: f.Message}}
	if f.Stack != "" {
		o = append(o, cbor.Member{Name: "stack", Value: f.Stack})
	}
	if f.Metadata != nil {
		o = append(o, cbor.Member{Name: "metadata", Value: f.Metadata})
	}
	b, err := cbor.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("history: error: %w", err)
	}
	return b, nil
}
