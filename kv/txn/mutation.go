package txn

import "bytes"

// A Mutation is an atomic operation on the value of a key: it is evaluated when the
// transaction commits, against the value at that moment, so that it conflicts with
// nothing. The meanings, and the treatment of lengths, are FoundationDB's.
//
// Of the numeric and bitwise ones the parameter determines the length of the result:
// the value is cut, or continued with zeros, to the length of the parameter. Numbers
// are unsigned, little-endian and of any length. A missing value counts as zeros
// where nothing else is said.
//
// https://apple.github.io/foundationdb/api-c.html#c.fdb_transaction_atomic_op
type Mutation uint8

const (
	// MutationAdd adds the parameter, wrapping around; a negative number in two's
	// complement subtracts.
	MutationAdd Mutation = iota
	// MutationBitAnd combines bit by bit; with a missing value the parameter is
	// stored.
	MutationBitAnd
	// MutationBitOr combines bit by bit.
	MutationBitOr
	// MutationBitXor combines bit by bit.
	MutationBitXor
	// MutationMax stores the larger of the two numbers.
	MutationMax
	// MutationMin stores the smaller of the two numbers; with a missing value the
	// parameter is stored.
	MutationMin
	// MutationByteMax stores the one that comes later in the order of keys, whole;
	// with a missing value the parameter.
	MutationByteMax
	// MutationByteMin stores the one that comes earlier in the order of keys, whole;
	// with a missing value the parameter.
	MutationByteMin
	// MutationAppendIfFits appends the parameter to the value, or changes nothing
	// when the result were longer than 100,000 bytes. A missing value is empty.
	MutationAppendIfFits
	// MutationCompareAndClear removes the key when its value is the parameter. A
	// missing key stays missing.
	MutationCompareAndClear

	mutations // their number
)

// appendFits is the longest value that MutationAppendIfFits makes.
const appendFits = 100_000

var mutationNames = [mutations]string{
	"Add", "BitAnd", "BitOr", "BitXor", "Max", "Min", "ByteMax", "ByteMin", "AppendIfFits", "CompareAndClear",
}

// String returns the name, "Add" for example.
func (m Mutation) String() string {
	if m < mutations {
		return mutationNames[m]
	}
	return "unknown"
}

// Valid reports whether m is one of the mutations above.
func (m Mutation) Valid() bool { return m < mutations }

// Apply returns what m makes of value and param. exists says whether there is a
// value, and the result of the same name whether there is one after it. The result
// may be value or param itself, or new; neither is changed. m must be Valid.
func (m Mutation) Apply(value []byte, exists bool, param []byte) (result []byte, _ bool) {
	if !exists {
		value = nil
	}
	switch m {
	case MutationCompareAndClear:
		if exists && bytes.Equal(value, param) {
			return nil, false
		}
		return value, exists
	case MutationAppendIfFits:
		// With no room nothing changes, and nothing is created.
		if len(value)+len(param) > appendFits {
			return value, exists
		}
		return append(value[:len(value):len(value)], param...), true
	case MutationByteMax, MutationByteMin:
		if exists && (bytes.Compare(value, param) > 0) == (m == MutationByteMax) {
			return value, true
		}
		return param, true
	}
	if !exists && (m == MutationBitAnd || m == MutationMin) {
		return param, true
	}
	return m.combine(fit(value, len(param)), param), true
}

// combine applies a numeric or bitwise mutation to a value that is the caller's and
// as long as param. It may overwrite and return value.
func (m Mutation) combine(value, param []byte) []byte {
	switch m {
	case MutationMax, MutationMin:
		if (compareNumbers(value, param) > 0) == (m == MutationMax) {
			return value
		}
		return param
	}
	carry := 0
	for i, p := range param {
		switch m {
		case MutationAdd:
			carry += int(value[i]) + int(p)
			value[i] = byte(carry)
			carry >>= 8
		case MutationBitAnd:
			value[i] &= p
		case MutationBitOr:
			value[i] |= p
		case MutationBitXor:
			value[i] ^= p
		}
	}
	return value
}

// fit returns a copy of value that is cut, or continued with zeros, to n bytes.
func fit(value []byte, n int) []byte {
	out := make([]byte, n)
	copy(out, value)
	return out
}

// compareNumbers compares two little-endian numbers of the same length.
func compareNumbers(a, b []byte) int {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] != b[i] {
			return int(a[i]) - int(b[i])
		}
	}
	return 0
}
