package vfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Schema returns the version of the schema of an actor's database, as it is stored: its PRAGMA user_version, by which actors are found
// (actorstore.Attributes). It is 0 for an actor without a database, for one whose database is encrypted, and if no version was set. In
// WAL mode it is that of the last checkpoint. See https://www.sqlite.org/fileformat.html#user_version_number.
//
// Errors are those of reading.
func Schema(ctx context.Context, r actorstore.Reader) (uint64, error) {
	page, err := r.Page(ctx, r.Layout().AppendFileChunk(nil, actorstore.FileMain, 0), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return 0, nil
	}
	return schemaOf(page), err
}

// headerUserVersion is where the version stands in the header of a database, as a u32 big-endian.
const headerUserVersion = 60

// schemaOf returns the version that a database whose file begins with page has.
func schemaOf(page []byte) uint64 {
	if len(page) < headerUserVersion+4 || !bytes.HasPrefix(page, headerMagic) {
		return 0
	}
	return uint64(binary.BigEndian.Uint32(page[headerUserVersion:]))
}

// schema returns the version of the schema that the main file has, if that may be another one than the one that is stored.
func (f *chunked) schema() (version uint64, changed bool) {
	if page := f.dirty.get(0); page != nil {
		return schemaOf(page[:]), true
	}
	return 0, f.size == 0
}
