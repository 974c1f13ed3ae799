package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// errInterrupted: a signal ended what was being done.
var errInterrupted = sqlrun.ErrInterrupted

// A usageError is a wrong call that only the command itself can tell.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// say returns err as a sentence.
func say(err error, format string, args ...any) error { return errkind.Say(err, format, args...) }

// packages matches the names of packages with which their errors begin, which say nothing to the user.
var packages = regexp.MustCompile(`(^|: |; )((actorstore|admin|batch|greenroom|kv|pebblekv|pgkv|remotekv|storeurl|vfs): )+`)

// message is what the user reads about err: one line.
func message(err error) string {
	switch {
	case errors.Is(err, kv.ErrPoisoned):
		// Each floor has its own words for it.
		return fmt.Sprintf("the store has failed: %v; what was acknowledged is in it, and it can be opened again when this is mended", poison(err))
	case errors.Is(err, context.Canceled):
		err = errInterrupted
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
	return rootCause(err)
}

// rootCause returns the last of a chain of errors, which says it without names and
// addresses.
func rootCause(err error) error {
	for next := unwrap(err); len(next) > 0; next = unwrap(err) {
		err = next[len(next)-1]
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

// redacted is a message without the passwords that the program was called with. A store
// is shown without one wherever a message names it; this is for addresses in a place where
// no store is expected, which messages quote as they quote any word.
func redacted(message string, args []string) string {
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

// formatError says which format of the store that was named is a newer one, if
// that is what err is about. It may come late: every actor's rows have a version.
func formatError(url string, err error) error {
	url = storeurl.Display(url)
	if errors.Is(err, actorstore.ErrNotIndexed) {
		return say(err, "an older version of greenroom made the store %s, and the index by which actors are found isn't built yet: greenroom host builds it, and so does greenroom check --repair", url)
	}
	var format *kv.FormatError
	if !errors.As(err, &format) {
		return err
	}
	return say(err, "the store %s was written by a newer version of greenroom than this one: %s has version %d, known are versions up to %d",
		url, format.What, format.Found, format.Known)
}

// storeError says what is wrong with the store that was named.
func storeError(url string, err error) error {
	name := url
	url = storeurl.Display(url)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrNoStore):
		near := nearStores(name)
		if near != "" {
			return say(err, "there is no store at %s%s", url, near)
		}
		return say(err, "there is no store at %s (sql, import and put create one)", url)
	case errors.Is(err, kv.ErrStoreInUse):
		return say(err, "the store %s is in use: %s has it open, and lets no tools in; end it, or have it call admin.Listen, as greenroom host does",
			url, holderOf(err))
	case errors.Is(err, kv.ErrNotAStore):
		return say(err, "%s is there, but it is not a store", url)
	case errors.Is(err, storeurl.ErrURL):
		return &usageError{strings.TrimPrefix(err.Error(), "storeurl: ")}
	case errors.Is(err, storeurl.ErrEnvironment):
		_, text, _ := strings.Cut(err.Error(), "envlimits: ")
		text, _, _ = strings.Cut(text, ": strconv.")
		return say(err, "in the environment, %s", text)
	case errors.As(err, new(*kv.FormatError)):
		return formatError(url, err)
	case errors.Is(err, pebblekv.ErrLogDamaged):
		return say(err, "store %s: %v; ls, get, export, check and sql --read-only read what was committed before the damage with --without-log-rest, "+
			"and greenroom salvage copies what can be read to a new store", url, err)
	}
	return fmt.Errorf("store %s: %w", url, err)
}

// holderOf says which process has a store open.
func holderOf(err error) string {
	e := (*storeurl.InUseError)(nil)
	switch {
	case !errors.As(err, &e) || e.PID == 0:
		return "another process"
	case e.Program == "":
		return fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("process %d (%s)", e.PID, visibleText(e.Program))
}

// actorError says what is wrong with the actor that was named, of a store that is open.
func actorError(ctx context.Context, s *storeurl.Store, t *target, err error) error {
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return say(err, "there is no actor %s in %s%s", t.actor, storeurl.Display(t.url), nearActors(ctx, s, t.actor))
	}
	return nameError(t.actor, err)
}

// nameError says what is wrong with the name of an actor.
func nameError(actor string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, actorstore.ErrID):
		return &usageError{fmt.Sprintf("%s is not the id of an actor: an id is 30 letters and digits, as ls shows it", actor)}
	case errors.Is(err, actorstore.ErrName):
		return &usageError{strings.TrimPrefix(err.Error(), "actorstore: ")}
	}
	return fmt.Errorf("actor %s: %w", actor, err)
}

// errProblems: a check found problems, and has written them.
var errProblems = errors.New("there are problems")
