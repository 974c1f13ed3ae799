package vfs

import (
	"bytes"
	"encoding/binary"
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

// schema returns the version of the schema that the main file has, if that may be another one than the one that is stored.
func (f *chunked) schema() (version uint64, changed bool) {
	if page := f.dirty.get(0); page != nil {
		return schemaOf(page[:]), true
	}
	return 0, f.size == 0
}
