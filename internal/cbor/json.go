package cbor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxJSON is how deep arrays and objects of JSON may be nested.
const maxJSON = 128

// FromJSON returns the one value in JSON that text holds, for Marshal. Integers up to 64
// bits stay what they are, other numbers become 64-bit floats; objects keep the order of
// their members, and of those of one name the last counts.
func FromJSON(text []byte) (any, error) {
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

// readJSON reads a value.
func readJSON(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return number(t)
	case json.Delim:
		if depth == maxJSON {
			return nil, errors.New("too deep")
		}
		if t == '[' {
			return readArray(d, depth+1)
		}
		return readObject(d, depth+1)
	}
	return t, nil // nil, bool, string
}

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

// number returns an int64, a *big.Int of up to 64 bits, or a float64.
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
