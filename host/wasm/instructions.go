package wasm

import (
	"encoding/binary"
	"fmt"
)

// Instructions that are changed, or end something.
const (
	insBlock     = 0x02
	insLoop      = 0x03
	insIf        = 0x04
	insEnd       = 0x0b
	insCall      = 0x10
	insGlobalGet = 0x23
	insGlobalSet = 0x24
	insRefFunc   = 0xd2
	insBulk      = 0xfc // conversions of floats, too
)

// expression appends instructions up to the end that belongs to them, with those that
// count at the head of each loop. Everything is copied but numbers of functions.
func (c *counter) expression(out []byte, r *reader) ([]byte, error) {
	for depth := 1; depth > 0; {
		whole := r.b
		op, err := r.byte()
		if err != nil {
			return nil, err
		}
		switch op {
		case insBlock, insLoop, insIf:
			depth++
		case insEnd:
			depth--
		case insCall, insRefFunc:
			if out, err = c.function(append(out, op), r); err != nil {
				return nil, err
			}
			continue
		case insGlobalGet, insGlobalSet:
			// The module must not use the global that counts, which isn't its own. When c.fuel is nil, in
			// the expressions of globals that come before it, its number isn't known yet.
			n, _ := binary.Uvarint(r.b)
			if c.fuel != nil && n >= c.global {
				return nil, fmt.Errorf("it uses global %d, and has %d", n, c.global)
			}
		}
		if err := r.operands(op); err != nil {
			return nil, err
		}
		if op == insBulk {
			out = append(out, c.bulk...)
		}
		out = append(out, whole[:len(whole)-len(r.b)]...)
		if op == insLoop {
			out = append(out, c.fuel...)
		}
	}
	return out, nil
}

// operands skips what stands behind an instruction.
func (r *reader) operands(op byte) error {
	switch {
	case op >= insBlock && op <= insIf, op == 0x0c, op == 0x0d, op >= 0x20 && op <= 0x26, op == 0x41, op == 0x42, op == 0xd0:
		return r.numbers(1) // types of blocks, labels, locals, globals, tables, constants
	case op == 0x11, op >= 0x28 && op <= 0x3e:
		return r.numbers(2) // types and tables; alignments and offsets
	case op == 0x0e, op == 0x1c:
		n, err := r.number()
		if err != nil || n > uint64(len(r.b)) {
			return errTruncated
		}
		if op == 0x0e {
			n++ // the label for everything else
		}
		return r.numbers(int(n))
	case op == 0x3f, op == 0x40:
		return r.skip(1)
	case op == 0x43:
		return r.skip(4)
	case op == 0x44:
		return r.skip(8)
	case op == insBulk:
		return r.bulk()
	case op == 0xfd:
		return r.vector()
	case op <= 0x01, op == 0x05, op == insEnd, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
		return nil
	}
	return fmt.Errorf("it has the instruction %#x", op)
}

// bulk skips the rest of an instruction that begins with 0xfc.
func (r *reader) bulk() error {
	op, err := r.number()
	switch {
	case err != nil:
		return err
	case op <= 7:
		return nil
	case op == 8, op == 10, op == 12, op == 14:
		return r.numbers(2)
	case op <= 17:
		return r.numbers(1)
	}
	return fmt.Errorf("it has the instruction 0xfc %d", op)
}

// vector skips the rest of an instruction that begins with 0xfd.
func (r *reader) vector() error {
	op, err := r.number()
	switch {
	case err != nil:
		return err
	case op <= 11, op == 92, op == 93:
		return r.numbers(2)
	case op == 12, op == 13:
		return r.skip(16)
	case op >= 21 && op <= 34:
		return r.skip(1)
	case op >= 84 && op <= 91:
		if err := r.numbers(2); err != nil {
			return err
		}
		return r.skip(1)
	case op <= 255:
		return nil
	}
	return fmt.Errorf("it has the instruction 0xfd %d", op)
}
