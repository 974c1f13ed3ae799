package pebblekv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Held is what a store keeps of its log for what follows it.
type Held struct {
	// From is from which record on, although the tables have them; 0 is nothing.
	From uint64 `json:"from"`
	// Most is how many bytes of files of the log it takes, at most: older ones go first.
	Most int64 `json:"most"`
	// For says what it is kept for, in words of the one that follows.
	For string `json:"for,omitempty"`
}

// holdName is the file of it, in the directory of the log.
const holdName = "HOLD"

// readHold returns what the store in a directory keeps: nothing if the file isn't there or can't be understood, for it costs what
// follows the log no more than to begin anew.
func readHold(disk vfs.FS, dir string) (h Held, err error) {
	f, err := disk.Open(disk.PathJoin(dir, logDir, holdName))
	if errors.Is(err, fs.ErrNotExist) {
		return Held{}, nil
	}
	if err != nil {
		return Held{}, err
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return Held{}, err
	}
	if json.Unmarshal(data, &h) != nil {
		return Held{}, nil
	}
	return h, nil
}

// writeHold stores what the store in a directory keeps.
func writeHold(disk vfs.FS, dir string, h Held) error {
	path := disk.PathJoin(dir, logDir, holdName)
	f, err := disk.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	data, err := json.Marshal(h)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = disk.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(disk, disk.PathDir(path))
	}
	if err != nil {
		return fmt.Errorf("pebblekv: what the log holds: %w", err)
	}
	return nil
}
