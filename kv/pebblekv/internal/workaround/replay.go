package workaround

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Replay is a log of Pebble's own, made in memory for a store that is only read: Pebble takes batches in while it
// opens one, from its own log, and in no other way.
type Replay struct {
	fs     *copyLog
	file   vfs.File
	out    *record.Writer
	seqNum uint64 // of the next batch
}

// NewReplay returns an empty log for the store in the directory dir of a disk, whose Pebble is open without it, and looks for its log in
// the directory logs.
func NewReplay(db *pebble.DB, disk vfs.FS, dir, logs string) (*Replay, error) {
	seqNum, err := nextSeqNum(db)
	if err != nil {
		return nil, err
	}
	name, err := freeLogName(disk, dir, logs)
	if err != nil {
		return nil, err
	}
	fs := &copyLog{FS: disk, dir: logs, name: name, mem: vfs.NewMem()}
	f, err := fs.mem.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &Replay{fs: fs, file: f, out: record.NewWriter(f), seqNum: seqNum}, nil
}

// Add appends a batch, which gets a sequence number.
func (r *Replay) Add(b *pebble.Batch) error {
	repr := b.Repr()
	binary.LittleEndian.PutUint64(repr, r.seqNum)
	r.seqNum += uint64(b.Count())
	_, err := r.out.WriteRecord(repr)
	return err
}

// Close returns a file system in which the store has the log.
func (r *Replay) Close() (vfs.FS, error) {
	return r.fs, errors.Join(r.out.Close(), r.file.Close())
}

// copyLog is a file system in which a store has, besides what is there, a log of Pebble's.
type copyLog struct {
	vfs.FS
	dir, name string
	mem       *vfs.MemFS // with the log alone, by its name
}

// List adds the log to the directory of the store.
func (c *copyLog) List(dir string) ([]string, error) {
	names, err := c.FS.List(dir)
	if err == nil && dir == c.dir {
		names = append(names, c.name)
	}
	return names, err
}

// Open opens the log, too.
func (c *copyLog) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if name == c.PathJoin(c.dir, c.name) {
		return c.mem.Open(c.name, opts...)
	}
	return c.FS.Open(name, opts...)
}

// Stat says how long the log is, too.
func (c *copyLog) Stat(name string) (vfs.FileInfo, error) {
	if name == c.PathJoin(c.dir, c.name) {
		return c.mem.Stat(c.name)
	}
	return c.FS.Stat(name)
}

// nextSeqNum returns a sequence number that is larger than all in the tables.
func nextSeqNum(db *pebble.DB) (uint64, error) {
	levels, err := db.SSTables()
	seqNum := uint64(1) << 8 // Pebble has no rows below 10
	for _, tables := range levels {
		for i := range tables {
			seqNum = max(seqNum, uint64(tables[i].LargestSeqNum)+1)
		}
	}
	return seqNum, err
}

// freeLogName returns the name of a log of Pebble's behind all numbers that it uses. Pebble makes an empty log of its own while it
// is opened, which a crash may leave among ours.
func freeLogName(disk vfs.FS, dirs ...string) (string, error) {
	newest := uint64(0)
	for _, in := range dirs {
		names, err := disk.List(in)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a log may be lost
			return "", err
		}
		for _, name := range names {
			if digits := strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }); len(digits) > 0 {
				n, _ := strconv.ParseUint(digits[0], 10, 64) // 0 for other names
				newest = max(newest, n)
			}
		}
	}
	return fmt.Sprintf("%06d.log", newest+1), nil
}
