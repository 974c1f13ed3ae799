package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroomdb/greenroom/kv"
)

// Salvage hands each record behind number after that is whole in the log of a directory to found, in order, whatever is
// damaged or missing between them: so numbers may be left out. It changes nothing. The batches are found's until it
// returns. A directory that isn't there has no record.
//
// It can't find records of a file whose header has lost its salt.
//
// Errors: those of reading and of found, and *kv.FormatError.
func Salvage(disk vfs.FS, dir string, after uint64, found func(number uint64, batch []byte) error) error {
	files, err := list(disk, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	last := after
	for i, f := range files {
		if newer := (*kv.FormatError)(nil); errors.As(f.bad, &newer) {
			return f.bad
		}
		most := uint64(math.MaxUint64)
		if rest := files[i+1:]; len(rest) > 0 && rest[0].state == headed {
			// What f has behind the place where the log went on was never acknowledged.
			if begun, err := rest[0].begun(disk); begun || err != nil {
				most = rest[0].first - 1
			}
		}
		if err == nil && f.state != unused {
			last, err = salvageFile(disk, f, last, most, found)
		}
	}
	return err
}

// salvageFile hands the records of f that are behind number last, up to most, to found. It returns the number of the last
// one.
func salvageFile(disk vfs.FS, f *file, last, most uint64, found func(number uint64, batch []byte) error) (_ uint64, err error) {
	in, err := disk.Open(f.path)
	if err != nil {
		return last, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	s := &scanner{in: in, size: f.size, salt: f.salt, at: f.begin, next: f.first}
	if f.state == damaged && f.size >= headerSize {
		b, err := s.bytes(0, headerSize)
		if err != nil {
			return last, err
		}
		// The salt may be whole. If it isn't, the file has no record.
		s.salt, s.at, s.next = binary.LittleEndian.Uint32(b[12:]), oldHeaderSize, 1
	}
	for {
		batch, err := s.record()
		switch number := s.next - 1; {
		case err != nil:
			return last, err
		case batch != nil && number > most:
			return last, nil
		case batch != nil && number > last:
			if err := found(number, batch); err != nil {
				return last, err
			}
			last = number
		case batch == nil && s.goesOn:
			return last, nil
		case batch == nil:
			if more, err := s.resume(); !more || err != nil {
				return last, err
			}
		}
	}
}

// resume moves the scanner to the next whole record, or mark, behind a damaged one. It returns false if the file has
// none.
func (s *scanner) resume() (bool, error) {
	for off := s.at + 1; off+recordHeader <= s.size; {
		b, err := s.bytes(off, min(window, s.size-off))
		if err != nil {
			return false, err
		}
		for i := range len(b) - recordHeader + 1 {
			if number := binary.LittleEndian.Uint64(b[i+8:]); number < s.next-1 || number == 0 {
				continue // zeros, for the most part
			}
			h, ok := readHead(b[i:i+recordHeader], s.salt)
			at := off + int64(i)
			if !ok || h.length > 0 && h.number < s.next {
				continue
			}
			if h.length == 0 {
				s.at, s.next = at, h.number+1
				return true, nil
			}
			whole, err := s.whole(at, h)
			if err != nil {
				return false, err
			}
			if whole {
				s.at, s.next = at, h.number
				return true, nil
			}
			if b, err = s.bytes(off, int64(len(b))); err != nil { // s.whole has read elsewhere
				return false, err
			}
		}
		off += int64(len(b) - recordHeader + 1)
	}
	return false, nil
}

// whole says whether the batch of a record at off is whole.
func (s *scanner) whole(off int64, h head) (bool, error) {
	size := recordHeader + int64(h.length)
	if size > s.size-off {
		return false, nil
	}
	b, err := s.bytes(off, size)
	return err == nil && crc32.Checksum(b[recordHeader:], castagnoli) == h.sum, err
}
