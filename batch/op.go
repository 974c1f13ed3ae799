package batch

// A Kind says what an Op does.
type Kind uint8

const (
	// Put stores Value under Key.
	Put Kind = iota
	// Delete removes Key; it is not an error if nothing is stored there.
	Delete
	// DeleteRange removes every key in [Key, Value).
	DeleteRange
)

// String returns "put", "delete" or "delete-range".
func (k Kind) String() string {
	switch k {
	case Put:
		return "put"
	case Delete:
		return "delete"
	case DeleteRange:
		return "delete-range"
	}
	return "unknown"
}

// An Op is one write.
type Op struct {
	Kind Kind
	Key  []byte
	// Value is the value of a Put, and the exclusive end of a DeleteRange; nil
	// there means that the range has no upper bound.
	Value []byte
	// Prior is what the writer knows about what the Op replaces.
	Prior Prior
}

// Payload returns the bytes that o counts against Limits.Payload: key + 2 + value
// for a Put, key + 2 for a Delete, start + 2 + end for a DeleteRange. The 2 are
// WrapperBytes.
func (o *Op) Payload() int {
	if o.Kind == Delete {
		return len(o.Key) + WrapperBytes
	}
	return len(o.Key) + WrapperBytes + len(o.Value)
}

// A Mode says what of a batch lands if something fails midway.
type Mode uint8

const (
	// Atomic: all sub-batches land in one commit of the engine, or none does.
	Atomic Mode = iota
	// Ordered: one sub-batch after the other. A failure leaves a prefix of them
	// in the store, so the mode is for work that is safe to resume.
	Ordered
)

// String returns "atomic" or "ordered".
func (m Mode) String() string {
	if m == Ordered {
		return "ordered"
	}
	return "atomic"
}

// WrapperBytes are counted with every key, for the two bytes by which a store
// wraps it: in the key's size, in a payload, in a quota.
const WrapperBytes = 2
