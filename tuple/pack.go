package tuple

import (
	"math/big"
	"unicode/utf8"
)

// A packer appends tuples to dst and remembers where incomplete versionstamps
// are.
type packer struct {
	dst []byte
	// stamps counts incomplete versionstamps; stampAt is the offset of the last
	// one's transaction part in dst.
	stamps, stampAt int
}

func (p *packer) tuple(t Tuple, depth int) error {
	// Also the end of a tuple that holds itself.
	if depth > MaxDepth {
		return unsupported("nested deeper than %d", MaxDepth)
	}
	for _, el := range t {
		if err := p.element(el, depth); err != nil {
			return err
		}
	}
	return nil
}

// element is a flat switch over the types of Element.
func (p *packer) element(el Element, depth int) error {
	var err error
	switch v := el.(type) {
	case nil:
		if depth > 0 {
			p.dst = appendNestedNull(p.dst)
		} else {
			p.dst = appendNull(p.dst)
		}
	case []byte:
		p.dst = AppendBytes(p.dst, v)
	case string:
		if !utf8.ValidString(v) {
			return unsupported("string is not valid UTF-8")
		}
		p.dst = AppendString(p.dst, v)
	case Tuple:
		p.dst = AppendNestedStart(p.dst)
		err = p.tuple(v, depth+1)
		p.dst = AppendNestedEnd(p.dst)
	case int:
		p.dst = AppendInt(p.dst, int64(v))
	case int64:
		p.dst = AppendInt(p.dst, v)
	case uint:
		p.dst = AppendUint(p.dst, uint64(v))
	case uint64:
		p.dst = AppendUint(p.dst, v)
	case *big.Int:
		p.dst, err = appendBigInt(p.dst, v)
	case float32:
		p.dst = appendFloat32(p.dst, v)
	case float64:
		p.dst = AppendFloat64(p.dst, v)
	case bool:
		p.dst = AppendBool(p.dst, v)
	case UUID:
		p.dst = AppendUUID(p.dst, v)
	case Versionstamp:
		if v.Incomplete() {
			p.stamps, p.stampAt = p.stamps+1, len(p.dst)+1
		}
		p.dst = AppendVersionstamp(p.dst, v)
	case User:
		if err := checkUser(v); err != nil {
			return err
		}
		p.dst = appendUser(p.dst, v)
	default:
		return unsupported("type %T", el)
	}
	return err
}

// Pack returns the encoding of t. It panics if t has an element that can't be
// packed, which is a mistake in the program; Append returns the error.
func (t Tuple) Pack() []byte { return t.appendPack(nil) }

// appendPack appends the encoding of t to dst and returns the extended slice.
// It panics as Pack does. It allocates nothing when dst is large enough.
func (t Tuple) appendPack(dst []byte) []byte {
	dst, err := Append(dst, t)
	if err != nil {
		panic(err.Error())
	}
	return dst
}

// Append appends the encoding of t to dst and returns the extended slice; it
// retains neither. An element that can't be packed is ErrUnsupported, and then
// dst is returned as it was. It allocates nothing when dst is large enough.
func Append(dst []byte, t Tuple) ([]byte, error) {
	p := packer{dst: dst}
	if err := p.tuple(t, 0); err != nil {
		return dst, err
	}
	return p.dst, nil
}
