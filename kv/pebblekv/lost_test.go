package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// TestLostFile removes each file of a store that was closed, or killed, cuts it off, overwrites it with zeros, and has another one
// in its place, or an older copy: everything that was acknowledged is there, or the store says by the name of the file what is damaged.
func TestLostFile(t *testing.T) {
	for _, closed := range []bool{true, false} {
		t.Run(map[bool]string{true: "closed", false: "killed"}[closed], func(t *testing.T) { testLostFile(t, closed) })
	}
}

func testLostFile(t *testing.T, closed bool) {
	s := newLossy(t, closed)
	for i, name := range s.files {
		b := readFile(t, filepath.Join(s.dir, name))
		s.try("nothing done to", name, func(string) error { return nil })
		s.try("without", name, os.Remove)
		for _, n := range []int{0, 1, 36, 40, len(b) / 2, len(b) - 12, len(b) - 1, len(b) / 4096 / 2 * 4096} {
			if n >= 0 && n < len(b) {
				s.try(fmt.Sprintf("%d bytes of", n), name, overwrite(b[:n]))
			}
		}
		s.try("zeros in place of", name, overwrite(make([]byte, len(b))))
		other := s.files[(i+1)%len(s.files)]
		s.try(other+" in place of", name, overwrite(readFile(t, filepath.Join(s.dir, other))))
		// Only a record that comes later says what was on stable storage, and behind the newest file of a store that was
		// killed no record comes.
		if b, err := os.ReadFile(filepath.Join(s.older, name)); err == nil && (closed || name != s.newest()) {
			s.try("an older copy of", name, overwrite(b))
		}
	}
	t.Log(s.outcomes)
	if s.outcomes["whole"] == 0 || s.outcomes["refused"] == 0 {
		t.Errorf("outcomes are %v", s.outcomes)
	}
}

// A lossy is a store whose files are damaged one after the other.
type lossy struct {
	t          *testing.T
	opts       *Options
	dir, older string // the store, and as it was before
	img        string // a copy, which is damaged
	files      []string
	want       map[string]string // what was acknowledged
	outcomes   map[string]int
}

