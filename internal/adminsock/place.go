package adminsock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The names of what lies in the directory of a store.
const (
	socketName = "admin.sock"
	placeName  = "admin"
)

// A place is where the socket is, if that isn't socketName. It is what the file placeName has, in JSON.
type place struct {
	Network string `json:"network"` // unix or tcp
	Address string `json:"address"`
	Token   string `json:"token,omitempty"` // of tcp: it opens a connection
}

// realDir returns the one name of the directory of a store.
func realDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// readPlace returns where the socket of the store in dir is.
func readPlace(dir string) (place, error) {
	text, err := os.ReadFile(filepath.Join(dir, placeName))
	if errors.Is(err, fs.ErrNotExist) {
		path := filepath.Join(dir, socketName)
		if len(path) > MaxPath {
			return place{}, ErrNoSocket
		}
		return place{Network: "unix", Address: path}, nil
	}
	var p place
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && (p.Network != "unix" && p.Network != "tcp" || p.Address == "") {
		err = errors.New("it names no socket")
	}
	if err != nil {
		return place{}, fmt.Errorf("adminsock: the file %s: %w", filepath.Join(dir, placeName), err)
	}
	return p, nil
}

// write stores where the socket is. The file is its owner's alone, from its first moment on.
func (p place) write(dir string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, placeName+"-*.tmp") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, placeName))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// removeAll removes what a process left that had the store before.
func removeAll(dir string) error {
	var errs []error
	for _, name := range []string{socketName, placeName} {
		if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// shortDir makes a folder for a socket, its owner's alone, in the user's runtime folder or the one for temporary files.
func shortDir() (string, error) {
	dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "greenroom-") // with mode 0700; "" means that for temporary files
	if err != nil && os.Getenv("XDG_RUNTIME_DIR") != "" {
		dir, err = os.MkdirTemp("", "greenroom-")
	}
	return dir, err
}
