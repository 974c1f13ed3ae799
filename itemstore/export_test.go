package itemstore

import "reflect"

// TypeOfReflect is TypeOf of a type that a test has made.
func TypeOfReflect(t reflect.Type) Type { return Type{goType: t} }

// Recode decodes a row of an item and encodes it again.
func Recode(row []byte) ([]byte, error) {
	r, err := parseRecord(row)
	if err != nil {
		return nil, err
	}
	return r.append(nil), nil
}

// Repack decodes a token and encodes it again.
func Repack(t Token) (Token, error) {
	p, err := parseToken(t)
	if err != nil {
		return nil, err
	}
	return p.pack()
}
