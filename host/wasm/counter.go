package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// A counter has a module count. tick is imported behind all other functions, so that the
// numbers of those that the module has itself are one more than before, wherever they
// stand; the global comes behind all others.
type counter struct {
	sections *[13][]byte
	tick     uint64 // the number of the function
	global   uint64 // and of the global
	fuel     []byte // the instructions that count a round
	bulk     []byte // and those that count what takes as long as many
}

// bulkRounds is how many rounds an instruction counts that may copy all of the memory. So
// there is never more than a tenth of a second between two ticks, or so.
const bulkRounds = 64

// count changes all sections in which something has to change.
func (c *counter) count() error {
	if err := c.change(sectionType, types); err != nil {
		return err
	}
	kind, err := c.add(sectionType, 0x60, 0, 0) // a function without parameters and results
	if err != nil {
		return err
	}
	functions, globals, err := c.imported()
	if err != nil {
		return err
	}
	c.tick = functions
	entry := append(append([]byte{byte(len(abi.Module))}, abi.Module...), byte(len(tickName)))
	entry = binary.AppendUvarint(append(append(entry, tickName...), 0), kind)
	if _, err := c.add(sectionImport, entry...); err != nil {
		return err
	}
	for _, part := range []struct {
		id     byte
		change func(r *reader) ([]byte, error)
	}{
		{sectionFunction, numbers}, {sectionMemory, memories}, {sectionDataCount, number},
		{sectionGlobal, c.globals}, {sectionExport, c.exports}, {sectionStart, c.start}, {sectionElement, c.elements},
	} {
		if err := c.change(part.id, part.change); err != nil {
			return err
		}
	}
	own, err := c.add(sectionGlobal, 0x7f, 1, 0x41, rounds&0x7f|0x80, rounds>>7, 0x0b) // an i32 that can be set
	if err != nil {
		return err
	}
	c.global = globals + own
	c.fuel, c.bulk = c.counting(1), c.counting(bulkRounds)
	if err := c.change(sectionData, c.data); err != nil {
		return err
	}
	return c.change(sectionCode, c.code)
}

func (c *counter) add(id byte, item ...byte) (n uint64, err error) {
	c.sections[id], n, err = appended(c.sections[id], item...)
	return n, err
}

// change replaces a section, if there is one.
func (c *counter) change(id byte, fn func(r *reader) ([]byte, error)) error {
	if c.sections[id] == nil {
		return nil
	}
	r := &reader{c.sections[id]}
	out, err := fn(r)
	if err == nil && len(r.b) > 0 {
		err = errors.New("a section has more than its items")
	}
	if err != nil {
		return fmt.Errorf("section %d: %w", id, err)
	}
	c.sections[id] = out
	return nil
}

// counting returns: fuel -= n; if fuel <= 0 { tick(); fuel = rounds }.
func (c *counter) counting(n byte) []byte {
	g := binary.AppendUvarint(nil, c.global)
	return slices.Concat(
		[]byte{0x23}, g, []byte{0x41, n | 0x80, 0, 0x6b, 0x24}, g,
		[]byte{0x23}, g, []byte{0x41, 0, 0x4c, 0x04, 0x40, 0x10}, binary.AppendUvarint(nil, c.tick),
		[]byte{0x41, rounds&0x7f | 0x80, rounds >> 7, 0x24}, g, []byte{0x0b},
	)
}

// imported counts the functions and globals that are imported.
func (c *counter) imported() (functions, globals uint64, err error) {
	if c.sections[sectionImport] == nil {
		return 0, 0, nil
	}
	r := reader{c.sections[sectionImport]}
	n, err := r.number()
	for ; err == nil && n > 0; n-- {
		var kind byte
		if kind, err = r.imported(); err != nil {
			break
		}
		switch kind {
		case 0:
			functions++
			err = r.numbers(1)
		case 3:
			globals++
			err = r.skip(2)
		default:
			err = errors.New("it imports something that is not a function") // the host offers functions only
		}
	}
	return functions, globals, err
}

// imported reads two names and a kind.
func (r *reader) imported() (kind byte, err error) {
	for range 2 {
		if _, err := r.bytes(); err != nil {
			return 0, err
		}
	}
	return r.byte()
}

// function appends the number of a function, which r reads, as it is now.
func (c *counter) function(out []byte, r *reader) ([]byte, error) {
	n, err := r.number()
	if n >= c.tick {
		n++
	}
	return binary.AppendUvarint(out, n), err
}

// each appends the count of items, and calls fn for each.
func each(r *reader, fn func(out []byte) ([]byte, error)) ([]byte, error) {
	n, err := r.number()
	out := binary.AppendUvarint(nil, n)
	for ; err == nil && n > 0; n-- {
		out, err = fn(out)
	}
	return out, err
}

// globals have a type in two bytes, and an expression.
func (c *counter) globals(r *reader) ([]byte, error) {
	return each(r, func(out []byte) ([]byte, error) {
		head := r.b
		if err := r.skip(2); err != nil {
			return nil, err
		}
		return c.expression(append(out, head[:2]...), r)
	})
}

// exports have a name, a kind and a number.
func (c *counter) exports(r *reader) ([]byte, error) {
	return each(r, func(out []byte) ([]byte, error) {
		name, err := r.bytes()
		if err != nil {
			return nil, err
		}
		out = append(binary.AppendUvarint(out, uint64(len(name))), name...)
		kind, err := r.byte()
		if err != nil {
			return nil, err
		}
		if out = append(out, kind); kind == 0 {
			return c.function(out, r)
		}
		n, err := r.number()
		return binary.AppendUvarint(out, n), err
	})
}

func (c *counter) start(r *reader) ([]byte, error) { return c.function(nil, r) }

// elements are of eight forms, which the bits of a number tell apart: 1 that it is passive
// or declares, 2 that there is a table, or that it declares, 4 that there are expressions
// in place of numbers of functions.
func (c *counter) elements(r *reader) ([]byte, error) {
	return each(r, func(out []byte) ([]byte, error) {
		form, err := r.number()
		if err != nil {
			return nil, err
		}
		if form > 7 {
			return nil, fmt.Errorf("elements of form %d", form)
		}
		out = binary.AppendUvarint(out, form)
		if form&1 == 0 {
			if form&2 != 0 {
				table, err := r.number()
				if err != nil {
					return nil, err
				}
				out = binary.AppendUvarint(out, table)
			}
			if out, err = c.expression(out, r); err != nil {
				return nil, err
			}
		}
		if form&3 != 0 { // the type of the elements
			kind, err := r.byte()
			if err != nil {
				return nil, err
			}
			out = append(out, kind)
		}
		items, err := each(r, func(out []byte) ([]byte, error) {
			if form&4 != 0 {
				return c.expression(out, r)
			}
			return c.function(out, r)
		})
		return append(out, items...), err
	})
}

// code has functions: their size, their locals, their instructions.
func (c *counter) code(r *reader) ([]byte, error) {
	var body []byte
	return each(r, func(out []byte) ([]byte, error) {
		b, err := r.bytes()
		if err != nil {
			return nil, err
		}
		f := &reader{b}
		if err := f.locals(); err != nil {
			return nil, err
		}
		body = append(append(body[:0], b[:len(b)-len(f.b)]...), c.fuel...)
		if body, err = c.expression(body, f); err != nil {
			return nil, err
		}
		if len(f.b) > 0 {
			return nil, errors.New("a function has something behind its end")
		}
		return append(binary.AppendUvarint(out, uint64(len(body))), body...), nil
	})
}
