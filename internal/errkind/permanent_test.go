package errkind_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// TestPermanent: the mark is found through what wraps it, and changes neither the text, the code nor the identity of an error.
func TestPermanent(t *testing.T) {
	base := errkind.New("queue: full", errkind.ErrQuota)
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{base, false},
		{errkind.Permanent(base), true},
		{fmt.Errorf("a: %w", errkind.Permanent(base)), true},
		{errkind.WithCode("x", errkind.Permanent(base)), true},
		{errors.Join(base, errkind.Permanent(base)), true},
		{fmt.Errorf("a: %v", errkind.Permanent(base)), false},
	} {
		if got := errkind.IsPermanent(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
	if err := errkind.Permanent(base); err.Error() != base.Error() || !errors.Is(err, base) || errkind.Code(err) != "quota" {
		t.Errorf("marked it is %v", err)
	}
	if err := errkind.Permanent(nil); err != nil {
		t.Errorf("nil is %v", err)
	}
}
