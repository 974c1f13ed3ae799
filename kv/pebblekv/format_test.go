package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/pebblekv/internal/workaround"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
)

// older makes a store as programs did that knew neither patches nor a log of its own, with a page
// that is in Pebble's log.
func older(t *testing.T, disk vfs.FS, page []byte) {
	t.Helper()
	db, err := pebble.Open("store", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set([]byte("page"), page, pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// formatOf returns what a store says it is.
func formatOf(t *testing.T, disk vfs.FS) string {
	t.Helper()
	_, text, err := readOptions(disk, "store")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, formatLine)
	format, _, _ := strings.Cut(rest, "\n")
	return format
}

// writeFile writes text to a file of the store.
func writeFile(t *testing.T, disk vfs.FS, name, text string) {
	t.Helper()
	f, err := disk.Create(disk.PathJoin("store", name), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte(text))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// filesOf returns the names and the sizes of the files below a directory.
func filesOf(t *testing.T, disk vfs.FS, dir string) (files []string) {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		info, err := disk.Stat(disk.PathJoin(dir, name))
		switch {
		case err != nil:
			t.Fatal(err)
		case info.IsDir():
			files = append(files, filesOf(t, disk, disk.PathJoin(dir, name))...)
		default:
			files = append(files, fmt.Sprint(disk.PathJoin(dir, name), " ", info.Size()))
		}
	}
	return files
}

// TestFormatOlder: a store of the first format is read as it is, and isn't written to.
func TestFormatOlder(t *testing.T) {
	disk, page := vfs.NewMem(), bytes.Repeat([]byte("page"), 1024)
	older(t, disk, page)
	before := filesOf(t, disk, "store")
	for range 2 {
		db, err := open("store", &Options{ReadOnly: true}, disk)
		if err != nil {
			t.Fatal(err)
		}
		if got := newestOf(t, db, []byte("page")); !bytes.Equal(got, page) {
			t.Errorf("the page is %d bytes", len(got))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := open("store", nil, disk); !errors.Is(err, kv.ErrUnsupported) || !strings.Contains(err.Error(), "commit 3fff319") {
			t.Errorf("got %v", err)
		}
	}
	if f := formatOf(t, disk); f != pebbleLog {
		t.Errorf("it is %s", f)
	}
	if after := filesOf(t, disk, "store"); !slices.Equal(after, before) {
		t.Errorf("it is %v, and was %v", after, before)
	}
}

// TestFormatNewer: a program of the first format refuses a store of the second, and names its log.
func TestFormatNewer(t *testing.T) {
	disk := vfs.NewMem()
	db, err := open("store", nil, disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = pebble.Open("store", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest, Logger: workaround.Logger{Fault: workaround.NewFault()}})
	if err == nil || !strings.Contains(err.Error(), logDir) {
		t.Errorf("an older program gets %v", err)
	}
}

// TestNoOptions: a directory with rows and without the file of options is refused by the name of what is in it, and stays as it is; one whose
// making was cut short becomes a store.
func TestNoOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(t *testing.T, disk vfs.FS)
		want string
	}{
		"tables of the first format": {func(t *testing.T, disk vfs.FS) { older(t, disk, nil) }, ".log is there"},
		"tables":                     {func(t *testing.T, disk vfs.FS) { storeWith(t, disk, true) }, ".sst is there"},
		"a log":                      {func(t *testing.T, disk vfs.FS) { storeWith(t, disk, false) }, "log.2 has records"},
		"nothing":                    {func(t *testing.T, disk vfs.FS) { storeWith(t, disk) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			tt.make(t, disk)
			options, _, err := readOptions(disk, "store")
			if err == nil {
				err = disk.Remove(disk.PathJoin("store", options))
			}
			if err != nil {
				t.Fatal(err)
			}
			before := filesOf(t, disk, "store")
			for _, opts := range []*Options{nil, {ReadOnly: true}} {
				db, err := open("store", opts, disk)
				if tt.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
					continue
				}
				if !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				if after := filesOf(t, disk, "store"); !slices.Equal(after, before) {
					t.Errorf("it is %v, and was %v", after, before)
				}
			}
		})
	}
}

// storeWith makes a store that was killed, with a row that is in the log for each of tables, and in the tables too where that is
// true.
func storeWith(t *testing.T, disk vfs.FS, tables ...bool) {
	t.Helper()
	mem := vfs.NewMem()
	db, err := open("store", nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if err := db.Commit(ctx, numbered(1)); err != nil {
			t.Fatal(err)
		}
		if table {
			if err := db.store.flush(ctx, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err = vfs.Clone(mem, disk, "store", "store")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestFormatUnknown: a store of another format isn't read.
func TestFormatUnknown(t *testing.T) {
	disk := vfs.NewMem()
	older(t, disk, nil)
	name, text, err := readOptions(disk, "store")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		want error
	}{
		{strings.Replace(text, formatLine, formatLine+"log.9", 1), kv.ErrCorrupt},
		{strings.Replace(text, formatLine, formatLine+"{store_path}/log.9", 1), kv.ErrNewerFormat},
		{strings.Replace(text, formatLine, formatLine+"{store_path}/log.1", 1), kv.ErrCorrupt},
		{strings.Replace(text, formatLine, "\n  other=", 1), kv.ErrCorrupt},
	} {
		writeFile(t, disk, name, tt.text)
		if _, err := open("store", nil, disk); !errors.Is(err, tt.want) {
			t.Errorf("got %v, want %v", err, tt.want)
		}
	}
	text = strings.Replace(text, formatLine, formatLine+"{store_path}/log.9", 1)
	writeFile(t, disk, name, text)
	var format *kv.FormatError
	if _, err := open("store", nil, disk); !errors.As(err, &format) || format.Found != 9 || format.Known != 2 {
		t.Errorf("got %v", err)
	}
}

// TestLostLog: a store that has lost its log isn't taken for an empty one.
func TestLostLog(t *testing.T) {
	for _, lose := range []func(fs vfs.FS, logs string) error{
		func(fs vfs.FS, logs string) error { return fs.RemoveAll(logs) },
		func(fs vfs.FS, logs string) error {
			return errors.Join(fs.RemoveAll(logs), fs.MkdirAll(logs, workaround.DirMode))
		},
	} {
		disk := vfs.NewMem()
		db, err := open("store", nil, disk)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Commit(ctx, numbered(1)), db.Close(), lose(disk, disk.PathJoin("store", logDir))); err != nil {
			t.Fatal(err)
		}
		for _, opts := range []*Options{{ReadOnly: true}, nil} {
			if _, err := open("store", opts, disk); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("got %v, want %v", err, kv.ErrCorrupt)
			}
		}
	}
}
