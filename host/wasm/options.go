package wasm

import (
	"io"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/host"
)

// Defaults of Options.
const (
	DefaultMemoryPages = 256
	DefaultTurnTimeout = 10 * time.Second
	defaultMaxBytes    = 1 << 20
	defaultTurnBytes   = 16 << 20
	defaultTempBytes   = 64 << 20
	defaultLogBytes    = 64 << 10
	defaultInstances   = 256
	defaultGenerations = 2
	defaultRate        = 100
	defaultBurst       = 1000
)

// Options change what Compile does. The zero value is fine.
type Options struct {
	// MemoryPages bounds the memory of an instance, in pages of 64 KiB. 0 means 256, which
	// are 16 MiB; there are never more than 65,536. A module written in Go begins with 50.
	MemoryPages int
	// Instances bounds the instances of the module in memory at once: for one more, that of
	// an actor that is not in a turn is thrown away, and made again for its next turn. 0
	// means 256. While all are in a turn there may be more.
	Instances int
	// TurnTimeout bounds a turn of an actor, beside host.Options.TurnTimeout. It ends
	// loops, too. 0 means 10 seconds.
	TurnTimeout time.Duration
	// MaxBytes bounds one argument and one result of a host function, a reply and an event,
	// in bytes of CBOR, and a value in SQL. 0 means 1 MiB, less than 4 KiB means 4 KiB.
	MaxBytes int
	// TurnBytes bounds all that a turn asks the host to keep until it lands: the arguments
	// of functions that write or send, and 512 bytes for each. 0 means 16 MiB.
	TurnBytes int
	// TempBytes bounds the temporary files that SQL of an actor makes, for a sort for
	// instance: see vfs.Options. 0 means 64 MiB.
	TempBytes int64
	// LogBytes bounds what an actor logs, its standard output and standard error included:
	// so much at once, and a sixteenth of it per second. The rest is counted and dropped. 0
	// means 64 KiB.
	LogBytes int
	// Letters bound what actors send to others, as host.Letters says, with other defaults:
	// nil for Letters.To means actors of the module's own type, 0 for Letters.Generations 2,
	// for Letters.Rate 100, and for Letters.Burst 1000. A negative Rate means no bound.
	Letters host.Letters
	// CacheDir is a folder for compiled modules, for a program that is started often: a program
	// that can write to it can run code in this one. "" means none.
	CacheDir string
	// Interpret runs modules without compiling them to machine code: they start in a
	// tenth of the time, run some twenty times slower, and have a stack of 2000 calls.
	// Platforms without a compiler always interpret.
	Interpret bool
	// Random is where modules get random bytes from; nil means crypto/rand.
	Random io.Reader
	// Logger gets what a module writes while it is asked what it does. What actors log goes
	// to host.Context.Log. nil means slog.Default().
	Logger *slog.Logger
}

// maxPages is what a 32-bit memory can have.
const maxPages = 1 << 16

// leastBytes is the least that Options.MaxBytes can be: errors and ids must pass.
const leastBytes = 4 << 10

// orDefault returns o with its zero fields replaced.
func (o *Options) orDefault() Options {
	var r Options
	if o != nil {
		r = *o
	}
	r.MemoryPages = min(orInt(r.MemoryPages, DefaultMemoryPages), maxPages)
	r.Instances = orInt(r.Instances, defaultInstances)
	r.MaxBytes = max(orInt(r.MaxBytes, defaultMaxBytes), leastBytes)
	r.TurnBytes = orInt(r.TurnBytes, defaultTurnBytes)
	if r.TempBytes <= 0 {
		r.TempBytes = defaultTempBytes
	}
	r.LogBytes = orInt(r.LogBytes, defaultLogBytes)
	if r.Letters.Generations == 0 {
		r.Letters.Generations = defaultGenerations
	}
	if r.Letters.Rate == 0 {
		r.Letters.Rate = defaultRate
	}
	r.Letters.Burst = orInt(r.Letters.Burst, defaultBurst)
	if r.TurnTimeout <= 0 {
		r.TurnTimeout = DefaultTurnTimeout
	}
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
	return r
}

func orInt(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}
