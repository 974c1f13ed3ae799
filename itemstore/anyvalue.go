package itemstore

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

var anyType = reflect.TypeFor[anyValue]()

// An anyValue is a value of any kind in a store without Go types, as package cbor decodes it. What a
// catalog says of it is that it is an object or a list, so its JSON says where JSON has no such value, or the
// program's type couldn't read it back: bytes are {"$bytes": base64}, times {"$time": RFC 3339}, integers beyond
// 64 bits {"$int": decimal}, and maps whose keys aren't texts {"$map": [[key, value], …]}. An object of one
// member whose name begins with a dollar has one more there.
type anyValue struct{ v any }

func (a anyValue) MarshalCBOR() ([]byte, error) { return cbor.Marshal(a.v) }

func (a anyValue) MarshalJSON() ([]byte, error) { return json.Marshal(forJSON(a.v)) }

func (a *anyValue) UnmarshalCBOR(b []byte) (err error) {
	a.v, err = cbor.Decode(b)
	return err
}

func (a *anyValue) UnmarshalJSON(b []byte) (err error) {
	v, err := cbor.FromJSON(b)
	if err == nil {
		a.v, err = ofJSON(v)
	}
	return err
}

const (
	jsonBytes = "$bytes"
	jsonTime  = "$time"
	jsonInt   = "$int"
	jsonMap   = "$map"
	jsonTag   = "$tag"
)

// forJSON returns what stands for v in JSON.
func forJSON(v any) any {
	switch v := v.(type) {
	case []byte:
		return cbor.Object{{Name: jsonBytes, Value: base64.StdEncoding.EncodeToString(v)}}
	case time.Time:
		return cbor.Object{{Name: jsonTime, Value: v.Format(time.RFC3339Nano)}}
	case *big.Int:
		if !v.IsInt64() && !v.IsUint64() {
			return cbor.Object{{Name: jsonInt, Value: v.String()}}
		}
	case cbor.Tag:
		return cbor.Object{{Name: jsonTag, Value: []any{v.Number, forJSON(v.Value)}}}
	case cbor.Map:
		list := make([]any, len(v))
		for i, p := range v {
			list[i] = []any{forJSON(p.Key), forJSON(p.Value)}
		}
		return cbor.Object{{Name: jsonMap, Value: list}}
	case []any:
		list := make([]any, len(v))
		for i, el := range v {
			list[i] = forJSON(el)
		}
		return list
	case cbor.Object:
		o := make(cbor.Object, len(v))
		for i, m := range v {
			o[i] = cbor.Member{Name: m.Name, Value: forJSON(m.Value)}
		}
		if len(o) == 1 && strings.HasPrefix(o[0].Name, "$") {
			o[0].Name = "$" + o[0].Name
		}
		return o
	}
	return v
}

// ofJSON returns the value that v, as FromJSON returns it, stands for.
func ofJSON(v any) (_ any, err error) {
	switch v := v.(type) {
	case []any:
		for i, el := range v {
			if v[i], err = ofJSON(el); err != nil {
				return nil, err
			}
		}
	case cbor.Object:
		for i, m := range v {
			if v[i].Value, err = ofJSON(m.Value); err != nil {
				return nil, err
			}
		}
		if len(v) != 1 || !strings.HasPrefix(v[0].Name, "$") {
			return v, nil
		}
		if strings.HasPrefix(v[0].Name, "$$") {
			v[0].Name = v[0].Name[1:]
			return v, nil
		}
		if meant, ok := meantBy(v[0]); ok {
			return meant, nil
		}
		return nil, fmt.Errorf("itemstore: %s in JSON: not a value of that kind", clip(v[0].Name))
	}
	return v, nil
}

// meantBy returns the value that the only member of an object stands for.
func meantBy(m cbor.Member) (v any, ok bool) {
	list, _ := m.Value.([]any)
	text, isText := m.Value.(string)
	var err error
	switch {
	case m.Name == jsonMap && list != nil:
		return mapOf(list)
	case m.Name == jsonTag && len(list) == 2:
		n, ok := list[0].(int64)
		return cbor.Tag{Number: uint64(n), Value: list[1]}, ok && n >= 0
	case !isText:
		return nil, false
	case m.Name == jsonBytes:
		v, err = base64.StdEncoding.DecodeString(text)
	case m.Name == jsonTime:
		v, err = time.Parse(time.RFC3339Nano, text)
	case m.Name == jsonInt:
		return new(big.Int).SetString(text, 10)
	default:
		return nil, false
	}
	return v, err == nil
}

// mapOf returns the map of pairs.
func mapOf(list []any) (m cbor.Map, ok bool) {
	m = make(cbor.Map, len(list))
	for i, el := range list {
		pair, _ := el.([]any)
		if len(pair) != 2 {
			return nil, false
		}
		m[i].Key, m[i].Value = pair[0], pair[1]
	}
	return m, true
}
