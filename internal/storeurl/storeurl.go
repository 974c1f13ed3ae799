// Package storeurl opens a store from the text that names it on a command line:
// the one place that knows every engine, so that the program and the
// measurements accept the same names.
//
// It is not a registry: engines don't register themselves, and a program that
// knows which engine it wants opens that directly.
package storeurl

// Files, from the top down:
//
//	open.go reach.go storeurl.go inuse.go holder_unix.go holder_other.go redact.go

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/metrics"
)

// Sentinels of this package. What else Open returns comes from the engine
// (kv.ErrNoStore, kv.ErrNotAStore, kv.ErrStoreInUse, …) or from greenroom.New.
var (
	// ErrURL: the text names no store.
	ErrURL = errors.New("storeurl: not the name of a store")
	// ErrEnvironment: a variable of the environment makes no sense.
	ErrEnvironment = errors.New("storeurl: bad environment")
)

// Metrics returns what the engines tell the Metrics of the options, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric { return pebblekv.Metrics() }

// A kind is a kind of engine.
type kind string

// The kinds that Parse knows.
const (
	memory   kind = "mem"
	pebble   kind = "pebble"
	Postgres kind = "postgres"
)

// Parse takes the name of a store apart:
//
//	pebble:DIR        the Pebble store in the directory DIR, "pebble"
//	DIR               the same, for a DIR that doesn't look like an address
//	mem:              a new store in memory, which Close forgets
//	postgres://…      PostgreSQL; the address is the whole text, see pgkv.Open
//
// The address is what follows the colon, as it is: it is not percent-decoded.
//
// A slip in an address must not create a directory, whose name would hold the password.
// So what begins with two or more letters and a colon is a kind, never a directory, and
// what looks like an address otherwise is refused: letters and two slashes at the
// beginning (postgres//…), "://", or a colon with an "@" behind it. A directory of such
// a name is written ./NAME or pebble:NAME.
//
// Errors hold no password.
func Parse(name string) (kind kind, address string, err error) {
	scheme, rest, found := strings.Cut(name, ":")
	if !found || !isScheme(scheme) {
		if looksLikeAddress(name) {
			return "", "", fmt.Errorf("%w: %q looks like the address of a server with a slip in it; "+
				"an address begins with postgres://, and a directory of that name is written ./NAME or pebble:NAME", ErrURL, Redact(name))
		}
		scheme, rest = string(pebble), name
	}
	switch scheme {
	case "pebble":
		if rest == "" {
			return "", "", fmt.Errorf("%w: %q has no directory", ErrURL, name)
		}
		if strings.HasPrefix(rest, "//") && strings.Contains(rest, "@") {
			return "", "", fmt.Errorf("%w: %q: pebble: takes a directory, and that looks like a server", ErrURL, Redact(name))
		}
		return pebble, rest, nil
	case "mem":
		if rest != "" {
			return "", "", fmt.Errorf("%w: %q: mem: takes no address", ErrURL, Redact(name))
		}
		return memory, "", nil
	case "postgres", "postgresql":
		return Postgres, name, nil
	}
	return "", "", fmt.Errorf("%w: %q: no engine is called %q (there are pebble:DIR, DIR, mem: and postgres://…)", ErrURL, Redact(name), scheme)
}

// Dir returns the directory in which the store of that name keeps its files, if it is one that keeps some. See Parse.
func Dir(name string) (dir string, is bool, err error) {
	kind, dir, err := Parse(name)
	return dir, err == nil && kind == pebble, err
}

// looksLikeAddress says whether a name without a kind is more likely an address with a
// slip in it than a directory. A path that says that it is one, by its first
// characters, is one.
func looksLikeAddress(name string) bool {
	if strings.HasPrefix(name, "//") { // a share on Windows, without a user
		return hasUserinfo(name)
	}
	for _, path := range []string{"/", "./", "../"} {
		if strings.HasPrefix(name, path) {
			return false
		}
	}
	if len(name) > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/') {
		return strings.HasPrefix(name[2:], "//") // else a drive
	}
	word, _, slashes := strings.Cut(name, "//")
	return slashes && isScheme(word) || strings.Contains(name, "://") || hasUserinfo(name)
}

// isScheme says whether s reads as a kind of engine: letters, digits, "+" and
// "-" after a letter. One letter alone is a drive.
func isScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-", rune(c))) {
			return false
		}
	}
	return len(s) > 1
}

// OpenEngine opens the engine of a store of that name, as Open does, for what stands on the engine beside the
// actors: the store needs none. Of the options it looks at MinFree, MustExist, ReadOnly, WithoutLogRest, Logger
// and Metrics. The caller closes the engine. One that another process has open is an *InUseError.
func OpenEngine(ctx context.Context, name string, o greenroom.Options) (engine kv.Engine, err error) {
	o = quiet(o)
	// What is not an address of PostgreSQL comes from pgkv as an error that doesn't repeat it, because it
	// may hold a password.
	kind, address, err := Parse(name)
	switch {
	case err != nil:
		return nil, err
	case kind == pebble:
		db, err := pebblekv.Open(address, &pebblekv.Options{
			MinFree: o.MinFree, MustExist: o.MustExist, ReadOnly: o.ReadOnly, WithoutLogRest: o.WithoutLogRest, Logger: o.Logger, Metrics: o.Metrics,
		})
		if err != nil {
			return nil, inUse(address, err)
		}
		return db, nil
	case kind == Postgres:
		engine, err = pgkv.Open(ctx, address, &pgkv.Options{MustExist: o.MustExist, ReadOnly: o.ReadOnly, Logger: o.Logger})
		if errors.Is(err, pgkv.ErrURL) {
			err = fmt.Errorf("%w: %s", ErrURL, strings.TrimPrefix(err.Error(), pgkv.ErrURL.Error()+": "))
		}
		return engine, err
	case o.MustExist || o.ReadOnly:
		return nil, fmt.Errorf("storeurl: open mem: %w", kv.ErrNoStore)
	}
	return memkv.New(), nil
}

// quiet gives options without a Logger one that logs nothing.
func quiet(o greenroom.Options) greenroom.Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
