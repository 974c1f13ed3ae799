package cbor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// FromJSON returns the one value in JSON that text holds, as Marshal takes it: nil, a bool, a
// string, an int64 or uint64 for an integer that fits, a float64 for any other number, a
// []any, or an Object with its members in their order. Of members of one name the first has
// the place, and the last the value. It keeps nothing of text.
//
// It reads token by token, since the maps of encoding/json have no order, and its floats no
// integers. A value that Marshal would refuse, because it is nested too deep, is an error
// here already, before the stack grows with it.
//
// Errors are those of encoding/json, or say that the value is too deep, that a number is
// beyond the range of a float64, or that there is more than one value. Apart from those of
// encoding/json they quote nothing of text, which may be long.
func FromJSON(text []byte) (any, error) {
	// A text, true, false and null need none of a Decoder's buffers.
	if rest := bytes.TrimLeft(text, " \t\r\n"); len(rest) > 0 && bytes.IndexByte([]byte(`"tfn`), rest[0]) >= 0 {
		var v any
		if json.Unmarshal(rest, &v) == nil {
			return v, nil
		} // else the Decoder says what is wrong
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is something behind the value")
	}
	return v, nil
}

// readJSON reads a value that is inside of depth arrays and objects.
func readJSON(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return number(t)
	case json.Delim:
		if depth == maxValue {
			return nil, errors.New("too deep")
		}
		if t == '[' {
			return readArray(d, depth+1)
		}
		return readObject(d, depth+1)
	}
	return t, nil // nil, bool, string
}

// readArray reads the elements of an array, and its end.
func readArray(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		v, err := readJSON(d, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token() // the bracket, or what is there instead
	return list, err
}

// readObject reads the members of an object, and its end.
func readObject(d *json.Decoder, depth int) (any, error) {
	object, at := Object{}, map[string]int{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		text, ok := name.(string)
		if !ok {
			return nil, fmt.Errorf("%v where a name is expected", name)
		}
		v, err := readJSON(d, depth)
		if err != nil {
			return nil, err
		}
		if i, again := at[text]; again {
			object[i].Value = v
			continue
		}
		at[text] = len(object)
		object = append(object, Member{Name: text, Value: v})
	}
	_, err := d.Token()
	return object, err
}

// number returns an int64, a uint64 for what is larger, or a float64: of an integer beyond
// 64 bits the nearest, as JavaScript reads it.
func number(n json.Number) (any, error) {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(string(n), 10, 64); err == nil {
		return u, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, errors.New("a number beyond the range of a 64-bit float") // the error would quote all of it
	}
	return f, nil
}
