package vfs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/greenroomdb/greenroom/vfs"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// An undo is a rollback journal, as simple as it can be, and written in the odd
// pieces in which SQLite writes its own: 12 bytes of a header, 4 of a count, and
// records of 12 bytes and an image in pieces of 1020.
type undo struct {
	file sqlitevfs.File
	at   int64
	n    uint32
}

const undoStart = 28

var undoMagic = []byte{0xd9, 0xd5, 0x05, 0xf9}

func (u *undo) write(b []byte, off int64) error {
	n, err := u.file.WriteAt(b, off)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}

func (u *undo) begin(size int64) error {
	head := binary.BigEndian.AppendUint64(bytes.Clone(undoMagic), uint64(size))
	return errors.Join(u.write(make([]byte, 4), 12), u.write(head, 0))
}

// log records that image lies at off before a change.
func (u *undo) log(off int64, image []byte) error {
	rec := binary.BigEndian.AppendUint64(nil, uint64(off))
	err := u.write(binary.BigEndian.AppendUint32(rec, uint32(len(image))), u.at)
	u.at += int64(len(rec)) + 4
	for piece := range slices.Chunk(image, 1020) {
		err = errors.Join(err, u.write(piece, u.at))
		u.at += int64(len(piece))
	}
	u.n++
	return errors.Join(err, u.write(binary.BigEndian.AppendUint32(nil, u.n), 12))
}

// undo puts everything back, newest first.
func (u *undo) undo(file *vfs.Handle) error {
	read := func(off int64, n int) ([]byte, error) {
		b := make([]byte, n)
		if got, err := u.file.ReadAt(b, off); got != n {
			return nil, fmt.Errorf("the journal at %d: %d bytes of %d, %w", off, got, n, err)
		}
		return b, nil
	}
	head, err := read(0, 16)
	if err != nil || !bytes.HasPrefix(head, undoMagic) {
		return fmt.Errorf("the journal begins with % x, %w", head, err)
	}
	var offs []int64
	var images [][]byte
	at := int64(undoStart)
	for range binary.BigEndian.Uint32(head[12:]) {
		// The count may be ahead of the journal's end, when a crash came between the
		// two. Nothing of the main file has changed then that the rest would undo.
		rec, err := read(at, 12)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		image, err := read(at+12, int(binary.BigEndian.Uint32(rec[8:])))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		at += 12 + int64(len(image))
		offs, images = append(offs, int64(binary.BigEndian.Uint64(rec))), append(images, image)
	}
	for i, image := range slices.Backward(images) {
		if len(image) == 0 {
			continue
		}
		if _, err := file.WriteAt(image, offs[i]); err != nil {
			return err
		}
	}
	return file.Truncate(int64(binary.BigEndian.Uint64(head[4:])))
}
