package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/greenroomdb/greenroom/internal/errkind"
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

// TestFormatRaised: a store of the first format is read as it is, and becomes one of the second when it
// is opened for writing, which older programs refuse.
func TestFormatRaised(t *testing.T) {
	disk, page := vfs.NewMem(), bytes.Repeat([]byte("page"), 1024)
	older(t, disk, page)
	read := func(opts *Options) {
		t.Helper()
		db, err := open("store", opts, disk)
		if err != nil {
			t.Fatal(err)
		}
		if got := newestOf(t, db, []byte("page")); !bytes.Equal(got, page) {
			t.Errorf("the page is %d bytes", len(got))
		}
		if !opts.ReadOnly {
			for range 3 {
				page[7]++
				if err := db.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set([]byte("page"), page)}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	read(&Options{ReadOnly: true})
	if f := formatOf(t, disk); f != pebbleLog {
		t.Errorf("reading has made it %s", f)
	}
	read(&Options{})
	if f := formatOf(t, disk); f != ownLog {
		t.Errorf("it is %s", f)
	}
	read(&Options{ReadOnly: true})
	read(&Options{PatchBytes: -1})
	_, err := pebble.Open("store", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest, Logger: logger{fault: newFault()}})
	if err == nil || !strings.Contains(err.Error(), logDir) {
		t.Errorf("an older program gets %v", err)
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
		{strings.Replace(text, formatLine, formatLine+"log.9", 1), kv.ErrNewerFormat},
		{strings.Replace(text, formatLine, formatLine+"{store_path}/log.9", 1), kv.ErrNewerFormat},
		{strings.Replace(text, formatLine, formatLine+"{store_path}/log.1", 1), kv.ErrNewerFormat},
		{strings.Replace(text, formatLine, "\n  other=", 1), kv.ErrCorrupt},
	} {
		if err := replaceFile(disk, "store", name, tt.text); err != nil {
			t.Fatal(err)
		}
		if _, err := open("store", nil, disk); !errors.Is(err, tt.want) {
			t.Errorf("got %v, want %v", err, tt.want)
		}
	}
	text = strings.Replace(text, formatLine, formatLine+"{store_path}/log.9", 1)
	if err := replaceFile(disk, "store", name, text); err != nil {
		t.Fatal(err)
	}
	var format *kv.FormatError
	if _, err := open("store", nil, disk); !errors.As(err, &format) || format.Found != 9 || format.Known != 2 {
		t.Errorf("got %v", err)
	}
}

// TestFormatForeign: a store of the first format that has a row where the second keeps its own isn't
// converted.
func TestFormatForeign(t *testing.T) {
	disk := vfs.NewMem()
	older(t, disk, []byte("page"))
	db, err := pebble.Open("store", &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set(numberKey, []byte("8 bytes!"), pebble.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := open("store", nil, disk); !errors.Is(err, errkind.ErrUnsupported) || !strings.Contains(err.Error(), "a row of its own") {
			t.Errorf("got %v", err)
		}
		if f := formatOf(t, disk); f != pebbleLog {
			t.Errorf("it is %q", f)
		}
	}
}

// TestLostLog: a store that has lost its log isn't taken for an empty one.
func TestLostLog(t *testing.T) {
	for _, lose := range []func(fs vfs.FS, logs string) error{
		func(fs vfs.FS, logs string) error { return fs.RemoveAll(logs) },
		func(fs vfs.FS, logs string) error { return errors.Join(fs.RemoveAll(logs), fs.MkdirAll(logs, dirMode)) },
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

// TestFormatCrash crashes, or fails, at each step of raising the format: the store is the old
// one or the new one.
func TestFormatCrash(t *testing.T) {
	page := bytes.Repeat([]byte("page"), 1024)
	for step := 0; ; step++ {
		mem := vfs.NewCrashableMem()
		older(t, mem, page)
		d := newDisk(mem)
		var mu sync.Mutex
		n, left, broken := 0, []*vfs.MemFS(nil), errors.New("broken")
		d.set(func(op errorfs.Op) error {
			if !writes(op) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if n++; n != step+1 {
				return nil
			}
			// Not in between: Pebble relies on that of two new names in a directory the second doesn't
			// outlive a crash without the first.
			for _, percent := range []int{0, 100} {
				left = append(left, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(step), 1))}))
			}
			return broken
		})
		db, err := open("store", nil, d)
		if err == nil {
			err = db.Close()
		}
		d.set(func(errorfs.Op) error { return nil })
		mu.Lock()
		steps, left := n, left
		mu.Unlock()
		if steps <= step {
			if err != nil || step < 20 {
				t.Errorf("%v after %d steps", err, step)
			}
			return
		}
		if err != nil && !errors.Is(err, broken) {
			t.Errorf("step %d: %v", step, err)
		}
		for i, fs := range append(left, mem) { // the last one has names that a crash would have taken
			what := fmt.Sprintf("step %d, %d", step, i)
			if f := formatOf(t, fs); f != pebbleLog && f != ownLog {
				t.Errorf("%s: it is %q", what, f)
			}
			db, err := open("store", nil, fs)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := newestOf(t, db, []byte("page")); !bytes.Equal(got, page) {
				t.Errorf("%s: the page is %d bytes", what, len(got))
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if f := formatOf(t, fs); f != ownLog {
				t.Errorf("%s: after opening it is %s", what, f)
			}
		}
	}
}
