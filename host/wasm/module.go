package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A module is changed before it is compiled, in two ways.
//
// Its tables get a maximum. The runtime bounds an instance's memory, and how large a table
// is made, but not how far it grows: its elements are pointers of the host. What goes
// beyond the maximum fails as the language says that it may: table.grow returns -1.
//
// And it counts. Compiled code that loops never yields the processor, not even to Go's
// garbage collector. So at the beginning of each function and of each round of
// each loop a global is decremented, and when it is used up the module calls a function
// of the host, tick, which ends the turn when its time is over. The runtime could do that
// itself, but it asks the host each time, which makes modules ten times slower, and its
// interpreter checks loops alone: calls can go on for ever as well.
//
// The binary format is https://webassembly.github.io/spec/core/binary/modules.html.

// maxTable is the maximum of a table, in elements of 8 bytes, and maxTables how many
// there may be.
const (
	maxTable  = 1 << 17
	maxTables = 4
)

// rounds is how many are made between two ticks: some ten microseconds. It is of 13 bits,
// for which fuel has room.
const rounds = 4096

// tickName is the name of tick among the functions of the host.
const tickName = "tick"

const preamble = "\x00asm\x01\x00\x00\x00"

// Sections, by their numbers in the format.
const (
	sectionCustom    = 0
	sectionType      = 1
	sectionImport    = 2
	sectionFunction  = 3
	sectionTable     = 4
	sectionMemory    = 5
	sectionGlobal    = 6
	sectionExport    = 7
	sectionStart     = 8
	sectionElement   = 9
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
)

// sectionOrder is where sections stand among the others: not all in the order of their
// numbers.
var sectionOrder = []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11}

var errTruncated = errors.New("it is cut off")

// prepare returns the module as it is to be compiled. Of what is wrong with a module it
// finds what is in its way; everything else the runtime does.
func prepare(code []byte) ([]byte, error) {
	if len(code) < len(preamble) || string(code[:len(preamble)]) != preamble {
		return nil, errors.New("it doesn't begin as modules do")
	}
	var sections [13][]byte
	for r := (reader{code[len(preamble):]}); len(r.b) > 0; {
		id, err := r.byte()
		if err != nil {
			return nil, err
		}
		content, err := r.bytes()
		if err != nil {
			return nil, err
		}
		switch {
		case id == sectionCustom: // names, for debuggers
		case int(id) >= len(sections):
			return nil, fmt.Errorf("it has a section %d", id)
		case sections[id] != nil:
			return nil, fmt.Errorf("it has two sections %d", id)
		default:
			sections[id] = append([]byte{}, content...)
		}
	}
	c := &counter{sections: &sections}
	if err := c.boundTables(); err != nil {
		return nil, err
	}
	if err := c.count(); err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(code)*5/4), preamble...)
	for _, id := range sectionOrder {
		if content := sections[id]; content != nil {
			out = binary.AppendUvarint(append(out, id), uint64(len(content)))
			out = append(out, content...)
		}
	}
	return out, nil
}

// A reader reads a part of a module.
type reader struct{ b []byte }

func (r *reader) byte() (byte, error) {
	if len(r.b) == 0 {
		return 0, errTruncated
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b, nil
}

// skip skips n bytes.
func (r *reader) skip(n uint64) error {
	if n > uint64(len(r.b)) {
		return errTruncated
	}
	r.b = r.b[n:]
	return nil
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

// numbers skips n numbers in LEB128, signed ones or unsigned.
func (r *reader) numbers(n int) error {
	for range n {
		end := slices.IndexFunc(r.b, func(b byte) bool { return b < 0x80 })
		if end < 0 {
			return errTruncated
		}
		r.b = r.b[end+1:]
	}
	return nil
}

// bytes reads bytes with their length before them.
func (r *reader) bytes() ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	b := r.b
	if err := r.skip(n); err != nil {
		return nil, err
	}
	return b[:n], nil
}

// appended returns a section with one more item at its end, and how many there were.
func appended(section []byte, item ...byte) ([]byte, uint64, error) {
	if section == nil {
		section = []byte{0}
	}
	r := reader{section}
	n, err := r.number()
	if err != nil {
		return nil, 0, err
	}
	out := append(binary.AppendUvarint(nil, n+1), r.b...)
	return append(out, item...), n, nil
}

// boundTables gives all tables bounds.
func (c *counter) boundTables() error {
	section := c.sections[sectionTable]
	if section == nil {
		return nil
	}
	r := reader{section}
	count, err := r.number()
	if err != nil {
		return err
	}
	if count > maxTables {
		return fmt.Errorf("it has %d tables, the limit is %d", count, maxTables)
	}
	out := binary.AppendUvarint(nil, count)
	for range count {
		if out, err = r.table(out); err != nil {
			return err
		}
	}
	c.sections[sectionTable] = append(out, r.b...) // nothing, or what the runtime refuses
	return nil
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
