package wal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/greenroomdb/greenroom/kv"
)

// TestFormat: the bytes of a file, which other programs read.
func TestFormat(t *testing.T) {
	f := &file{seq: 7, first: 42, salt: 0x01020304, blocks: 1}
	b := appendHead(f.header(), f.salt, 42, 41, []byte("batch"))
	b = append(b, "batch"...)
	b = appendMark(b, f.salt, 42, 42, 0)
	const want = "67726e726d77616c" + "02000000" + "04030201" + "0700000000000000" + "2a00000000000000" + "01000000"
	if got := hex.EncodeToString(b[:headerSize-4]); got != want {
		t.Errorf("the header is\n%s, want\n%s", got, want)
	}
	const sums = "8bc4c2da f115bdee 2b91f8b6"
	if got := fmt.Sprintf("%x %x %x", b[headerSize-4:headerSize], b[headerSize:headerSize+4], b[headerSize+recordHeader+5:][:4]); got != sums {
		t.Errorf("the checksums are %s, want %s", got, sums)
	}
	if got := hex.EncodeToString(b[headerSize+4 : headerSize+recordHeader]); got != "05000000"+"2a00000000000000"+"2900000000000000"+"2f73562f" {
		t.Errorf("the header of a record is %s", got)
	}
	mem := vfs.NewMem()
	write(t, mem, fileName(7), grow(b))
	n, err := Read(mem, "log", 41, func(n uint64, batch []byte) error {
		if n != 42 || string(batch) != "batch" {
			t.Errorf("record %d is %q", n, batch)
		}
		return nil
	})
	if n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	f.seq = 8
	b = f.header()
	b[8]++ // the version
	write(t, mem, fileName(8), b)
	if _, err := Read(mem, "log", 41, nil); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a file with a damaged header: %v", err)
	}
	binary.LittleEndian.PutUint32(b[headerSize-4:], crc32.Checksum(b[:headerSize-4], castagnoli))
	write(t, mem, fileName(8), b)
	var format *kv.FormatError
	if _, err := Read(mem, "log", 41, nil); !errors.As(err, &format) || format.Found != version+1 {
		t.Errorf("a file of a later version: %v", err)
	}
}

