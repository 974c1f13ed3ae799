package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

// ErrInterrupted: a signal ended what was being done.
var ErrInterrupted = sqlrun.ErrInterrupted

// A UsageError is a wrong call that only the command itself can tell.
type UsageError struct{ text string }

// Error is the sentence.
func (e *UsageError) Error() string { return e.text }

// Usage returns the error of a wrong call.
func Usage(text string) error { return &UsageError{text} }

// ErrProblems: a check found problems, and has written them.
var ErrProblems = errors.New("there are problems")

// packages matches the names of packages with which their errors begin, which say nothing to the user.
var packages = regexp.MustCompile(`(^|: |; )((actorstore|admin|alarm|archive|batch|bucket|cbor|conn|docstore|filter|front|greenroom|history|host|itemstore|jwt|keys|kv|optimistic|pebblekv|persist|pgkv|queue|remotekv|rivetstore|rivettables|s3|sealed|signed|storeurl|text|traces|tuple|txn|vfs|wal|wasm|workflow): )+`)

// Message is what the user reads about err: one line.
func Message(err error) string {
	switch {
	case errors.Is(err, kv.ErrPoisoned):
		// Each floor has its own words for it.
		return fmt.Sprintf("the store has failed: %v; what was acknowledged is in it, and it can be opened again when this is mended", poison(err))
	case errors.Is(err, context.Canceled):
		err = ErrInterrupted
	}
	return packages.ReplaceAllString(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), "$1")
}

// poison returns what has made a store fail, of an error that is kv.ErrPoisoned.
func poison(err error) error {
	for _, below := range unwrap(err) {
		if below != kv.ErrPoisoned && errors.Is(below, kv.ErrPoisoned) {
			return poison(below)
		}
	}
	return RootCause(err)
}

// RootCause returns the last of a chain of errors, which says it without names and
// addresses.
func RootCause(err error) error {
	for next := unwrap(err); len(next) > 0; next = unwrap(err) {
		err = next[len(next)-1]
	}
	if bad, ok := err.(*net.AddrError); ok {
		return errors.New(bad.Err)
	}
	return err
}

// unwrap returns the errors that err wraps.
func unwrap(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Unwrap() error }:
		if next := e.Unwrap(); next != nil {
			return []error{next}
		}
	}
	return nil
}

// Redacted is a message without the passwords that the program was called with. A store
// is shown without one wherever a message names it; this is for addresses in a place where
// no store is expected, which messages quote as they quote any word.
func Redacted(message string, args []string) string {
	for _, arg := range args {
		_, value, _ := strings.Cut(arg, "=") // of a flag
		for _, word := range []string{arg, value} {
			// Others with a colon and an "@" in them are keys and names of actors.
			if !strings.Contains(word, "//") && !strings.HasPrefix(word, "postgres") {
				continue
			}
			shown := storeurl.Redact(word)
			quoted := strconv.Quote(word)
			message = strings.ReplaceAll(message, word, shown)
			message = strings.ReplaceAll(message, quoted[1:len(quoted)-1], shown)
		}
	}
	return message
}
