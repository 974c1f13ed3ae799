package queue

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// A Send is a message to be enqueued.
type Send struct {
	// Name says what kind of message it is, and to whom: receivers choose by it. Any
	// UTF-8 is a name, the empty one too.
	Name string
	// Body is any value that CBOR has (see Message.Decode), or a Raw, which must not
	// change until the message is stored. nil is null.
	Body any
	// Delay is how long the message is invisible; to the millisecond.
	Delay time.Duration
	// Priority is from MinPriority to MaxPriority, 0 for most messages: of those that are visible, receivers get the ones
	// of the highest priority first, in the order of their ids. It stays the same however long a message waits: as long as
	// others of a higher priority come fast enough, a message is not received.
	Priority int
	// Debounce, unless it is nil, makes the message replace the one before it of the same name and key that still waits.
	Debounce *Debounce
	// From is the actor that sends the message, if it is another one; "" if that isn't known. It is UTF-8 of at most 255 bytes.
	// It is stored when an attempt at the message fails, and in memory before: see Message.From.
	From string
	// Key, unless it is "", makes sending again harmless: a second message of the same
	// name with the same key within Options.KeyWindow is not enqueued, and gets the ID of
	// the first one, whatever has become of that.
	Key string
}

// Bounds of Send.Priority.
const (
	MinPriority = -100
	MaxPriority = 100
)

// record checks what is to be sent, and returns what is to be stored.
func (s *Send) record(in *settings) (*record, error) {
	switch {
	case !utf8.ValidString(s.Name):
		return nil, &InvalidError{What: whatName, Err: errors.New("it is not UTF-8")}
	case in.names != nil && !in.names[s.Name]:
		return nil, ErrUnknownName
	case len(s.From) > maxSender || !utf8.ValidString(s.From):
		return nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("the sender is %.80q", s.From)}
	case s.Delay < 0:
		return nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("the delay is %v", s.Delay)}
	case s.Priority < MinPriority || s.Priority > MaxPriority:
		return nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("the priority is %d, and may be from %d to %d", s.Priority, MinPriority, MaxPriority)}
	case s.Debounce != nil && (s.Debounce.Key == "" || s.Debounce.Max < 0):
		return nil, &InvalidError{What: whatOptions, Err: fmt.Errorf("the debounce has the key %.80q and at most %v", s.Debounce.Key, s.Debounce.Max)}
	case s.Delay > 0 && in.opts.Plain, (s.Priority != 0 || s.Debounce != nil) && !in.tells:
		return nil, ErrPlain
	}
	body, err := encodeValue(s.Body, whatBody)
	if err != nil {
		return nil, err
	}
	r := &record{name: s.Name, body: body, created: in.millis(), priority: int8(s.Priority)}
	if in.tells {
		r.past.sender = s.From
	}
	if s.Delay > 0 {
		r.available = some(after(r.created, s.Delay))
	}
	if s.Debounce != nil {
		r.debounce = s.Debounce.keyOf(s.Name)
		s.Debounce.bound(r, r.created)
	}
	if n := r.size(); n > in.opts.MaxMessageBytes {
		return nil, &SizeError{n, in.opts.MaxMessageBytes}
	}
	return r, nil
}
