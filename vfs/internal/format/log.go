package format

import "encoding/binary"

// The log's header and that of a frame.
//
// https://sqlite.org/fileformat2.html#the_write_ahead_log
const (
	LogHeaderSize   = 32
	LogSaltsAt      = 16 // in the log's header: two words
	FrameHeaderSize = 24
	FrameCommitAt   = 4 // in a frame's header: the database's size in pages, 0 if the frame commits nothing
	FrameSaltsAt    = 8 // two words as in the log's header, else the frame is one of before

	logPageSizeAt  = 8 // in the log's header, u32 big-endian
	logMagic       = 0x377f0682
	logMagicNative = logMagic | 1 // checksums of big-endian words
)

// FrameSize returns the length of a frame in a log that begins with head, 0 if that isn't a log's header.
func FrameSize(head []byte) int64 {
	magic, size := binary.BigEndian.Uint32(head), int64(binary.BigEndian.Uint32(head[logPageSizeAt:]))
	if magic != logMagic && magic != logMagicNative || size < 512 || size > 1<<16 || size&(size-1) != 0 {
		return 0
	}
	return FrameHeaderSize + size
}
