package queue

import (
	"crypto/sha256"
	"math"
	"slices"
	"time"
)

// A Debounce makes one message of many that are about the same.
//
// A message of the same name and key that is stored and wasn't handed out yet is replaced: it gets the body, the priority and the
// sender of the newer one, and is hidden for its Delay anew. Its ID, and with it its place among messages of its priority, and the time
// at which it was enqueued stay those of the first. If none is there, since it was handed out, even if it came back, or is
// gone, the message is a new one.
//
// The replacement is a commit like that of any message, and the key is stored with it: after a restart or a crash the message is what the last
// Enqueue that has landed says. Sends in one batch become one message. While another batch that isn't settled has the message,
// Enqueue waits for it, and Tx.Enqueue returns ErrBusy. A batch doesn't receive a stored message that it replaces.
type Debounce struct {
	// Key says what the message is about. It is not "".
	Key string
	// Max is how long after the first message was enqueued the message is hidden at most, however many follow. 0 means
	// as long as others follow before the Delay is over.
	Max time.Duration
}

// A debounceKey is what is stored of the key of a Debounce and the name of its message, or zero for a message without.
type debounceKey [sha256.Size]byte

// kept returns k for memory, nil if it is zero.
func (k debounceKey) kept() *debounceKey {
	if k == (debounceKey{}) {
		return nil
	}
	kept := k // k itself would be allocated for every message
	return &kept
}

func (d *Debounce) keyOf(name string) debounceKey {
	n := noteKeyOf(name, d.Key)
	return debounceKey(n[1:])
}

// bound makes a message that is hidden visible by the time that Max says, where the first one was enqueued at first, and the message is made at r.created.
func (d *Debounce) bound(r *record, first int64) {
	latest := int64(math.MaxInt64)
	if d.Max > 0 {
		latest = after(first, d.Max)
	}
	switch {
	case !r.available.set:
	case latest <= r.created:
		r.available = optional[int64]{}
	default:
		r.available.value = min(r.available.value, latest)
	}
}

// replace stages that r takes the place of a message of the same key, which it returns; nil without one.
//
// +checklocks:d.of.mu
func (d *draft) replace(r *record, by *Debounce) (*item, error) {
	if by == nil {
		return nil, nil
	}
	it, err := d.replaceable(r.debounce)
	if it == nil || err != nil {
		return nil, err
	}
	by.bound(r, it.created)
	r.created = it.created
	lease, rec := r.lease(d.of.visibility()), r.encode()
	if it.line == nil {
		it.rec, it.size, it.priority, it.lease, it.past = rec, len(rec), r.priority, lease, r.past.kept()
		return it, nil
	}
	c, err := d.claim(it)
	if err != nil {
		return nil, err
	}
	c.rec, c.to, c.priority, c.past, c.replaced, c.metric = rec, lease, r.priority, &past{sender: r.past.sender}, true, metricReplaced
	return it, nil
}

// replaceable returns the message that is replaced by one of that key: one that d adds, or one that is stored; nil without one.
//
// +checklocks:d.of.mu
func (d *draft) replaceable(key debounceKey) (*item, error) {
	has := func(a added) bool { return a.it.debounce != nil && *a.it.debounce == key }
	for _, a := range slices.Backward(d.adds) {
		if has(a) && a.it.claim == nil {
			return a.it, nil
		}
	}
	for _, other := range d.of.open {
		if other != d && slices.ContainsFunc(other.adds, has) {
			return nil, &busyKey{other.keys.wait()}
		}
	}
	it := d.of.index.debounced[key]
	switch {
	case it == nil || it.claim == nil:
		return it, nil
	case it.claim.by != d:
		return nil, &busyKey{it.claim.by.keys.wait()}
	case it.claim.replaced && !it.claim.remove:
		return it, nil
	}
	return nil, nil // d receives or removes it
}
