package queue

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

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

// A grant is one handing out of a message by this Queue.
type grant struct {
	nonce  uint64 // not 0
	stored bool   // the record says it; of no meaning before the commit has landed
	// landed is the number of the commit with which the message was handed out, 0 before.
	landed atomic.Uint64
}

func newGrant() *grant {
	for {
		if n := rand.Uint64(); n != 0 {
			return &grant{nonce: n}
		}
	}
}

// durable reports whether the lease is known to be on stable storage.
func (g *grant) durable(q *Queue) bool {
	n := g.landed.Load() // after that stored is what it is
	return n != 0 && g.stored && n <= q.durable.Load()
}

// fits reports whether a receipt is that of the lease. A receipt without a nonce may have
// been given before the queue was opened.
func (l *lease) fits(r Receipt) bool {
	switch g := l.grant; {
	case l.state != leased || l.deliveries != r.Deliveries:
		return false
	case g == nil:
		return r.Nonce == 0
	default:
		return r.Nonce == g.nonce || r.Nonce == 0 && g.landed.Load() != 0 && g.stored
	}
}
