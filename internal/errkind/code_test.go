package errkind_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// TestCode: an error's own code comes before that of its kind, also through what wraps it.
func TestCode(t *testing.T) {
	quota := errkind.New("queue: full", errkind.ErrQuota)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("other"), ""},
		{fmt.Errorf("a: %w", quota), "quota"},
		{errors.Join(quota, errkind.ErrUnknownOutcome), "unknown_outcome"},
		{fmt.Errorf("a: %w", errkind.WithCode("sold_out", quota)), "sold_out"},
		{errkind.WithCode("outer", errkind.WithCode("inner", quota)), "outer"},
		{errkind.WithCode("", quota), "quota"},
	} {
		if got := errkind.Code(tt.err); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
	err := errkind.WithCode("sold_out", quota)
	if err.Error() != quota.Error() || !errors.Is(err, quota) {
		t.Errorf("with a code it is %v", err)
	}
	if err := errkind.WithCode("x", nil); err != nil {
		t.Errorf("nil with a code is %v", err)
	}
}
