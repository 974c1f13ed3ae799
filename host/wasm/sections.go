package wasm

import (
	"encoding/binary"
	"fmt"
)

// What follows changes nothing. The runtime makes room for as many things as a module says
// that it has, before it looks whether they are there: so that is looked at before.

// maxLocals is how many local variables a function may have; browsers have the same limit.
const maxLocals = 50_000

// types are functions with parameters and results.
func types(r *reader) ([]byte, error) {
	return each(r, func(out []byte) ([]byte, error) {
		whole := r.b
		form, err := r.byte()
		if err != nil {
			return nil, err
		}
		if form != 0x60 {
			return nil, fmt.Errorf("a type of form %#x", form)
		}
		for range 2 {
			if _, err := r.bytes(); err != nil { // a type is a byte
				return nil, err
			}
		}
		return append(out, whole[:len(whole)-len(r.b)]...), nil
	})
}

func number(r *reader) ([]byte, error) {
	n, err := r.number()
	return binary.AppendUvarint(nil, n), err
}

func numbers(r *reader) ([]byte, error) {
	return each(r, func(out []byte) ([]byte, error) {
		n, err := r.number()
		return binary.AppendUvarint(out, n), err
	})
}

// memories have a size, and perhaps a maximum.
func memories(r *reader) ([]byte, error) {
	return each(r, func(out []byte) ([]byte, error) {
		whole := r.b
		flags, err := r.byte()
		if err != nil {
			return nil, err
		}
		if flags > 1 {
			return nil, fmt.Errorf("a memory with flags %#x", flags)
		}
		if err := r.numbers(1 + int(flags)); err != nil {
			return nil, err
		}
		return append(out, whole[:len(whole)-len(r.b)]...), nil
	})
}

// data are bytes: of form 0 and 2 with a place, of form 2 with a memory, too.
func (c *counter) data(r *reader) ([]byte, error) {
	return each(r, func(out []byte) ([]byte, error) {
		form, err := r.number()
		if err != nil {
			return nil, err
		}
		if form > 2 {
			return nil, fmt.Errorf("data of form %d", form)
		}
		if out = binary.AppendUvarint(out, form); form == 2 {
			memory, err := r.number()
			if err != nil {
				return nil, err
			}
			out = binary.AppendUvarint(out, memory)
		}
		if form != 1 {
			if out, err = c.expression(out, r); err != nil {
				return nil, err
			}
		}
		b, err := r.bytes()
		return append(binary.AppendUvarint(out, uint64(len(b))), b...), err
	})
}

// locals reads how many local variables a function has, of which types.
func (r *reader) locals() error {
	n, err := r.number()
	sum := uint64(0)
	for ; err == nil && n > 0; n-- {
		var more uint64
		if more, err = r.number(); err != nil {
			break
		}
		if sum += min(more, maxLocals+1); sum > maxLocals {
			return fmt.Errorf("a function has more than %d locals", maxLocals)
		}
		err = r.skip(1)
	}
	return err
}
