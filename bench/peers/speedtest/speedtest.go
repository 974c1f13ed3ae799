package main

import (
	"context"
	"fmt"
	"strings"
	"testing/fstest"
	_ "unsafe" // for go:linkname

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/internal/sqlite3_wrap"
	"github.com/ncruces/go-sqlite3/internal/testenv"
)

//go:linkname createWrapper github.com/ncruces/go-sqlite3.createWrapper
func createWrapper(ctx context.Context) (*sqlite3_wrap.Wrapper, error)

// maxMemory bounds SQLite's memory, in bytes.
const maxMemory = 64 << 20

// exitStatus is the panic by which speedtest1 ends when it calls exit.
type exitStatus int32

// A terminal keeps what speedtest1 printed last.
type terminal struct {
	ctx  context.Context
	last string
}

// Context and Logf are what go-sqlite3's libc for this program wants of a test.
func (t *terminal) Context() context.Context { return t.ctx }

func (t *terminal) Logf(format string, args ...any) {
	if line := strings.TrimSpace(fmt.Sprintf(format, args...)); line != "" {
		t.last = line
	}
}

// speedtest runs the program with args, on one goroutine at a time: its libc is global.
func speedtest(ctx context.Context, args ...string) (err error) {
	t := &terminal{ctx: sqlite3.WithMaxMemory(ctx, maxMemory)}
	testenv.TB, testenv.FS = t, fstest.MapFS{}
	testenv.Exit = func(c int32) { panic(exitStatus(c)) }
	w, err := createWrapper(t.ctx)
	if err != nil {
		return err
	}
	// Without this program's own handles, whatever it was in the middle of.
	defer func() {
		if closed := w.Close(); err == nil {
			err = closed
		}
	}()
	status := call(w, append([]string{"speedtest1"}, args...))
	if status != 0 || !strings.Contains(t.last, "TOTAL") {
		return fmt.Errorf("speedtest1 %s ends with status %d, after %q", strings.Join(args, " "), status, t.last)
	}
	return nil
}

// call calls C's main and returns its status.
func call(w *sqlite3_wrap.Wrapper, args []string) (status int32) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitStatus:
			status = int32(r)
		default:
			panic(r)
		}
	}()
	const ptr = sqlite3_wrap.PtrLen
	argv := w.New(int64(ptr * len(args)))
	for i, arg := range args {
		w.Write32(argv+sqlite3_wrap.Ptr_t(i)*ptr, uint32(w.NewString(arg)))
	}
	return w.Xmain_speedtest1(int32(len(args)), int32(argv))
}
