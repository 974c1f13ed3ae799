package cbor

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// maxBigint is the length in bytes of the largest bigint that is read or written, 8192
// bits. A number is more than a run of bytes: to print one takes time that grows faster
// than its length.
const maxBigint = 1024

// Bounds of what is read. An element takes at least a byte, so the input bounds the
// memory; the depth bounds the stack.
const (
	maxDepth    = 128
	maxElements = 1 << 24
	// maxValue is how deep a value may be that is written: what takes it along, as a message
	// does that a workflow has received, must stay below maxDepth.
	maxValue = maxDepth - 8
)

var (
	encOptions = cbor.EncOptions{
		Sort: cbor.SortNone,
		// Seconds in a float lose the nanoseconds, and the zone
		// (https://github.com/fxamacker/cbor/issues/694).
		Time:          cbor.TimeRFC3339Nano,
		TimeTag:       cbor.EncTagRequired,
		BigIntConvert: cbor.BigIntConvertNone,
		NilContainers: cbor.NilContainerAsEmpty,
	}
	decOptions = cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:  maxDepth,
		MaxArrayElements: maxElements,
		MaxMapPairs:      maxElements,
		IntDec:           cbor.IntDecConvertSignedOrBigInt,
		BigIntDec:        cbor.BigIntDecodePointer,
		// A Set is a []any unless the target has a better type, and so on.
		UnrecognizedTagToAny: cbor.UnrecognizedTagContentToAny,
	}

	plainEncoding = must(encOptions.EncMode())
	plainDecoding = must(decOptions.DecMode())
	// These are for types that hold one which only MarshalText can write.
	textEncoding = must(func(o cbor.EncOptions) cbor.EncOptions {
		o.TextMarshaler = cbor.TextMarshalerTextString
		return o
	}(encOptions).EncMode())
	textDecoding = must(func(o cbor.DecOptions) cbor.DecOptions {
		o.TextUnmarshaler = cbor.TextUnmarshalerTextString
		return o
	}(decOptions).DecMode())
	// This one is for a Date.
	dateEncoding = must(cbor.EncOptions{Time: cbor.TimeUnixDynamic, TimeTag: cbor.EncTagRequired}.EncMode())
)

// must is for options that are constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Wellformed returns errMalformed unless data is exactly one value, and its bigints have at
// most maxBigint bytes each. It doesn't look at the meaning of other tags, nor for members
// of one name.
func Wellformed(data []byte) error {
	if err := plainDecoding.Wellformed(data); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, bare{err})
	}
	if size := largestBigint(data); size > maxBigint {
		return fmt.Errorf("%w: a bigint of %d bytes, limit %d", errMalformed, size, maxBigint)
	}
	return nil
}

// largestBigint returns the length of the largest bigint in well-formed data; 0 if data is
// too short to hold one beyond the limit.
func largestBigint(data []byte) int {
	if len(data) <= maxBigint {
		return 0
	}
	largest, tagged := 0, false
	for d := (decoder{data}); len(d.src) > 0; {
		h := d.next()
		size := 0
		if h.major == majorBytes || h.major == majorText {
			size = d.skip(h)
		}
		if tagged && h.major == majorBytes {
			largest = max(largest, size)
		}
		tagged = h.major == majorTag && (h.arg == tagBig || h.arg == tagNegBig)
	}
	return largest
}

// A decoder reads items from the beginning of well-formed CBOR.
type decoder struct{ src []byte }

// next reads a head.
func (d *decoder) next() head {
	h := readHead(d.src)
	d.src = d.src[h.size:]
	return h
}

// text returns a copy of text or bytes.
func (d *decoder) text(h head) []byte {
	b := []byte{}
	d.pieces(h, func(piece []byte) { b = append(b, piece...) })
	return b
}

// skip passes text or bytes, and returns their length.
func (d *decoder) skip(h head) (size int) {
	d.pieces(h, func(piece []byte) { size += len(piece) })
	return size
}

// pieces calls fn for each piece of text or bytes: those of indefinite length have any
// number of them.
func (d *decoder) pieces(h head, fn func(piece []byte)) {
	if h.info != infoIndefinite {
		fn(d.src[:h.arg])
		d.src = d.src[h.arg:]
		return
	}
	for d.src[0] != headBreak {
		d.pieces(d.next(), fn)
	}
	d.src = d.src[1:]
}