// write makes a file of the log.
func write(t testing.TB, fs vfs.FS, name string, b []byte) {
	if err := fs.MkdirAll("log", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(fs.PathJoin("log", name), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(slices.Clone(b)) // which it may change
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// FuzzRead reads any file: what it has is a sequence of records, or it is refused.
func FuzzRead(f *testing.F) {
	h := &file{seq: 1, first: 1, salt: 9}
	b := h.header()
	for n := range uint64(3) {
		b = append(appendHead(b, h.salt, n+1, n, []byte("batch")), "batch"...)
	}
	f.Add(b)
	f.Add(appendHead(b, h.salt, 3, 3, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.NewMem()
		write(t, mem, fileName(1), b)
		last := uint64(0)
		n, err := Read(mem, "log", 0, func(number uint64, batch []byte) error {
			if number != last+1 || len(batch) == 0 || len(batch) > len(b) {
				t.Errorf("record %d with %d bytes behind %d", number, len(batch), last)
			}
			last = number
			return nil
		})
		if err == nil && n != last {
			t.Errorf("%d records, the last is %d", last, n)
		}
	})
}

// oldHeader returns the header of f as version 1 had it.
func oldHeader(f *file) []byte {
	b := f.header()[:oldHeaderSize-4]
	b[8] = oldVersion
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// grow pads a file to one block.
func grow(b []byte) []byte { return append(b, make([]byte, blockSize-len(b))...) }

// TestScan reads files that no log has written as they are.
func TestScan(t *testing.T) {
	f := &file{seq: 1, first: 1, salt: 77}
	record := func(b []byte, salt uint32, number, synced uint64) []byte {
		return append(appendHead(slices.Clip(b), salt, number, synced, []byte("batch")), "batch"...)
	}
	two := record(record(f.header(), f.salt, 1, 0), f.salt, 2, 1)
	torn := append(bytes.Clone(two), make([]byte, recordHeader+5)...)
	mark := func(b []byte, number, synced uint64, what uint32) []byte {
		return appendMark(slices.Clip(b), f.salt, number, synced, what)
	}
	full := *f
	full.blocks = 1
	for name, tt := range map[string]struct {
		file []byte
		last uint64
		err  error
	}{
		"as written":                           {two, 2, nil},
		"of version 1":                         {record(record(oldHeader(f), f.salt, 1, 0), f.salt, 2, 1), 2, nil},
		"a number is left out":                 {record(two, f.salt, 4, 1), 2, nil},
		"a number comes again":                 {record(two, f.salt, 2, 1), 2, nil},
		"of an earlier use":                    {record(two, f.salt+1, 3, 2), 2, nil},
		"cut in a header":                      {two[:len(two)-10], 1, nil},
		"cut in a batch":                       {two[:len(two)-1], 1, nil},
		"torn, and nothing vouches for it":     {record(torn, f.salt, 4, 2), 2, nil},
		"damaged":                              {record(torn, f.salt, 4, 3), 2, kv.ErrCorrupt},
		"damaged, by a mark":                   {mark(torn, 3, 3, 0), 2, kv.ErrCorrupt},
		"a mark of what is there":              {mark(two, 2, 2, 0), 2, nil},
		"a record behind a mark":               {record(mark(two, 2, 1, 0), f.salt, 3, 2), 3, nil},
		"a mark of another number":             {record(mark(two, 1, 1, 0), f.salt, 3, 2), 2, nil},
		"vouched for by another use":           {record(torn, f.salt+1, 4, 3), 2, nil},
		"of the size that its header says":     {grow(record(full.header(), f.salt, 1, 0)), 1, nil},
		"of the size that a mark says":         {grow(mark(two, 2, 2, 1)), 2, nil},
		"shorter than its header says":         {record(full.header(), f.salt, 1, 0), 0, kv.ErrCorrupt},
		"without a record, and shorter":        {full.header(), 0, kv.ErrCorrupt},
		"shorter than a mark says":             {mark(two, 2, 2, 1), 2, kv.ErrCorrupt},
		"goes on in a file that isn't there":   {mark(two, 2, 2, goesOn), 2, kv.ErrCorrupt},
		"torn before a mark that it goes on":   {mark(torn, 3, 2, goesOn), 2, nil},
		"synced before a mark that it goes on": {mark(torn, 3, 3, goesOn), 2, kv.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			write(t, mem, fileName(1), tt.file)
			n, err := Read(mem, "log", 0, func(uint64, []byte) error { return nil })
			if !errors.Is(err, tt.err) || tt.err == nil && (err != nil || n != tt.last) {
				t.Errorf("%d, %v; want %d, %v", n, err, tt.last, tt.err)
			}
			// A first file that isn't needed may be anything.
			write(t, mem, fileName(1), []byte("nothing"))
			g := &file{seq: 2, first: 5, salt: 1}
			write(t, mem, fileName(2), record(g.header(), g.salt, 5, 4))
			if n, err := Read(mem, "log", 4, func(uint64, []byte) error { return nil }); n != 5 || err != nil {
				t.Errorf("behind a file that isn't needed: %d, %v", n, err)
			}
			if _, err := Read(mem, "log", 3, nil); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("without a file that is needed: %v", err)
			}
		})
	}
}

// TestFollow reads two files: whether the log goes on in the second one.
func TestFollow(t *testing.T) {
	f, next := &file{seq: 1, first: 1, salt: 77}, &file{seq: 2, first: 3, salt: 78, blocks: 1}
	one := append(appendHead(f.header(), f.salt, 1, 0, []byte("batch")), "batch"...)
	two := append(appendHead(slices.Clip(one), f.salt, 2, 1, []byte("batch")), "batch"...)
	marked := appendMark(slices.Clip(two), f.salt, 2, 1, goesOn)
	record := func(f *file, number uint64) []byte {
		return grow(append(appendHead(f.header(), f.salt, number, number-1, []byte("batch")), "batch"...))
	}
	mark := func(f *file, what uint32) []byte {
		return grow(appendMark(f.header(), f.salt, f.first-1, f.first-1, what))
	}
	later, used := *next, *next
	later.first = 4
	used.seq = 7
	harmed := record(next, 3)
	harmed[headerSize-1] ^= 1
	headless := record(next, 3)
	clear(headless[:headerSize])
	empty := make([]byte, blockSize)
	for name, tt := range map[string]struct {
		first, second []byte
		last          uint64
		err           error
	}{
		"as written":                                {marked, record(next, 3), 3, nil},
		"no record yet":                             {marked, grow(next.header()), 2, nil},
		"cut off, no record yet":                    {marked, next.header(), 0, kv.ErrCorrupt},
		"prepared":                                  {two, empty, 2, nil},
		"prepared, made just now":                   {two, nil, 2, nil},
		"prepared, used before":                     {two, record(&used, 3), 2, nil},
		"prepared, with a header":                   {two, grow(next.header()), 2, nil},
		"prepared, with a header and not all zeros": {two, next.header(), 2, nil},
		"prepared for records that are lost":        {one, grow(next.header()), 1, nil},
		"no mark, and a record":                     {two, record(next, 3), 3, nil},
		"no mark, and a mark of size":               {two, mark(next, 1), 2, nil},
		"no mark, and one that it goes on":          {two, mark(next, goesOn), 0, kv.ErrCorrupt},
		"no mark, and a record that doesn't follow": {one, record(next, 3), 0, kv.ErrCorrupt},
		"no mark, damaged header":                   {two, harmed, 0, kv.ErrCorrupt},
		"no mark, no header, and content":           {two, headless, 0, kv.ErrCorrupt},
		"mark, damaged header":                      {marked, harmed, 0, kv.ErrCorrupt},
		"mark, no header":                           {marked, empty, 0, kv.ErrCorrupt},
		"mark, header of another use":               {marked, record(&used, 3), 0, kv.ErrCorrupt},
		"mark, and it doesn't follow":               {marked, record(&later, 4), 0, kv.ErrCorrupt},
		"of version 1, without a record":            {two, oldHeader(next), 2, nil},
		"of version 1, and it doesn't follow":       {one, oldHeader(next), 0, kv.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			write(t, mem, fileName(1), tt.first)
			write(t, mem, fileName(2), tt.second)
			n, err := Read(mem, "log", 0, func(uint64, []byte) error { return nil })
			if !errors.Is(err, tt.err) || tt.err == nil && (err != nil || n != tt.last) {
				t.Errorf("%d, %v; want %d, %v", n, err, tt.last, tt.err)
			}
			if err != nil && !strings.Contains(err.Error(), ".wal") {
				t.Errorf("no file is named: %v", err)
			}
		})
	}
	// The tables may have all that is before a file that the log never went on in.
	mem := vfs.NewMem()
	write(t, mem, fileName(1), one)
	write(t, mem, fileName(2), next.header())
	if n, err := Read(mem, "log", 2, nil); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	write(t, mem, fileName(1), marked)
	if n, err := Read(mem, "log", 2, nil); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a file that is cut off, and that the tables don't need: %d, %v", n, err)
	}
}
