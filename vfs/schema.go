package vfs

import (
	"bytes"
	"encoding/binary"

	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// headerUserVersion is where the version stands in the header of a database, as a u32 big-endian.
const headerUserVersion = 60

// schemaOf returns the version that a database whose file begins with page has.
func schemaOf(page []byte) uint64 {
	if len(page) < headerUserVersion+4 || !bytes.HasPrefix(page, headerMagic) {
		return 0
	}
	return uint64(binary.BigEndian.Uint32(page[headerUserVersion:]))
}

// schemaChange returns the version of the schema that the main file f has, if that may be another one than the one that is stored.
func schemaChange(f *chunked.File) (version uint64, changed bool) {
	if page := f.Page(0); page != nil {
		return schemaOf(page[:]), true
	}
	return 0, f.Size() == 0
}
