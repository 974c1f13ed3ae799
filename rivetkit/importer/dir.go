package importer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// ErrNoDriver: a directory isn't one of RivetKit's file-system driver.
var ErrNoDriver = errkind.New("importer: not a directory of RivetKit's file-system driver", errkind.ErrNotFound)

// A Dir is the directory in which the driver keeps its files: state/ID, databases/ID.db and alarms/ID for each actor,
// of which the last two may be missing. A file is written under a name with ".tmp." in it, and then renamed.
type Dir struct{ path string }

const (
	states    = "state"
	databases = "databases"
	alarms    = "alarms"
)

// OpenDir returns the directory at path, or ErrNoDriver for one without a folder of states.
func OpenDir(path string) (*Dir, error) {
	info, err := os.Stat(filepath.Join(path, states))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: %s has no folder %s", ErrNoDriver, path, states)
	}
	if err != nil {
		return nil, err
	}
	return &Dir{path}, nil
}

// IDs returns the ids of the actors that have a state, in order.
func (d *Dir) IDs() ([]string, error) { return d.list(states) }

// Strays returns the names of the databases, in order, that no state in ids belongs to; ids are in order.
func (d *Dir) Strays(ids []string) ([]string, error) {
	files, err := d.list(databases)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(files, func(file string) bool {
		id, ok := strings.CutSuffix(file, ".db")
		_, known := slices.BinarySearch(ids, id)
		return !ok || known
	}), err
}

// list returns the names in a folder, without those of files that were being written.
func (d *Dir) list(folder string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(d.path, folder))
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".tmp.") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// StatePath, DatabasePath and AlarmPath return the names of an actor's files.
func (d *Dir) StatePath(id string) string { return filepath.Join(d.path, states, id) }

// DatabasePath returns the name of the database of an actor. See StatePath.
func (d *Dir) DatabasePath(id string) string { return filepath.Join(d.path, databases, id+".db") }

// AlarmPath returns the name of the file of an alarm. See StatePath.
func (d *Dir) AlarmPath(id string) string { return filepath.Join(d.path, alarms, id) }

// State reads the state of an actor.
func (d *Dir) State(id string) (State, error) {
	b, err := read(d.StatePath(id))
	if err != nil {
		return State{}, err
	}
	s, err := parseState(b)
	if err == nil && s.ID != id {
		err = fmt.Errorf("it is of the actor %q", s.ID)
	}
	return s, err
}

// HasDatabase reports whether the actor has a database that isn't an empty file.
func (d *Dir) HasDatabase(id string) (bool, error) {
	info, err := os.Stat(d.DatabasePath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

// Alarm reads when the alarm of an actor rings, in Unix milliseconds. ok is false if it has none.
func (d *Dir) Alarm(id string) (at int64, ok bool, err error) {
	b, err := read(d.AlarmPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	of, at, err := parseAlarm(b)
	if err == nil && of != id {
		err = fmt.Errorf("it is of the actor %q", of)
	}
	return at, err == nil, err
}

// read reads a file that is at most as large as a message of BARE.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path) // which doesn't wait for a pipe, as opening it does
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	const limit = bare.VersionSize + bare.MaxSize
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return b, errors.Join(err, f.Close())
}
