package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
)

// A file begins with a header, all numbers little-endian:
//
//	8 bytes  magic
//	4        version of the format
//	4        salt, random for each use of a file
//	8        sequence number of the file, which its name says too
//	8        number of its first record
//	4        CRC-32C of the bytes before
//
// and goes on with records, each behind the other:
//
//	4 bytes  CRC-32C of the rest of the header, which begins with the salt in place of 0
//	4        length of the batch, in bytes
//	8        number: one more than that of the record before
//	8        number up to which all records were on stable storage when this one was made
//	4        CRC-32C of the batch
//	         the batch
//
// A record without a batch is a mark. Its number is that of the record before, and it says that
// this one is on stable storage.
//
// Behind the last record there are zeros, or records of an earlier use of the file, which have
// another salt. What a crash leaves of records that were not on stable storage is any part of
// them, so the first one that isn't whole is the end; unless one behind it says that it was on
// stable storage: then it is damaged.
const (
	magic        = "grnrmwal"
	version      = 1
	headerSize   = 36
	recordHeader = 28
	maxBatch     = 1<<32 - 1

	suffix = ".wal"
	// temporary is the name of a file that isn't part of the log yet.
	temporary = "next" + suffix + ".new"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A file is one of the log.
type file struct {
	path  string
	seq   uint64
	first uint64 // number of the first record
	salt  uint32
	size  int64 // of what is written of it, with zeros while it is written to
	bad   error // the header can't be read
}

// fileName returns the name of the file with a sequence number.
func fileName(seq uint64) string { return fmt.Sprintf("%06d%s", seq, suffix) }

// fileSeq returns the sequence number that a name says, and false for another file.
func fileSeq(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil && fileName(seq) == name
}

// header returns the header of f.
func (f *file) header() []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, f.salt)
	b = binary.LittleEndian.AppendUint64(b, f.seq)
	b = binary.LittleEndian.AppendUint64(b, f.first)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHeader fills in what the header says, which r begins with.
func (f *file) readHeader(r io.ReaderAt) error {
	var b [headerSize]byte
	if _, err := r.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	sum := binary.LittleEndian.Uint32(b[headerSize-4:])
	if string(b[:len(magic)]) != magic || sum != crc32.Checksum(b[:headerSize-4], castagnoli) {
		return fmt.Errorf("%w: %s has no header", kv.ErrCorrupt, f.path)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return &kv.FormatError{What: "write-ahead log", Found: uint64(v), Known: version}
	}
	if seq := binary.LittleEndian.Uint64(b[16:]); seq != f.seq {
		return fmt.Errorf("%w: %s says that it is file %d", kv.ErrCorrupt, f.path, seq)
	}
	f.salt = binary.LittleEndian.Uint32(b[12:])
	f.first = binary.LittleEndian.Uint64(b[24:])
	return nil
}

// A head is what stands before a batch.
type head struct {
	length         uint32
	number, synced uint64
	sum            uint32 // of the batch
}

// appendHead appends the header of a record of batch.
func appendHead(dst []byte, salt uint32, number, synced uint64, batch []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(batch)))
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint64(dst, synced)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(batch, castagnoli))
	b := dst[len(dst)-recordHeader:]
	binary.LittleEndian.PutUint32(b, crc32.Update(salt, castagnoli, b[4:]))
	return dst
}

// readHead returns the header that b is, and false if it is none.
func readHead(b []byte, salt uint32) (head, bool) {
	h := head{
		length: binary.LittleEndian.Uint32(b[4:]), number: binary.LittleEndian.Uint64(b[8:]),
		synced: binary.LittleEndian.Uint64(b[16:]), sum: binary.LittleEndian.Uint32(b[24:]),
	}
	return h, h.synced <= h.number && binary.LittleEndian.Uint32(b) == crc32.Update(salt, castagnoli, b[4:recordHeader])
}
