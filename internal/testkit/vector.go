package testkit

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A Vector is one golden encoding: of the input as what Schema and Version name, whichever of both a file has.
type Vector struct {
	Name    string
	Schema  string
	Version uint16
	Input   json.RawMessage
	Hex     string
}

// Vectors returns the vectors of a file in testdata. It fails the test if the file has no vectors.
func Vectors(t testing.TB, file string) []Vector {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var vs []Vector
	if err := json.Unmarshal(b, &vs); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(vs) == 0 {
		t.Fatalf("%s has no vectors", file)
	}
	return vs
}

// Decode decodes the vector's input, which is JSON, into what into points to.
func (v Vector) Decode(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Input, into); err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
}

// Bytes returns the encoding. The caller owns it.
func (v Vector) Bytes(t testing.TB) []byte {
	t.Helper()
	return Unhex(t, v.Hex)
}

// HexBytes is bytes in the input of a Vector: {"$hex": "…"}.
type HexBytes []byte

// UnmarshalJSON decodes {"$hex": "…"}.
func (h *HexBytes) UnmarshalJSON(b []byte) error {
	var in struct {
		Hex string `json:"$hex"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	var err error
	*h, err = hex.DecodeString(in.Hex)
	return err
}

// Unhex returns the bytes that s shows in hex. The caller owns them.
func Unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
