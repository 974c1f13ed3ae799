package errkind_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// TestNew: a sentinel is itself and its kind, and neither another sentinel nor another kind.
func TestNew(t *testing.T) {
	closed, other := errkind.New("queue: closed", errkind.ErrClosed), errkind.New("queue: closed", errkind.ErrClosed)
	err := fmt.Errorf("queue: receive: %w", closed)
	if !errors.Is(err, closed) || !errors.Is(err, errkind.ErrClosed) {
		t.Errorf("%v is not both what it wraps and its kind", err)
	}
	if errors.Is(err, other) || errors.Is(err, errkind.ErrPoisoned) {
		t.Errorf("%v is something that it doesn't wrap", err)
	}
	if got, want := err.Error(), "queue: receive: queue: closed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if next := errors.Unwrap(closed); next != nil {
		t.Errorf("a sentinel wraps %v", next)
	}
}
