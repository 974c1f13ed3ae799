package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/kv"
)

// A file begins with a header, all numbers little-endian:
//
//	8 bytes  magic
//	4        version of the format
//	4        salt, random for each use of a file
//	8        sequence number of the file, which its name says too
//	8        number of its first record
//	4        size that the file has at least, in blocks of 4 KiB; version 1 has no such field
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
// A record without a batch is a mark. Its number is that of the record before. In place of the checksum of
// a batch it has the size that the file has at least, in blocks, or goesOn: the log goes on in the file with the next
// sequence number. A size is on stable storage before a mark says it, and so is the header of the next file. (The
// marks of version 1 say a size of 0, and its last ones say nothing of the next file.)
//
// Behind the last record there are zeros, or records of an earlier use of the file, which have
// another salt. What a crash leaves of records that were not on stable storage is any part of
// them, so the first one that isn't whole is the end; unless one behind it says that it was on
// stable storage: then it is damaged. It is damaged as well if the file is shorter than it says, or says
// that the log goes on where it doesn't: such a file was cut off, or the next one was removed.
//
// The next file lies there before the log goes on in it. Until then it is all zeros, or has the header of an
// earlier use, with another sequence number; or its own header, if a crash came before the mark.
const (
	magic        = "grnrmwal"
	version      = 2
	headerSize   = 40
	recordHeader = 28
	maxBatch     = 1<<32 - 1
	blockSize    = 4 << 10
	goesOn       = 1<<32 - 1

	// oldVersion can be read. Its header has no size.
	oldVersion    = 1
	oldHeaderSize = 36

	suffix = ".wal"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A file is one of the log.
type file struct {
	path   string
	seq    uint64
	first  uint64 // number of the first record
	salt   uint32
	begin  int64  // where the records begin
	blocks uint32 // how many it has at least, as the header says
	size   int64  // of what is written of it, with zeros while it is written to
	state  state
	bad    error // what is wrong with it, if state is damaged
}

// A state is what the header of a file says of it.
type state int

const (
	damaged state = iota
	unused        // it has no header, or that of an earlier use under another name
	headed        // it has a header
)

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
	b = binary.LittleEndian.AppendUint32(b, f.blocks)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHeader fills in what the header says, which in begins with, and the state. Its error is that of reading.
func (f *file) readHeader(in io.ReaderAt) error {
	var b [headerSize]byte
	if _, err := in.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	if b == [headerSize]byte{} {
		f.state = unused
		return nil
	}
	f.begin = headerSize
	v := binary.LittleEndian.Uint32(b[8:])
	if v == oldVersion {
		f.begin = oldHeaderSize
	}
	sum := b[f.begin-4:]
	switch {
	case string(b[:len(magic)]) != magic || binary.LittleEndian.Uint32(sum) != crc32.Checksum(b[:f.begin-4], castagnoli):
		f.bad = fmt.Errorf("%w: %s has a damaged header", kv.ErrCorrupt, f.path)
	case v != version && v != oldVersion:
		f.bad = fmt.Errorf("%s: %w", f.path, &kv.FormatError{What: "write-ahead log", Found: uint64(v), Known: version})
	case binary.LittleEndian.Uint64(b[16:]) != f.seq:
		f.state = unused
	default:
		f.state = headed
		f.salt = binary.LittleEndian.Uint32(b[12:])
		f.first = binary.LittleEndian.Uint64(b[24:])
		if v == version {
			f.blocks = binary.LittleEndian.Uint32(b[32:])
		}
	}
	return nil
}

// A head is what stands before a batch.
type head struct {
	length         uint32
	number, synced uint64
	sum            uint32 // of the batch; in a mark the blocks, or goesOn
}

// appendHead appends the header of a record of batch.
func appendHead(dst []byte, salt uint32, number, synced uint64, batch []byte) []byte {
	return head{uint32(len(batch)), number, synced, crc32.Checksum(batch, castagnoli)}.append(dst, salt)
}

// appendMark appends a mark.
func appendMark(dst []byte, salt uint32, number, synced uint64, blocks uint32) []byte {
	return head{number: number, synced: synced, sum: blocks}.append(dst, salt)
}

func (h head) append(dst []byte, salt uint32) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, h.length)
	dst = binary.LittleEndian.AppendUint64(dst, h.number)
	dst = binary.LittleEndian.AppendUint64(dst, h.synced)
	dst = binary.LittleEndian.AppendUint32(dst, h.sum)
	b := dst[len(dst)-recordHeader:]
	binary.LittleEndian.PutUint32(b, crc32.Update(salt, castagnoli, b[4:]))
	return dst
}

// readHead decodes the header at the start of b. It returns false if b doesn't begin with a
// valid one.
func readHead(b []byte, salt uint32) (head, bool) {
	h := head{
		length: binary.LittleEndian.Uint32(b[4:]), number: binary.LittleEndian.Uint64(b[8:]),
		synced: binary.LittleEndian.Uint64(b[16:]), sum: binary.LittleEndian.Uint32(b[24:]),
	}
	return h, h.synced <= h.number && binary.LittleEndian.Uint32(b) == crc32.Update(salt, castagnoli, b[4:recordHeader])
}

// Size returns how many bytes the log's files in a folder have. One that is removed meanwhile counts for nothing.
func Size(disk vfs.FS, dir string) (size int64, err error) {
	names, err := disk.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if _, ok := fileSeq(name); !ok {
			continue
		}
		switch info, err := disk.Stat(disk.PathJoin(dir, name)); {
		case err == nil:
			size += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return 0, err
		}
	}
	return size, nil
}
