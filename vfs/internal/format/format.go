// Package format has what the VFS must know of the formats of SQLite's files: the header of a database, the end of a rollback
// journal, and the frames of a write-ahead log.
package format

// Files, from the top down: format.go, the database and its journal; log.go, the log.

import (
	"bytes"
	"encoding/binary"
)

// HeaderSize is the size of a database's header, at the start of page 1.
//
// https://sqlite.org/fileformat2.html#the_database_header
const HeaderSize = 100

// Offsets in the header.
const (
	PageSizeAt     = 16 // u16 big-endian, 1 means 65536
	WriteVersionAt = 18 // 1: rollback journal, 2: WAL
	ReadVersionAt  = 19 // the same
	ReservedAt     = 20 // bytes reserved at the end of each page; checksums need 8
	CounterAt      = 24 // file change counter, u32 big-endian
	PageCountAt    = 28 // u32 big-endian; valid where the two counters agree
	FreeListAt     = 32 // page number of the first trunk page, u32 big-endian
	UserVersionAt  = 60 // u32 big-endian
	VersionForAt   = 92 // the counter for which the page count is valid
)

// Magic begins the header.
var Magic = []byte("SQLite format 3\x00")

// A Header is the start of page 1.
type Header [HeaderSize]byte

// Plain says whether this is the header of a database that SQLite itself wrote
// with nothing between: not encrypted, no checksums at the end of pages. Only
// then may the virtual change counter be overlaid and a commit be batch-atomic.
func (h *Header) Plain() bool {
	return bytes.HasPrefix(h[:], Magic) && h[ReservedAt] == 0
}

// Logged says whether this is the header of a database in WAL mode.
//
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func (h *Header) Logged() bool {
	return bytes.HasPrefix(h[:], Magic) && h[ReadVersionAt] == 2
}

// PageSize is the size of the database's pages in bytes, as the header says it.
func (h *Header) PageSize() int64 {
	size := int64(binary.BigEndian.Uint16(h[PageSizeAt:]))
	if size == 1 {
		size = 1 << 16
	}
	return size
}

// UserVersion returns PRAGMA user_version of a database whose file begins with page, 0 of one that can't be read.
func UserVersion(page []byte) uint64 {
	if len(page) < UserVersionAt+4 || !bytes.HasPrefix(page, Magic) {
		return 0
	}
	return uint64(binary.BigEndian.Uint32(page[UserVersionAt:]))
}

// JournalMagic begins a rollback journal.
//
// https://sqlite.org/fileformat2.html#the_rollback_journal
var JournalMagic = []byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7}

// JournalOver is what SQLite writes over a journal's header to end it. A zero as the
// first byte alone doesn't say that: a VFS on top may encrypt the header, and then every
// 256th begins so.
//
// https://sqlite.org/fileformat2.html#the_rollback_journal
var JournalOver = make([]byte, 28)

// IsJournalOver says whether a journal that begins with start, as many bytes of it as JournalOver has or all of a shorter
// one, is over. Beside a main file that is plain SQLite, as plain says, a first byte of zero is enough, as it is to SQLite.
func IsJournalOver(start []byte, plain bool) bool {
	return len(start) == 0 || start[0] == 0 && (plain || bytes.HasPrefix(JournalOver, start))
}
