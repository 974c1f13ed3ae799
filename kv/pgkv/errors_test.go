package pgkv

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestDiskFull: of what a server says, only that its disk is full is of a kind.
func TestDiskFull(t *testing.T) {
	for code, full := range map[string]bool{codeDiskFull: true, "53200": false, codeProgramLimit: false} {
		err := wrap("commit", &pgconn.PgError{Code: code, Message: "could not extend file"})
		if errors.Is(err, errkind.ErrNoSpace) != full || errors.Is(err, errkind.ErrQuota) {
			t.Errorf("%v: is %v: %v, want %v", err, errkind.ErrNoSpace, !full, full)
		}
	}
}
