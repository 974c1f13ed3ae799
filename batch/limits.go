package batch

// Limits are what a store accepts. A zero field stands for the default, except
// in AtomicBatches.
type Limits struct {
	// KeySize bounds a key, and both ends of a range, in bytes including
	// WrapperBytes. Default 2048: a key has at most 2046 bytes of its own.
	KeySize int
	// ValueSize bounds a value in bytes. Default 128 KiB.
	ValueSize int
	// Entries bounds the Ops of a sub-batch; a DeleteRange is one. Default 128.
	Entries int
	// Payload bounds the sum of Op.Payload over a sub-batch, in bytes. Default
	// 976 KiB.
	Payload int
	// Storage bounds everything that one actor stores, in bytes. Default 1 GiB.
	// It is a quota, which the store keeps; Split doesn't look at it.
	Storage int64
	// AtomicBatches bounds the sub-batches of an atomic batch. 0 means as many
	// as the engine's transaction takes.
	AtomicBatches int
}

// DefaultLimits returns the limits of an actor's key-value store unless its
// options say otherwise.
func DefaultLimits() Limits {
	return Limits{
		KeySize:   2048,
		ValueSize: 128 << 10,
		Entries:   128,
		Payload:   976 << 10,
		Storage:   1 << 30,
	}
}

// OrDefault returns l with the default in every field that is not positive;
// AtomicBatches has no default and stays.
func (l Limits) OrDefault() Limits {
	d := DefaultLimits()
	if l.KeySize <= 0 {
		l.KeySize = d.KeySize
	}
	if l.ValueSize <= 0 {
		l.ValueSize = d.ValueSize
	}
	if l.Entries <= 0 {
		l.Entries = d.Entries
	}
	if l.Payload <= 0 {
		l.Payload = d.Payload
	}
	if l.Storage <= 0 {
		l.Storage = d.Storage
	}
	return l
}

// Check reports whether op fits into a sub-batch on its own. The error is a
// *LimitError that wraps ErrKeyTooLong, ErrValueTooLarge or, if only the payload
// is too large, ErrTooLarge.
func (l Limits) Check(op Op) error {
	l = l.OrDefault()
	_, err := l.check(&op)
	return err
}

// CheckSubs reports whether a batch of this mode may have n sub-batches: an
// Atomic one may have at most AtomicBatches. The error is a *LimitError that
// wraps ErrTooLarge. A store calls it after Split, before it writes.
func (l Limits) CheckSubs(mode Mode, n int) error {
	if mode != Atomic || l.AtomicBatches <= 0 || n <= l.AtomicBatches {
		return nil
	}
	return &LimitError{Err: ErrTooLarge, What: "sub-batches of an atomic batch", Size: n, Limit: l.AtomicBatches}
}

// check returns op's payload. l has been through OrDefault.
func (l *Limits) check(op *Op) (payload int, err error) {
	if n := len(op.Key) + WrapperBytes; n > l.KeySize {
		return 0, limitError(ErrKeyTooLong, op.Key, "bytes of the key", n, l.KeySize)
	}
	switch op.Kind {
	case Put:
		if n := len(op.Value); n > l.ValueSize {
			return 0, limitError(ErrValueTooLarge, op.Key, "bytes of the value", n, l.ValueSize)
		}
	case DeleteRange:
		if n := len(op.Value) + WrapperBytes; n > l.KeySize {
			return 0, limitError(ErrKeyTooLong, op.Value, "bytes of the range's end", n, l.KeySize)
		}
	}
	payload = op.Payload()
	if payload > l.Payload {
		return 0, limitError(ErrTooLarge, op.Key, "bytes of the entry", payload, l.Payload)
	}
	return payload, nil
}
