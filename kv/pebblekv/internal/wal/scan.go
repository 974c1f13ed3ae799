package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/greenroomdb/greenroom/kv"
)

// A scanner reads the records of a file, one after the other.
type scanner struct {
	in   io.ReaderAt
	size int64 // of the file
	salt uint32
	at   int64  // where the next record is
	next uint64 // its number

	blocks uint32 // how many the file has at least, as the last mark says
	goesOn bool   // a mark says that the log goes on in the next file

	buf   []byte // a part of the file
	from  int64  // where that begins
	reads int    // how often it was read
}

// window is how many bytes are read at once.
const window = 256 << 10

// bytes returns n bytes of the file, at off, until the next call. The file has them.
func (s *scanner) bytes(off, n int64) ([]byte, error) {
	if off < s.from || off+n > s.from+int64(len(s.buf)) {
		size := min(max(n, window), s.size-off)
		s.reads++
		s.buf, s.from = slices.Grow(s.buf[:0], int(size))[:size], off
		if k, err := s.in.ReadAt(s.buf, off); err != nil && (err != io.EOF || int64(k) < n) {
			s.buf = s.buf[:0]
			return nil, err
		}
	}
	return s.buf[off-s.from:][:n], nil
}

// record returns the batch of the next record, until the next call, nil if no record is there. It takes in the marks before
// it.
func (s *scanner) record() ([]byte, error) {
	for !s.goesOn && s.at+recordHeader <= s.size {
		b, err := s.bytes(s.at, recordHeader)
		if err != nil {
			return nil, err
		}
		h, ok := readHead(b, s.salt)
		switch size := recordHeader + int64(h.length); {
		case !ok:
			return nil, nil
		case h.length == 0 && h.number == s.next-1:
			if s.goesOn = h.sum == goesOn; !s.goesOn {
				s.blocks = max(s.blocks, h.sum)
			}
			s.at += recordHeader
			continue
		case h.length == 0 || h.number != s.next || size > s.size-s.at:
			return nil, nil
		default:
			if b, err = s.bytes(s.at, size); err != nil {
				return nil, err
			}
			batch := b[recordHeader:]
			if crc32.Checksum(batch, castagnoli) != h.sum {
				return nil, nil
			}
			s.at, s.next = s.at+size, s.next+1
			return batch, nil
		}
	}
	return nil, nil
}

// tail returns an error if the file says that the next record was on stable storage: the header of a
// record behind it does, or a mark. What is in between may be anything.
func (s *scanner) tail() error {
	for off := s.at; off+recordHeader <= s.size; {
		b, err := s.bytes(off, min(window, s.size-off))
		if err != nil {
			return err
		}
		for i := range len(b) - recordHeader + 1 {
			// No number is larger than that of as many of the smallest records as fit in between, which is
			// what keeps this from taking checksums of everything that an earlier use has left.
			number := binary.LittleEndian.Uint64(b[i+8:])
			if number < s.next || number-s.next > uint64(off+int64(i)-s.at)/recordHeader {
				continue
			}
			if h, ok := readHead(b[i:i+recordHeader], s.salt); ok && h.synced >= s.next {
				return fmt.Errorf("%w: record %d at %d is damaged, and record %d at %d says that it was on stable storage", kv.ErrCorrupt, s.next, s.at, h.number, off+int64(i))
			}
		}
		off += int64(len(b) - recordHeader + 1)
	}
	return nil
}
