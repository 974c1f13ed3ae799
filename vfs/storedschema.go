package vfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// Schema returns the version of the schema of an actor's database, as it is stored: its PRAGMA user_version, by which actors are found
// (actorstore.Attributes). It is 0 for an actor without a database, for one whose database is encrypted, and if no version was set. See
// https://www.sqlite.org/fileformat.html#user_version_number.
//
// Errors are those of reading.
func Schema(ctx context.Context, r actorstore.Reader) (uint64, error) {
	main := storedFile{r: r, tag: actorstore.FileMain}
	page, err := main.read(ctx, 0, chunked.Size)
	if err != nil || len(page) == 0 { // without a main file a log means nothing
		return 0, err
	}
	version := format.UserVersion(page)
	logged, found, err := loggedSchema(ctx, &storedFile{r: r, tag: actorstore.FileWAL})
	if found {
		version = logged
	}
	return version, err
}

// loggedSchema returns the version that the newest transaction in a log gives the database; false if none there wrote the first page.
//
// https://www.sqlite.org/fileformat.html#the_write_ahead_log
func loggedSchema(ctx context.Context, log *storedFile) (version uint64, found bool, err error) {
	head, err := log.read(ctx, 0, format.LogHeaderSize)
	frame := int64(0)
	if err == nil && len(head) == format.LogHeaderSize {
		frame = format.FrameSize(head)
	}
	if frame == 0 {
		return 0, false, err
	}
	salts := bytes.Clone(head[format.LogSaltsAt : format.LogSaltsAt+8])
	var pending uint64 // of a transaction that may not have ended
	written := false
	for at := int64(format.LogHeaderSize); ; at += frame {
		b, err := log.read(ctx, at, format.FrameHeaderSize+format.UserVersionAt+4)
		if err != nil || len(b) < format.FrameHeaderSize+format.UserVersionAt+4 || !bytes.Equal(b[format.FrameSaltsAt:format.FrameSaltsAt+8], salts) {
			return version, found, err // frames of before are behind it
		}
		if binary.BigEndian.Uint32(b) == 1 {
			pending, written = format.UserVersion(b[format.FrameHeaderSize:]), true
		}
		if binary.BigEndian.Uint32(b[format.FrameCommitAt:]) != 0 && written {
			version, found, written = pending, true, false
		}
	}
}

// A storedFile is a file as a Reader shows it. It keeps the chunk that was read last.
type storedFile struct {
	r     actorstore.Reader
	tag   actorstore.FileTag
	key   []byte
	chunk []byte
	at    int64 // its number
}

// read returns n bytes from off on, fewer at the end of the file. They are valid until the next call.
func (f *storedFile) read(ctx context.Context, off int64, n int) (b []byte, err error) {
	for len(b) < n {
		pos := off + int64(len(b))
		if i := pos / chunked.Size; f.chunk == nil || f.at != i {
			f.key = f.r.Layout().AppendFileChunk(f.key[:0], f.tag, uint32(i))
			f.chunk, err = f.r.Page(ctx, f.key, f.chunk[:0])
			if f.at = i; errors.Is(err, actorstore.ErrNotFound) {
				f.chunk = nil
				return b, nil
			}
			if err != nil {
				return nil, err
			}
		}
		piece := f.chunk[min(pos%chunked.Size, int64(len(f.chunk))):]
		if len(piece) == 0 {
			return b, nil
		}
		b = append(b, piece[:min(len(piece), n-len(b))]...)
	}
	return b, nil
}

// Exists reports whether r shows anything of a database. Errors are those of reading.
func Exists(ctx context.Context, r actorstore.Reader) (bool, error) {
	start, end := r.Layout().Range(actorstore.NamespaceSQLite)
	for _, err := range r.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, KeysOnly: true}) {
		return err == nil, err
	}
	return false, nil
}
