package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The runtime bounds an instance's memory, and how large a table is made, but not how far
// a table grows: its elements are pointers of the host. So each table gets a maximum, or a
// smaller one, before the module is compiled. What goes beyond it fails as the language
// says that it may: table.grow returns -1.

// maxTable is that maximum, in elements of 8 bytes, and maxTables how many there may be.
const (
	maxTable  = 1 << 17
	maxTables = 4
)

// Of the binary format, https://webassembly.github.io/spec/core/binary/modules.html.
const (
	preamble     = "\x00asm\x01\x00\x00\x00"
	sectionTable = 4
)

var errTruncated = errors.New("it is cut off")

// boundTables returns a module with bounded tables. Everything else is left as it is, and
// to the runtime to check.
func boundTables(code []byte) ([]byte, error) {
	if len(code) < len(preamble) || string(code[:len(preamble)]) != preamble {
		return nil, errors.New("it doesn't begin as modules do")
	}
	out := append(make([]byte, 0, len(code)+32), preamble...)
	r := reader{code[len(preamble):]}
	for len(r.b) > 0 {
		id, err := r.byte()
		if err != nil {
			return nil, err
		}
		size, err := r.number()
		if err != nil || size > uint64(len(r.b)) {
			return nil, errTruncated
		}
		section := r.b[:size]
		r.b = r.b[size:]
		if id == sectionTable {
			if section, err = (&reader{section}).tables(); err != nil {
				return nil, err
			}
		}
		out = binary.AppendUvarint(append(out, id), uint64(len(section)))
		out = append(out, section...)
	}
	return out, nil
}

// A reader reads a module.
type reader struct{ b []byte }

func (r *reader) byte() (byte, error) {
	if len(r.b) == 0 {
		return 0, errTruncated
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b, nil
}

// number reads an unsigned number in LEB128.
func (r *reader) number() (uint64, error) {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		return 0, errTruncated
	}
	r.b = r.b[size:]
	return n, nil
}

// tables returns the section of tables with bounds.
func (r *reader) tables() ([]byte, error) {
	count, err := r.number()
	if err != nil {
		return nil, err
	}
	if count > maxTables {
		return nil, fmt.Errorf("it has %d tables, the limit is %d", count, maxTables)
	}
	out := binary.AppendUvarint(nil, count)
	for range count {
		if out, err = r.table(out); err != nil {
			return nil, err
		}
	}
	return append(out, r.b...), nil // nothing, or what the runtime refuses
}

// table appends one table: the type of its elements, whether it has a maximum, the size
// that it is made with, the maximum.
func (r *reader) table(out []byte) ([]byte, error) {
	element, err := r.byte()
	if err != nil {
		return nil, err
	}
	flags, err := r.byte()
	if err != nil {
		return nil, err
	}
	if flags > 1 {
		return nil, fmt.Errorf("it has a table with flags %#x", flags)
	}
	least, err := r.number()
	if err != nil {
		return nil, err
	}
	most := uint64(maxTable)
	if flags == 1 {
		given, err := r.number()
		if err != nil {
			return nil, err
		}
		most = min(most, given)
	}
	if least > maxTable {
		return nil, fmt.Errorf("it has a table of %d elements, the limit is %d", least, maxTable)
	}
	out = binary.AppendUvarint(append(out, element, 1), least)
	return binary.AppendUvarint(out, most), nil
}