// newLossy makes a store that was closed, or killed.
func newLossy(t *testing.T, closed bool) *lossy {
	t.Helper()
	path := func() string { return filepath.Join(t.TempDir(), "s") }
	s := &lossy{t: t, dir: path(), older: path(), img: path(), want: map[string]string{}, outcomes: map[string]int{}}
	s.opts = &Options{MemtableBytes: 256 << 10, maxLog: 256 << 10} // files of the log of 64 KiB
	from := path()
	db, err := Open(from, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		s.commit(db, n)
		if n == 40 {
			settle(db)
			copyStore(t, from, s.older)
		}
	}
	if !closed {
		settle(db)
		copyStore(t, from, s.dir)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if closed {
		copyStore(t, from, s.dir)
	}
	s.files = storeFiles(t, s.dir)
	return s
}

// commit stores the rows with a number.
func (s *lossy) commit(db *DB, n int) {
	s.t.Helper()
	c := numbered(n)
	c.Ops = append(c.Ops, kv.Set(fmt.Appendf(nil, "large%d", n%7), bytes.Repeat([]byte{byte(n)}, 9000)))
	if err := db.Commit(ctx, c); err != nil {
		s.t.Fatal(err)
	}
	for _, op := range c.Ops {
		if op.Value != nil {
			s.want[string(op.Key)] = string(op.Value)
		}
	}
}

// newest returns the name of the last file of the log.
func (s *lossy) newest() (newest string) {
	for _, name := range s.files {
		if strings.HasSuffix(name, ".wal") {
			newest = name
		}
	}
	return newest
}

// try damages a file of a copy: everything is there then, or the error names a file.
func (s *lossy) try(what, name string, damage func(path string) error) {
	s.t.Helper()
	copyStore(s.t, s.dir, s.img)
	if err := damage(filepath.Join(s.img, name)); err != nil {
		s.t.Fatal(err)
	}
	got, err := readStore(s.img, s.opts)
	switch {
	case err == nil && maps.Equal(got, s.want):
		s.outcomes["whole"]++
	case err == nil:
		s.t.Errorf("%s %s: %d rows of %d, and no error", what, name, len(got), len(s.want))
	case !errors.Is(err, kv.ErrCorrupt):
		s.t.Errorf("%s %s: %v", what, name, err)
	case !names(err, s.img):
		s.t.Errorf("%s %s: the error names no file: %v", what, name, err)
	default:
		s.outcomes["refused"]++
	}
}

// overwrite returns a damage: b is in the place of what the file holds.
func overwrite(b []byte) func(path string) error {
	return func(path string) error { return os.WriteFile(path, b, workaround.FileMode) }
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names reports whether an error names a file of a store.
func names(err error, dir string) bool {
	for line := range strings.SplitSeq(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), " ") {
		base := strings.Trim(filepath.Base(line), ",:()\"'")
		if strings.HasPrefix(base, "MANIFEST") || strings.HasPrefix(base, "OPTIONS") || strings.HasPrefix(base, "marker.") ||
			slices.Contains([]string{".wal", ".sst", ".2"}, filepath.Ext(base)) {
			return true
		}
	}
	return false
}

// storeFiles returns the names of the files of a store, in order.
func storeFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "LOCK" {
			name, rerr := filepath.Rel(dir, path)
			err = rerr
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// copyStore copies a store, which may be open, but does nothing.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	var err error
	for range 100 {
		// An open store still removes what its tables have.
		if err = errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readStore opens a store and returns its rows.
func readStore(dir string, opts *Options) (_ map[string]string, err error) {
	db, err := Open(dir, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows := map[string]string{}
	for e, err := range db.Scan(ctx, kv.Range{}) {
		if err != nil {
			return nil, err
		}
		rows[string(e.Key)] = string(e.Value)
	}
	return rows, nil
}

// TestLostFirst: so it is if the store's making was cut short before the first file of the log had its header.
func TestLostFirst(t *testing.T) {
	dir, img := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "s")
	first := filepath.Join(dir, logDir, "000001.wal")
	if err := errors.Join(os.MkdirAll(filepath.Dir(first), workaround.DirMode), os.WriteFile(first, nil, workaround.FileMode)); err != nil {
		t.Fatal(err)
	}
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, numbered(1)); err != nil {
		t.Fatal(err)
	}
	settle(db)
	copyStore(t, dir, img)
	want, err := readStore(img, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range storeFiles(t, dir) {
		if !strings.HasSuffix(name, ".wal") {
			continue
		}
		copyStore(t, dir, img)
		if err := os.Truncate(filepath.Join(img, name), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := readStore(img, nil); err == nil && !maps.Equal(got, want) || err != nil && !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("without the bytes of %s: %d rows of %d, %v", name, len(got), len(want), err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyLog: a store of which nothing but the log is left is damaged for each kind of Open. What was committed is in what Rebuild makes of it.
func TestOnlyLog(t *testing.T) {
	dir, left := filepath.Join(t.TempDir(), "s"), t.TempDir()
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Commit(ctx, numbered(1)), os.CopyFS(filepath.Join(left, logDir), os.DirFS(filepath.Join(dir, logDir)))); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want, err := readStore(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*Options{{MustExist: true}, {ReadOnly: true}, nil} {
		wantOpenErr(t, left, opts, kv.ErrCorrupt)
	}
	if rows, damage := rebuilt(t, left); !maps.Equal(rows, want) || len(rows) == 0 || damage != nil {
		t.Errorf("rebuilt: %v, want %v; damage %v", rows, want, damage)
	}
}

// TestOptionsCut cuts off the file of options of a store that was killed, and changes a bit of it, in many places: everything is there, or
// it is said what is damaged.
func TestOptionsCut(t *testing.T) {
	dir, copied := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "s")
	opts := &Options{MemtableBytes: 256 << 10, ReadOnly: true}
	db, err := Open(dir, &Options{MemtableBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for n := range 100 {
		c := numbered(n)
		if err := db.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
		want[string(c.Ops[0].Key)] = string(c.Ops[0].Value)
	}
	settle(db)
	copyStore(t, dir, copied)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	name, text, err := readOptions(vfs.Default, copied)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	try := func(what string, at int, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(copied, name), b, workaround.FileMode); err != nil {
			t.Fatal(err)
		}
		got, err := readStore(copied, opts)
		switch {
		case err == nil && maps.Equal(got, want):
			outcomes["whole"]++
		case err == nil:
			t.Errorf("%s %d: %d rows of %d, and no error", what, at, len(got), len(want))
		case !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrNewerFormat) || !names(err, copied):
			t.Errorf("%s %d: %v", what, at, err)
		default:
			outcomes["refused"]++
		}
	}
	line := strings.Index(text, formatLine)
	for at := 0; at < len(text); at++ {
		if near := at > line-5 && at < line+len(formatLine)+len(ownLog)+5; !near && at%testkit.Pick(211, 37, 1) > 0 {
			continue
		}
		b := []byte(text)
		try("cut off at", at, b[:at])
		b[at] ^= 1 << (at % 8)
		try("changed at", at, b)
	}
	t.Log(outcomes)
}

// TestManifestCut cuts off the list of tables of a store that was opened again, anywhere: everything is there, or it is said to be damaged,
// twice in a row. Pebble ends the process where it gives sequence numbers again.
func TestManifestCut(t *testing.T) {
	dir, img := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "s")
	want := map[string]string{}
	for i := range 2 {
		db, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 30 * (1 - i) {
			c := numbered(n)
			if err := db.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
			want[string(c.Ops[0].Key)] = string(c.Ops[0].Value)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	newest := ""
	for _, name := range storeFiles(t, dir) {
		if strings.HasPrefix(name, "MANIFEST") {
			newest = name
		}
	}
	info, err := os.Stat(filepath.Join(dir, newest))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for size := info.Size() - 1; size >= 0; size -= 1 + size%5 {
		copyStore(t, dir, img)
		if err := os.Truncate(filepath.Join(img, newest), size); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			switch got, err := readStore(img, nil); {
			case err != nil && (!errors.Is(err, kv.ErrCorrupt) || !names(err, img)):
				t.Errorf("%d bytes of %d: %v", size, info.Size(), err)
			case err != nil:
				refused++
			case !maps.Equal(got, want):
				t.Errorf("%d bytes of %d: %d rows of %d, and no error", size, info.Size(), len(got), len(want))
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
