package filter

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

var (
	// ErrMismatch is what Eval and Match return when the data doesn't suit the expression: no
	// such operation on values of these types, a division by zero, an index out of range, a
	// value that has no place in an expression, or a result that isn't what the caller needs.
	// Other data may suit it. For a filter it is the same as false.
	ErrMismatch = errors.New("filter: the data does not suit the expression")

	// ErrTooCostly is what Eval and Match return when the work exceeds Options.CostLimit.
	ErrTooCostly = errkind.New("filter: too costly", errkind.ErrTooLarge)
)

// A SyntaxError says why Compile has refused an expression, and where.
type SyntaxError struct {
	// Line and Column count from 1. A column is a character, a Unicode code point. A line ends
	// with "\n".
	Line, Column int
	// Offset is the same place in bytes from the beginning of the source, counted from 0.
	Offset int
	// Message says what is wrong. It is one sentence without a place.
	Message string
}

// Error has the place in front of the message.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("filter: %d:%d: %s", e.Line, e.Column, e.Message)
}

// A mismatch is an ErrMismatch with its cause.
type mismatch struct{ cause error }

func (m *mismatch) Error() string        { return ErrMismatch.Error() + ": " + m.cause.Error() }
func (m *mismatch) Is(target error) bool { return target == ErrMismatch }
