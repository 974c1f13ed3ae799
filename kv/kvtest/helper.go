package kvtest

import (
	"bytes"
	"context"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

var ctx = context.Background()

// wantRefused is wantErr of a commit of which nothing was applied, which its error says too.
func wantRefused(t testing.TB, what string, err, want error) {
	t.Helper()
	suite.WantErr(t, what, err, want)
	suite.WantErr(t, what, err, kv.ErrNotApplied)
}

// same compares two byte slices as contents: nil and empty are the same.
func same(a, b []byte) bool { return bytes.Equal(a, b) }
