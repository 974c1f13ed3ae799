package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/docstore"
)

// A propertiesJSON is what a document holds, in a JSON that says of which type a value is, so that what is read back is
// equal. An integer has neither fraction nor exponent, a float has one of them. Where JSON lacks the value: bytes are
// {"$bytes": base64}, floats that are no numbers {"$float": "NaN"} (or "+Inf", "-Inf"), and integers that are unsigned
// and would be read as signed ones {"$uint": 5}. A dictionary of one member whose name begins with a dollar has one
// more there.
type propertiesJSON docstore.Properties

// MarshalJSON implements json.Marshaler.
func (p propertiesJSON) MarshalJSON() ([]byte, error) {
	return json.Marshal(forJSON(map[string]any(p)))
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *propertiesJSON) UnmarshalJSON(b []byte) error {
	v, err := valueOfJSON(b)
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("it is not an object")
	}
	*p = m
	return nil
}

// valueOfJSON returns the one value that is in a text.
func valueOfJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more behind it")
	}
	return ofJSON(v)
}

// forJSON returns what stands for a value in JSON.
func forJSON(v any) any {
	switch v := v.(type) {
	case []byte:
		return map[string]any{"$bytes": base64.StdEncoding.EncodeToString(v)}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return map[string]any{"$float": strconv.FormatFloat(v, 'g', -1, 64)}
		}
		return json.RawMessage(admin.AppendReal(nil, v))
	case uint64:
		if v <= math.MaxInt64 {
			return map[string]any{"$uint": v}
		}
	case []any:
		list := make([]any, len(v))
		for i, el := range v {
			list[i] = forJSON(el)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, el := range v {
			if len(v) == 1 && strings.HasPrefix(name, "$") {
				name = "$" + name
			}
			m[name] = forJSON(el)
		}
		return m
	}
	return v
}

// ofJSON returns the value that v, which has json.Number for numbers, stands for.
func ofJSON(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		return numberOfJSON(string(v))
	case []any:
		for i, el := range v {
			if v[i], err = ofJSON(el); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name, el := range v {
			if v[name], err = ofJSON(el); err != nil {
				return nil, err
			}
		}
		for name, el := range v {
			if len(v) == 1 && strings.HasPrefix(name, "$") {
				return meantBy(name, el)
			}
		}
	}
	return v, nil
}

// numberOfJSON returns an integer, or a float if the text has a fraction or an exponent.
func numberOfJSON(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			err = fmt.Errorf("the number %s is out of range", text)
		}
		return f, err
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		err = fmt.Errorf("the integer %s has more than 64 bits: as a float it is written with .0", text)
	}
	return u, err
}

// meantBy returns the value that the only member of an object stands for.
func meantBy(name string, v any) (any, error) {
	text, isText := v.(string)
	switch n, isInt := v.(int64); {
	case strings.HasPrefix(name, "$$"):
		return map[string]any{name[1:]: v}, nil
	case name == "$uint" && isInt && n >= 0:
		return uint64(n), nil
	case name == "$bytes" && isText:
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b, nil
		}
	case name == "$float" && isText:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
	}
	return nil, fmt.Errorf("%s: not a value of that kind", name)
}
