package host

import (
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/queue"
)

const (
	// seenFor is how long a receiver remembers at least what it has got from a sender.
	seenFor = 24 * time.Hour
	// seenInMemory bounds the senders that an awake actor has in mind.
	seenInMemory = 1024
	// seenSwept is how many senders are looked at, for each new one, whether they are to
	// be forgotten: more than one, so that they don't gather.
	seenSwept = 4
)

// A receipt is a turn that takes letters of another actor.
type receipt struct{ *Context }

// take puts letters into the queue, but for those that came before, and returns how many
// are settled. err says why not all.
func (c receipt) take(from Address, letters []*mailrow.Letter) (came int, err error) {
	known, err := c.seen(letters[0].From)
	if err != nil {
		return 0, err
	}
	before := known
	for _, l := range letters {
		if known.Has(l) {
			c.life.host.meter.Count(metricRepeated, 1)
			came++
			continue
		}
		switch err = c.receive(from, l); {
		case err == nil:
			c.life.host.meter.Count(metricArrived, 1)
		case hopeless(err):
			c.life.host.couriers.dropped(from, l, err)
			err = nil
		}
		if err != nil {
			break
		}
		known.Nonce, known.Number = l.Nonce, l.Number
		came++
	}
	if known != before {
		known.At = c.now.UnixMilli()
		c.note(letters[0].From, known)
	}
	return came, err
}

// receive puts a letter of an actor into the queue.
func (c receipt) receive(from Address, l *mailrow.Letter) error {
	due := time.UnixMilli(l.Sent).Add(time.Duration(l.Delay) * time.Millisecond)
	var debounce *queue.Debounce
	if l.Debounce != "" {
		most := min(l.DebounceMax, uint64(queue.Forever/time.Millisecond))
		debounce = &queue.Debounce{Key: l.Debounce, Max: time.Duration(most) * time.Millisecond}
	}
	_, err := c.Enqueue(queue.Send{
		Name: l.Name, Body: queue.Raw(l.Body), Key: l.Key, Delay: max(due.Sub(c.now), 0), From: from.String(), Priority: int(l.Priority), Debounce: debounce,
	})
	return err
}

// hopeless says that a queue will never take a message.
func hopeless(err error) bool {
	for _, never := range []error{queue.ErrTooLarge, queue.ErrInvalid, queue.ErrUnknownName, queue.ErrPlain} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}

// seen returns what the actor has got from a sender.
func (c receipt) seen(from mailrow.Sender) (s mailrow.Seen, err error) {
	l := c.life
	if s, ok := l.seen[from]; ok {
		return s, nil
	}
	value, err := l.actor.Get(c, mailrow.SeenKey(from), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return s, c.sweepSeen()
	}
	if err != nil {
		return s, err
	}
	return mailrow.ParseSeen(value)
}

// note stores what has come from a sender, with the turn.
func (c receipt) note(from mailrow.Sender, s mailrow.Seen) {
	l := c.life
	c.Batch().Put(mailrow.SeenKey(from), s.Append(nil))
	c.Batch().OnCommit(func() {
		if l.seen == nil || len(l.seen) >= seenInMemory {
			l.seen = map[mailrow.Sender]mailrow.Seen{}
		}
		l.seen[from] = s
	})
}

// sweepSeen forgets some senders of whom nothing has come for long. It looks at some
// place at random, so that it gets everywhere in time.
func (c receipt) sweepSeen() error {
	var at mailrow.Sender
	_, _ = rand.Read(at[:]) // it never fails
	_, end := mailrow.SeenRange()
	long := c.now.Add(-seenFor).UnixMilli()
	for e, err := range c.life.actor.List(c, actorstore.ListOptions{Start: mailrow.SeenKey(at), End: end, Limit: seenSwept}) {
		if err != nil {
			return err
		}
		s, err := mailrow.ParseSeen(e.Value)
		if err != nil {
			return err
		}
		if s.At >= long {
			continue
		}
		c.Batch().Delete(slices.Clone(e.Key))
		c.Batch().OnCommit(func() { clear(c.life.seen) })
	}
	return nil
}
