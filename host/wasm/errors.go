package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/vfs"
)

// Sentinels of this package; errors.Is tells them apart.
var (
	// ErrModule: the code given to Compile isn't a WebAssembly module, or not one for this host.
	ErrModule = errors.New("wasm: bad module")
	// ErrTrap: the module trapped, ended itself, or ran out of its stack. The error is a
	// host.ErrPanic, too.
	ErrTrap = errors.New("wasm: trap")
	// ErrModuleFailed: the module ended its turn with an error that has no code. The text
	// is the module's.
	ErrModuleFailed = errors.New("wasm: module failed")
)

// What the guest is told of mistakes of its own: each is a code, with a text that it may
// see. They never leave a turn but as what the module makes of them.
var (
	errPointer  = &host.Error{Code: "bad_pointer", Message: "the bytes are not in the memory of the module"}
	errNoTurn   = &host.Error{Code: "no_turn", Message: "there is no turn"}
	errTooEarly = &host.Error{Code: "too_early", Message: "an actor can't be destroyed while it wakes"}
	errBudget   = &host.Error{Code: "turn_too_large", Message: "the turn has asked the host to keep too much"}
	errQuery    = &host.Error{Code: "bad_query", Message: "the statement must be a single one that begins with one of " +
		strings.Join(statements, ", ")}
	errTxOver = &host.Error{Code: "transaction_over", Message: "the transaction was rolled back; the turn can't land"}
)

// tooLarge says that something doesn't fit through.
func tooLarge(what string, limit int) error {
	return &host.Error{Code: "too_large", Message: fmt.Sprintf("%s has more than %d bytes", what, limit)}
}

// badArgument says what is wrong with an argument. What is wrapped knows nothing but
// what the guest has said.
func badArgument(err error) error {
	return &host.Error{Code: "bad_argument", Message: err.Error(), Err: err}
}

// maxText bounds the texts of faults, in bytes, and maxCode their codes.
const (
	maxText = 1024
	maxCode = 64
)

// clip shortens a text, and makes it UTF-8.
func clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// faultOf returns what the guest is told about an error.
func faultOf(err error) *abi.Fault {
	f := &abi.Fault{Code: host.Code(err), Message: host.Message(err)}
	var sql *sqlError
	switch {
	case f.Code != "internal":
	case queue.Code(err) != "":
		f.Code, f.Message = queue.Code(err), err.Error()
	case errors.Is(err, persist.ErrJob):
		f.Code, f.Message = "bad_job", err.Error()
	case errors.As(err, &sql) && (vfs.Cause(err) == nil || errors.Is(err, vfs.ErrTempFull) || errors.Is(err, vfs.ErrNoMemory) || errors.Is(err, vfs.ErrTooDeep)):
		f.Code, f.Message = "sql", sql.Error()
	}
	return &abi.Fault{Code: clip(f.Code, maxCode), Message: clip(f.Message, maxText)}
}

// A sqlError is what SQLite says about a statement of the guest's.
type sqlError struct{ err error }

func (e *sqlError) Error() string { return e.err.Error() }

func (e *sqlError) Unwrap() error { return e.err }

// failure returns the error of a turn that the module has failed. last is what a host
// function said before: if the module passes that on, what is behind it goes along.
func failure(f *abi.Fault, last error) error {
	var err error
	code, text := clip(f.Code, maxCode), clip(f.Message, maxText)
	if code == "" {
		err = fmt.Errorf("%w: %s", ErrModuleFailed, text)
	} else {
		e := &host.Error{Code: code, Message: text}
		if last != nil && faultOf(last).Code == code {
			e.Err = last
		}
		err = e
	}
	if f.Permanent {
		err = queue.Permanent(err)
	}
	return err
}

// trapped returns the error of a call that the runtime has ended.
func trapped(ctx context.Context, err error) error {
	if errors.Is(err, ErrModule) {
		return err
	}
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("wasm: the turn was ended: %w", cause)
	}
	return fmt.Errorf("%w: %w: %s", host.ErrPanic, ErrTrap, clip(err.Error(), maxText)) // with a stack, of any length
}
