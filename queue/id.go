package queue

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An ID is the place of a message in its queue. Ids count from 1, and none is ever given
// twice. That is so for one that was reserved for a batch that didn't land, too, as long
// as the queue is open, and for good once another message was enqueued.
type ID uint64

// lastID is the last that is given; after that, at a thousand million a second in three
// hundred years, there are none. What is stored with a higher one was not given by
// counting.
const lastID = ID(math.MaxInt64)

// String is the number in decimal.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 10) }

// ParseID returns the ID that has the text; ErrID if none has.
func ParseID(text string) (ID, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || ID(n).String() != text {
		return 0, fmt.Errorf("%w: %.80q", ErrID, text)
	}
	return ID(n), nil
}

// A Receipt is what entitles to settle a message: that it was handed out, and which time
// that was. It is good until the lease is over or given back, and never for another
// lease.
type Receipt struct {
	ID         ID
	Deliveries uint32 // how often the message was handed out, this time included
	// Nonce is 0 for a lease on stable storage, which the two numbers tell from any other:
	// such a receipt is good across restarts. The lease of a batch that hasn't landed may
	// never be stored, nor is one of a plain queue: the next one would have the same
	// numbers. Its receipt has a random number, which is good while the Queue is open.
	Nonce uint64
}

// String is the first two numbers in decimal and the nonce, unless it is 0, in
// hexadecimal, with dots between them.
func (r Receipt) String() string {
	s := r.ID.String() + "." + strconv.FormatUint(uint64(r.Deliveries), 10)
	if r.Nonce != 0 {
		s += "." + strconv.FormatUint(r.Nonce, 16)
	}
	return s
}

// ParseReceipt returns the Receipt that has the text; ErrID if none has.
func ParseReceipt(text string) (r Receipt, err error) {
	id, rest, _ := strings.Cut(text, ".")
	n, nonce, _ := strings.Cut(rest, ".")
	if r.ID, err = ParseID(id); err == nil {
		var d uint64
		d, err = strconv.ParseUint(n, 10, 32)
		r.Deliveries = uint32(d)
	}
	if err == nil && nonce != "" {
		r.Nonce, err = strconv.ParseUint(nonce, 16, 64)
	}
	if err != nil || r.String() != text {
		return Receipt{}, fmt.Errorf("%w: receipt %.80q", ErrID, text)
	}
	return r, nil
}
