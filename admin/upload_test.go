package admin_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
)

// endless is a body that has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return len(p), nil
}

// TestMaxUpload: a database as large as may be is taken, and one byte more is refused, without a file that is left and without waiting for its end.
func TestMaxUpload(t *testing.T) {
	name := filepath.Join(t.TempDir(), "small.db")
	c, err := sqlite3.Open(name)
	if err == nil {
		err = errors.Join(c.Exec("create table t(a); insert into t values (7), (8), (9)"), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, admin.Options{MaxUpload: int64(len(file))})
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	left := func() {
		t.Helper()
		files, err := os.ReadDir(temp)
		if err != nil || len(files) > 0 {
			t.Errorf("%v are left, %v", files, err)
		}
	}
	for _, body := range []io.Reader{bytes.NewReader(append(bytes.Clone(file), 0)), endless{}} {
		err := r.client.ImportDatabase(t.Context(), "room", false, body)
		var e *admin.Error
		if !errors.As(err, &e) || e.Code != "too_large" || !errors.Is(err, greenroom.ErrTooLarge) || !strings.Contains(err.Error(), "bytes, which is the most") || r.count() != 1 {
			t.Errorf("a database that is too large: %v, %d rows", err, r.count())
		}
		left()
	}
	if err := r.client.ImportDatabase(t.Context(), "room", false, bytes.NewReader(file)); err != nil || r.count() != 3 {
		t.Errorf("one that may be: %v, %d rows", err, r.count())
	}
	left()
}
