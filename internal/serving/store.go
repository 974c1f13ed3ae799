package serving

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/visible"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// WithStore runs fn with a store, which is open as long as fn runs.
func WithStore(ctx context.Context, url string, opts greenroom.Options, fn func(*storeurl.Store) error) error {
	s, err := storeurl.Open(ctx, url, opts)
	if err != nil {
		return StoreError(url, err)
	}
	return errors.Join(FormatError(url, fn(s)), StoreError(url, s.Close()))
}

// FormatError says which format of the store that was named is a newer one, if
// that is what err is about. It may come late: every actor's rows have a version.
func FormatError(url string, err error) error {
	url = storeurl.Display(url)
	if errors.Is(err, actorstore.ErrNotIndexed) {
		return errkind.Say(err, "an older version of greenroom made the store %s, and the index by which actors are found isn't built yet: greenroom host builds it, and so does greenroom check --repair", url)
	}
	var format *kv.FormatError
	if !errors.As(err, &format) {
		return err
	}
	return errkind.Say(err, "the store %s was written by a newer version of greenroom than this one: %s has version %d, known are versions up to %d",
		url, format.What, format.Found, format.Known)
}

// StoreError says what is wrong with the store that was named.
func StoreError(url string, err error) error {
	name := url
	url = storeurl.Display(url)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrNoStore):
		near := nearStores(name)
		if near != "" {
			return errkind.Say(err, "there is no store at %s%s", url, near)
		}
		return errkind.Say(err, "there is no store at %s (sql, import and put create one)", url)
	case errors.Is(err, kv.ErrStoreInUse):
		return errkind.Say(err, "the store %s is in use: %s has it open, and lets no tools in; end it, or have it call admin.Listen, as greenroom host does",
			url, HolderOf(err))
	case errors.Is(err, kv.ErrNotAStore):
		return errkind.Say(err, "%s is there, but it is not a store", url)
	case errors.Is(err, storeurl.ErrURL):
		return Usage(strings.TrimPrefix(err.Error(), "storeurl: "))
	case errors.Is(err, storeurl.ErrEnvironment):
		_, text, _ := strings.Cut(err.Error(), "envlimits: ")
		text, _, _ = strings.Cut(text, ": strconv.")
		return errkind.Say(err, "in the environment, %s", text)
	case errors.As(err, new(*kv.FormatError)):
		return FormatError(url, err)
	case errors.Is(err, pebblekv.ErrLogDamaged):
		return errkind.Say(err, "store %s: %v; ls, get, export, check and sql --read-only read what was committed before the damage with --without-log-rest, "+
			"and greenroom salvage copies what can be read to a new store", url, err)
	}
	return fmt.Errorf("store %s: %w", url, err)
}

// HolderOf says which process has a store open.
func HolderOf(err error) string {
	e := (*storeurl.InUseError)(nil)
	switch {
	case !errors.As(err, &e) || e.PID == 0:
		return "another process"
	case e.Program == "":
		return fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("process %d (%s)", e.PID, visible.Text(e.Program, "\n"))
}

// MaxCompared bounds how many names are compared with one that isn't there.
const MaxCompared = 5000

// nearStores is didYouMean for a store in a directory: it compares the stores beside it.
func nearStores(url string) string {
	dir := strings.TrimPrefix(url, "pebble:")
	markers, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*", "marker.manifest.*"))
	if err != nil || len(markers) > MaxCompared {
		return ""
	}
	names := make([]string, len(markers))
	for i, marker := range markers {
		names[i] = filepath.Dir(marker)
	}
	return DidYouMean(filepath.Clean(dir), slices.Compact(names))
}
