// Package storeurl opens a store from the text that names it on a command line:
// the one place that knows every engine, so that the program and the
// measurements accept the same names.
//
// It is not a registry: engines don't register themselves, and a program that
// knows which engine it wants opens that directly.
package storeurl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/metrics"
)

// Sentinels of this package. What else Open returns comes from the engine
// (kv.ErrNoStore, kv.ErrNotAStore, kv.ErrStoreInUse, …) or from actorstore.
var (
	// ErrURL: the text names no store.
	ErrURL = errors.New("storeurl: not the name of a store")
	// ErrEnvironment: a variable of the environment makes no sense.
	ErrEnvironment = errors.New("storeurl: bad environment")
)

// Options say how to open a store; nil is the zero Options.
type Options struct {
	// Create makes a store where there is none; otherwise that is kv.ErrNoStore.
	Create bool
	// ReadOnly opens a store that is there without ever writing to it. It wins
	// over Create.
	ReadOnly bool
	// Limits are those of actors; zero means batch.DefaultLimits. The environment
	// may lower what they leave open; see package internal/envlimits.
	Limits batch.Limits
	// Logger gets what the engine has to say; nil means that nobody does.
	Logger *slog.Logger
	// Metrics is told what Metrics() lists, by an engine that measures itself; nil is nobody.
	Metrics metrics.Sink
}

// Metrics returns what the engines tell Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric { return pebblekv.Metrics() }

// A Store is an open actor store together with the engine below it.
type Store struct {
	*actorstore.Store
	// Engine is what the store stands on. It is closed with the store.
	Engine kv.Engine
}

// Close closes the store, then its engine.
func (s *Store) Close() error {
	return errors.Join(s.Store.Close(), s.Engine.Close())
}

// Exposed reports whether other users of this machine can read or change the store, as
// pebblekv.DB.Exposed does. It is false for engines that keep no files of their own.
func (s *Store) Exposed() (bool, error) {
	if db, ok := s.Engine.(*pebblekv.DB); ok {
		return db.Exposed()
	}
	return false, nil
}

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

// Open opens the store of that name; see Parse. The caller closes it.
//
// A store in memory is always new, so that without opts.Create, or with
// opts.ReadOnly, it is kv.ErrNoStore.
func Open(ctx context.Context, name string, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	limits, err := envlimits.Apply(opts.Limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	engine, err := openEngine(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	s, err := actorstore.Open(ctx, engine, &actorstore.Options{Limits: limits, ReadOnly: opts.ReadOnly})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &Store{Store: s, Engine: engine}, nil
}

func openEngine(ctx context.Context, name string, opts *Options) (kv.Engine, error) {
	kind, address, err := Parse(name)
	if err != nil {
		return nil, err
	}
	switch kind {
	case pebble:
		return openPebble(address, opts)
	case memory:
		if !opts.Create || opts.ReadOnly {
			return nil, fmt.Errorf("storeurl: open mem: %w", kv.ErrNoStore)
		}
		return memkv.New(), nil
	}
	return openPostgres(ctx, address, opts)
}

// openPebble keeps a nil *pebblekv.DB from becoming an Engine that isn't nil.
func openPebble(dir string, opts *Options) (kv.Engine, error) {
	db, err := pebblekv.Open(dir, &pebblekv.Options{
		MustExist: !opts.Create,
		ReadOnly:  opts.ReadOnly,
		Logger:    opts.Logger,
		Metrics:   opts.Metrics,
	})
	if err != nil {
		return nil, err
	}
	return db, nil
}

// openPostgres is openPebble for PostgreSQL. What is no address comes from there as an
// error that doesn't repeat it, because it may hold a password.
func openPostgres(ctx context.Context, address string, opts *Options) (kv.Engine, error) {
	db, err := pgkv.Open(ctx, address, &pgkv.Options{
		MustExist: !opts.Create,
		ReadOnly:  opts.ReadOnly,
		Logger:    opts.Logger,
	})
	if errors.Is(err, pgkv.ErrURL) {
		return nil, fmt.Errorf("%w: %s", ErrURL, strings.TrimPrefix(err.Error(), pgkv.ErrURL.Error()+": "))
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}
