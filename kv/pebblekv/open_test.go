package pebblekv

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/kv"
)

// wantOpenErr checks that opening dir fails with want and names the directory.
func wantOpenErr(t *testing.T, dir string, opts *Options, want error) {
	t.Helper()
	db, err := Open(dir, opts)
	if err == nil {
		t.Errorf("Open succeeded, want %v", want)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open: got %q, want %v with the directory %s", err, want, dir)
	}
}

// create makes a store with one entry in dir.
func create(t *testing.T, dir string) {
	t.Helper()
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set([]byte("k"), []byte("v"))}}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, opts := range []*Options{{MustExist: true}, {ReadOnly: true}} {
		wantOpenErr(t, dir, opts, kv.ErrNoStore)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Open with %+v made the directory", opts)
		}
	}
	empty := t.TempDir()
	wantOpenErr(t, empty, &Options{MustExist: true}, kv.ErrNoStore)
	create(t, dir)
	create(t, empty)
	for _, dir := range []string{dir, empty} {
		db, err := Open(dir, &Options{MustExist: true})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := db.Get(ctx, []byte("k"), nil); string(v) != "v" {
			t.Errorf("reopened: got %q, %v", v, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenSomebodysFiles: Open leaves a directory of other files as it is.
func TestOpenSomebodysFiles(t *testing.T) {
	for _, name := range []string{"notes.txt", "000007.log", "CURRENT", ".hidden", "000004.sst"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, opts := range []*Options{nil, {MustExist: true}, {ReadOnly: true}} {
			wantOpenErr(t, dir, opts, kv.ErrNotAStore)
		}
		if names, err := vfs.Default.List(dir); err != nil || len(names) != 1 {
			t.Errorf("a refused Open left %v, %v", names, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantOpenErr(t, file, nil, kv.ErrNotAStore)
}

// TestOpenTwice: one engine at a time, under whatever name.
func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, dir + "/", link, filepath.Join(dir, "..", filepath.Base(dir))} {
		for _, opts := range []*Options{nil, {ReadOnly: true}} {
			wantOpenErr(t, name, opts, kv.ErrStoreInUse)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	create(t, link)
}

// TestOpenInOtherProcess runs this test binary a second time to hold a store.
func TestOpenInOtherProcess(t *testing.T) {
	const env = "PEBBLEKV_TEST_HOLD"
	if dir := os.Getenv(env); dir != "" {
		db, err := Open(dir, nil)
		fmt.Println("open:", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent lets go
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	dir := t.TempDir()
	create(t, dir)
	cmd := exec.Command(os.Args[0], "-test.run=^TestOpenInOtherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "open:") {
	}
	if got := lines.Text(); got != "open: <nil>" {
		t.Fatalf("the other process says %q", got)
	}
	wantOpenErr(t, dir, nil, kv.ErrStoreInUse)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	create(t, dir)
}

// TestLockError: the numbers of errors are those of the system.
func TestLockError(t *testing.T) {
	windows := runtime.GOOS == "windows"
	for _, test := range []struct {
		err   error
		inUse bool
	}{
		{&fs.PathError{Op: "lock", Path: "LOCK", Err: syscall.EAGAIN}, true},
		{&fs.PathError{Op: "open", Path: "LOCK", Err: syscall.Errno(32)}, windows}, // elsewhere EPIPE
		{&fs.PathError{Op: "open", Path: "LOCK", Err: syscall.EACCES}, false},
	} {
		err := lockError(test.err)
		if errors.Is(err, kv.ErrStoreInUse) != test.inUse || !errors.Is(err, test.err) {
			t.Errorf("%v is told as %v, want in use: %t", test.err, err, test.inUse)
		}
	}
}

// TestOpenNewerFormat gives a store the version of a Pebble to come.
func TestOpenNewerFormat(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	newer := strings.TrimSuffix(markers[0], filepath.Ext(markers[0])) + fmt.Sprintf(".%03d", pebble.FormatNewest+1)
	if err := os.Rename(markers[0], newer); err != nil {
		t.Fatal(err)
	}
	wantOpenErr(t, dir, nil, kv.ErrNewerFormat)
	_, err = Open(dir, nil)
	var format *kv.FormatError
	if !errors.As(err, &format) || format.Found != uint64(pebble.FormatNewest)+1 || format.Known != uint64(pebble.FormatNewest) {
		t.Errorf("got %v, want both versions", err)
	}
}

// TestReadOnly: reads work, commits don't, and no file of the store changes, also
// when there is a log to replay.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	files := func() map[string]string {
		got := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			got[path] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := files()
	db, err := Open(dir, &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := db.Get(ctx, []byte("k"), nil); string(v) != "v" {
		t.Errorf("got %q, %v", v, err)
	}
	if err := db.Commit(ctx, numbered(0)); !errors.Is(err, errReadOnly) {
		t.Errorf("Commit: got %v, want %v", err, errReadOnly)
	}
	if err := db.Sync(ctx, db.Incarnation()); err != nil {
		t.Errorf("Sync: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	after := files()
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("%s changed", name)
		}
		delete(after, name)
	}
	if len(after) > 0 {
		t.Errorf("new files: %v", after)
	}
}

// TestCorrupt damages tables and the MANIFEST: the process lives, and the calls that need them get
// ErrCorrupt.
func TestCorrupt(t *testing.T) {
	const records = 200
	damaged := func(t *testing.T, pattern string) string {
		dir := t.TempDir()
		db, err := Open(dir, tiny)
		if err != nil {
			t.Fatal(err)
		}
		for n := range records {
			if err := db.Commit(ctx, numbered(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for i := 10; i < min(len(b)/2, 200); i++ {
				b[i] ^= 0x55
			}
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	t.Run("tables", func(t *testing.T) {
		var log bytes.Buffer
		opts := *tiny
		opts.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		db, err := Open(damaged(t, "*.sst"), &opts)
		if err != nil {
			t.Fatal(err)
		}
		corrupt := 0
		for n := range records {
			want := numbered(n).Ops[0]
			v, err := db.Get(ctx, want.Key, nil)
			switch {
			case errors.Is(err, kv.ErrCorrupt):
				corrupt++
			case err != nil || !bytes.Equal(v, want.Value):
				t.Errorf("record %d: %d bytes, %v", n, len(v), err)
			}
		}
		var last error
		for _, err := range db.Scan(ctx, kv.Range{}) {
			last = err
		}
		if corrupt == 0 || !errors.Is(last, kv.ErrCorrupt) {
			t.Errorf("%d of %d reads and a scan with %v met corruption", corrupt, records, last)
		}
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if log.Len() == 0 {
			t.Error("nothing was logged")
		}
	})
	t.Run("MANIFEST", func(t *testing.T) {
		wantOpenErr(t, damaged(t, "MANIFEST-*"), tiny, kv.ErrCorrupt)
	})
}

// TestFreeSpace: a store on a disk knows how much room there is, and one in memory doesn't.
func TestFreeSpace(t *testing.T) {
	mem := vfs.NewMem()
	disk, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := open("store", nil, mem)
	if err != nil {
		t.Fatal(err)
	}
	if free, known, err := disk.FreeSpace(); free <= 0 || !known || err != nil {
		t.Errorf("on a disk: %d, %v, %v", free, known, err)
	}
	if free, known, err := memory.FreeSpace(); free != 0 || known || err != nil {
		t.Errorf("in memory: %d, %v, %v", free, known, err)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 42, TotalBytes: 100})
	if free, known, err := memory.FreeSpace(); free != 42 || !known || err != nil {
		t.Errorf("a disk that is told: %d, %v, %v", free, known, err)
	}
	if err := errors.Join(disk.Close(), memory.Close()); err != nil {
		t.Fatal(err)
	}
}
