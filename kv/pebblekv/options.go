package pebblekv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// What Options leaves at zero.
const (
	defaultCache    = 256 << 20
	defaultMemtable = 64 << 20
)

// pebbleOptions are Pebble's options for a store of d; the caller must Unref the
// cache. Values that aren't Pebble's defaults say why.
func pebbleOptions(opts *Options, d *DB) *pebble.Options {
	log := logger{to: opts.Logger, fault: d.fault}
	o := &pebble.Options{
		Cache:              pebble.NewCache(cmp.Or(opts.CacheBytes, defaultCache)),
		FS:                 d.fence,
		Lock:               d.lock,
		ReadOnly:           opts.ReadOnly,
		ErrorIfNotExists:   opts.MustExist || opts.ReadOnly,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             log,
		EventListener:      d.events(log),
		MemTableSize:       uint64(cmp.Or(opts.MemtableBytes, defaultMemtable)),
		// Both stops are out of reach: writers wait at the gate instead.
		MemTableStopWritesThreshold: 1 << 16,
		L0StopWritesThreshold:       1 << 16,
		CompactionConcurrencyRange:  func() (int, int) { return 1, max(1, runtime.GOMAXPROCS(0)-1) },
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// events are the callbacks that the gate lives on. Pebble calls them with its
// mutex held.
func (d *DB) events(log logger) *pebble.EventListener {
	return &pebble.EventListener{
		// A new log means a new memtable.
		WALCreated:      func(pebble.WALCreateInfo) { d.gate.poke() },
		FlushEnd:        func(i pebble.FlushInfo) { d.gate.worked(failure(i.Err)) },
		CompactionEnd:   func(i pebble.CompactionInfo) { d.gate.worked(failure(i.Err)) },
		BackgroundError: func(err error) { log.Errorf("background work: %v", err) },
		// The default ends the process. Whoever reads the corrupt block gets
		// kv.ErrCorrupt.
		DataCorruption: func(i pebble.DataCorruptionInfo) { log.Errorf("%v", i) },
	}
}

// failure filters what ends a flush or compaction early without being wrong: a
// flush that had nothing to write, and a compaction that is no longer needed.
func failure(err error) error {
	if err == nil || errors.Is(err, pebble.ErrCancelledCompaction) || err.Error() == "pebble: empty table" {
		return nil
	}
	return err
}

// A logger hands Pebble's messages to slog, and what Pebble thinks must end the
// process to the fault.
type logger struct {
	to    *slog.Logger
	fault *fault
}

func (l logger) log(level slog.Level, format string, args []any) {
	if l.to == nil || !l.to.Enabled(context.Background(), level) {
		return
	}
	l.to.Log(context.Background(), level, fmt.Sprintf(format, args...))
}

func (l logger) Infof(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }
func (l logger) Errorf(format string, args ...any) { l.log(slog.LevelError, format, args) }

// A fatal is a message of Pebble with the error that is in it.
type fatal struct {
	msg   string
	cause error
}

func (f *fatal) Error() string { return f.msg }
func (f *fatal) Unwrap() error { return f.cause }

// Fatalf poisons the store and returns. Pebble then goes on as it does with an
// error, on files that take no more writes; see fence.
func (l logger) Fatalf(format string, args ...any) {
	err := &fatal{msg: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err.cause = cause
		}
	}
	l.fault.set(err)
	l.log(slog.LevelError, "%v", []any{err})
}
