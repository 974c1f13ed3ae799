package host

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// wellformed returns an error unless args are nothing or one value.
func wellformed(args Raw) error {
	if len(args) == 0 {
		return nil
	}
	return cbor.Valid(args)
}

// checkArgs refuses what is not a value before it takes a turn.
func checkArgs(args Raw) error {
	if err := wellformed(args); err != nil {
		return fmt.Errorf("%w: %w", ErrArgs, err)
	}
	return nil
}

// expected says in words of JSON what is decoded into a type.
func expected(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "a date"
	case t == reflect.TypeFor[[]byte](), reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.BinaryUnmarshaler]()):
		return "bytes: in JSON a text in base64"
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return "true or false"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "an integer"
	case k == reflect.Float32, k == reflect.Float64:
		return "a number"
	case k == reflect.String:
		return "a text"
	case k == reflect.Slice, k == reflect.Array:
		return "an array"
	case k == reflect.Struct:
		return members(t)
	case k == reflect.Map:
		return "an object"
	}
	return "something else"
}

// members names those of the object that a struct is: "an object of name, text".
func members(t reflect.Type) string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		tag, ok := f.Tag.Lookup("cbor")
		if !ok {
			tag = f.Tag.Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || strings.Contains(options, "toarray") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "an object"
	}
	return "an object of " + strings.Join(names, ", ")
}
