package workflow

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// A Codec turns values into bytes and back: inputs, outputs, the states of loops and the
// results of steps and branches. It must be safe for concurrent use, and Decode must
// read whatever Encode ever wrote: stored values outlive the program.
//
// What is stored should be one value in CBOR, so that tools can show it: a Codec of other
// bytes wraps them in a byte string of CBOR, as those of this package do.
type Codec interface {
	// Encode returns v in bytes of their own. A v that is a pointer to an interface is a
	// value of that type: what it holds must be decoded into one.
	Encode(v any) ([]byte, error)
	// Decode puts the value that data holds into what v points to. It doesn't keep
	// data.
	Decode(data []byte, v any) error
}

// CBOR is the Codec that is used unless Options say otherwise: CBOR as JavaScript's
// cbor-x writes it, with the struct tags `cbor`, or `json` where that is missing. Values
// of type any come back as nil, bool, int64, float64, string, []byte, []any and
// map[any]any.
func CBOR() Codec { return cborCodec{} }

type cborCodec struct{}

func (cborCodec) Encode(v any) ([]byte, error)    { return cbor.Marshal(v) }
func (cborCodec) Decode(data []byte, v any) error { return cbor.Unmarshal(data, v) }

// JSON is a Codec for values whose types have methods for JSON alone.
func JSON() Codec { return wrapped{jsonCodec{}, plain{}} }

type jsonCodec struct{}

func (jsonCodec) Encode(v any) ([]byte, error) {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.Elem().Kind() == reflect.Interface && p.Elem().NumMethod() > 0 && !p.Elem().IsNil() {
		return nil, fmt.Errorf("workflow: a %v in the interface %v can't be read back", p.Elem().Elem().Type(), p.Elem().Type())
	}
	b, err := json.Marshal(v)
	if err == nil && v != nil {
		// JSON has no one way back: methods, interfaces and embedded pointers deeper in v show only here.
		if bad := json.Unmarshal(b, reflect.New(reflect.TypeOf(v)).Interface()); bad != nil {
			return nil, fmt.Errorf("workflow: the JSON of a %T can't be read back: %w", v, bad)
		}
	}
	return b, err
}

func (jsonCodec) Decode(data []byte, v any) error { return json.Unmarshal(data, v) }

// Compressed is c, made smaller where that is possible (DEFLATE,
// https://www.rfc-editor.org/rfc/rfc1951). A value that is larger than 64 MiB is
// refused, when it is written and when it is read.
func Compressed(c Codec) Codec { return wrapped{c, deflate{}} }

// Encrypted is c, encrypted and authenticated with AES-GCM under a key of 16, 24 or 32
// bytes, and a random nonce for each value
// (https://nvlpubs.nist.gov/nistpubs/Legacy/SP/nistspecialpublication800-38d.pdf): no
// more than 2³² values under one key. Names, errors and the bodies of messages stay
// readable. A program that may write to the store can exchange values, of one workflow or
// another, that were encrypted under the same key.
func Encrypted(c Codec, key []byte) (Codec, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("workflow: codec: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("workflow: codec: %w", err)
	}
	return wrapped{c, sealed{aead}}, nil
}

// A wrapping is what is done to the bytes of another Codec.
type wrapping interface {
	wrap(data []byte) ([]byte, error)
	unwrap(data []byte) ([]byte, error)
}

// wrapped is a Codec whose bytes are wrapped, in a byte string of CBOR.
type wrapped struct {
	inner Codec
	wrapping
}

func (w wrapped) Encode(v any) ([]byte, error) {
	data, err := w.inner.Encode(v)
	if err == nil {
		data, err = w.wrap(data)
	}
	if err != nil {
		return nil, err
	}
	return cbor.Marshal(data)
}

func (w wrapped) Decode(data []byte, v any) error {
	var b []byte
	if err := cbor.Unmarshal(data, &b); err != nil {
		return err
	}
	b, err := w.unwrap(b)
	if err != nil {
		return err
	}
	return w.inner.Decode(b, v)
}

type plain struct{}

func (plain) wrap(data []byte) ([]byte, error)   { return data, nil }
func (plain) unwrap(data []byte) ([]byte, error) { return data, nil }

type sealed struct{ aead cipher.AEAD }

func (s sealed) wrap(data []byte) ([]byte, error) { return s.aead.Seal(nil, nil, data, nil), nil }

func (s sealed) unwrap(data []byte) ([]byte, error) {
	b, err := s.aead.Open(nil, nil, data, nil)
	if err != nil {
		return nil, errors.New("workflow: codec: a value is damaged, or encrypted under another key")
	}
	return b, nil
}

// deflate puts a byte before the data that says whether they are compressed.
type deflate struct{}

const (
	stored   = 0
	deflated = 1

	maxInflated = 64 << 20
)

func (deflate) wrap(data []byte) ([]byte, error) {
	if len(data) > maxInflated {
		return nil, fmt.Errorf("workflow: codec: a value of %d bytes, limit %d", len(data), maxInflated)
	}
	b := bytes.NewBuffer([]byte{deflated})
	w, err := flate.NewWriter(b, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	if b.Len() > len(data) {
		return append([]byte{stored}, data...), nil
	}
	return b.Bytes(), nil
}

func (deflate) unwrap(data []byte) ([]byte, error) {
	switch {
	case len(data) > 0 && data[0] == stored:
		return data[1:], nil
	case len(data) > 0 && data[0] == deflated:
		r := flate.NewReader(bytes.NewReader(data[1:]))
		b, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
		if err == nil && len(b) > maxInflated {
			err = fmt.Errorf("workflow: codec: more than %d bytes", maxInflated)
		}
		return b, err
	}
	return nil, errors.New("workflow: codec: not a compressed value")
}
