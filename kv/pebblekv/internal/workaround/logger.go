package workaround

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Events are the callbacks that the gate and the compactor live on. Pebble calls them with its
// mutex held.
func Events(g *Gate, c *Compactor, log Logger) *pebble.EventListener {
	return &pebble.EventListener{
		FlushEnd: func(i pebble.FlushInfo) { g.worked(failure(i.Err)) },

		CompactionEnd: func(i pebble.CompactionInfo) {
			g.worked(failure(i.Err))
			c.ended(i.Err)
		},
		BackgroundError: func(err error) { log.Errorf("background work: %v", err) },
		// The default ends the process. A reader of the corrupt block gets
		// kv.ErrCorrupt.
		DataCorruption: func(i pebble.DataCorruptionInfo) { log.Errorf("%v", i) },
	}
}

// failure filters what ends a flush or compaction early without being wrong: a
// flush that had nothing to write, and a compaction that isn't needed any more.
func failure(err error) error {
	if err == nil || errors.Is(err, pebble.ErrCancelledCompaction) && !vfs.IsNoSpaceError(err) || err.Error() == "pebble: empty table" {
		return nil
	}
	return err
}

// A Logger hands Pebble's messages to slog, and what Pebble thinks must end the
// process to the fault.
type Logger struct {
	To    *slog.Logger // nil for nothing
	Fault *Fault
}

func (l Logger) log(level slog.Level, format string, args []any) {
	if l.To == nil || !l.To.Enabled(context.Background(), level) {
		return
	}
	l.To.Log(context.Background(), level, fmt.Sprintf(format, args...))
}

// Infof logs a message at the level Debug.
func (l Logger) Infof(format string, args ...any) { l.log(slog.LevelDebug, format, args) }

// Errorf logs a message at the level Error.
func (l Logger) Errorf(format string, args ...any) { l.log(slog.LevelError, format, args) }

// A fatal is a message of Pebble with the error that is in it.
type fatal struct {
	msg   string
	cause error
}

func (f *fatal) Error() string { return f.msg }
func (f *fatal) Unwrap() error { return f.cause }

// Fatalf poisons the store and returns. Pebble then goes on as it does with an
// error, on files that take no more writes; see Fence.
func (l Logger) Fatalf(format string, args ...any) {
	err := &fatal{msg: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err.cause = cause
		}
	}
	l.Fault.Set(err)
	l.log(slog.LevelError, "%v", []any{err})
}
