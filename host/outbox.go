package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/internal/mailrow"
)

// An outbox is what an actor has sent to others and isn't known to have come: it lies in
// the actor's keys from the commit of the turn that sends it until a commit after its
// arrival. It is of the actor's goroutine.
//
// A letter is handed to the couriers when its turn is durable. The outbox only looks
// after what doesn't come back from there: it hands everything out again when the actor
// wakes, and when its alarm rings, which is set as long as there is something.
type outbox struct {
	life    *life
	letters map[uint64]*mailrow.Letter // that have landed, by their numbers
	foreign [][]byte                   // keys of letters of the actor of which this one is a fork
	account *mailrow.Account           // as it is stored; nil until it is known
	source  *alarm.Source              // nil until there is something
}

const (
	// maxLetters bounds what may be in an outbox.
	maxLetters = 1000
	// resendAfter is how long an outbox waits at first until it hands out again what has not come, and
	// resendAtMost how long later.
	resendAfter, resendAtMost = time.Minute, 5 * time.Minute
	// numbersOfCommit is how many numbers a turn may give, more than maxLetters: the next
	// turn, which sees its commit, begins behind them.
	numbersOfCommit = 1 << 12
)

func (o *outbox) add(l *mailrow.Letter) {
	if o.letters == nil {
		o.letters = map[uint64]*mailrow.Letter{}
	}
	o.letters[l.Number] = l
}

// pending returns what is in the outbox of which fn says so, in its order.
func (o *outbox) pending(fn func(l *mailrow.Letter) bool) (letters []*mailrow.Letter) {
	for _, l := range o.letters {
		if fn(l) {
			letters = append(letters, l)
		}
	}
	slices.SortFunc(letters, func(a, b *mailrow.Letter) int { return cmp.Compare(a.Number, b.Number) })
	return letters
}

func (o *outbox) empty() bool { return len(o.letters)+len(o.foreign) == 0 }

// expectArrival sets the alarm if there is something in the outbox, and it isn't set.
func (o *outbox) expectArrival() {
	switch {
	case o.empty():
		if o.source != nil {
			o.source.Set(time.Time{})
		}
		return
	case o.source == nil:
		o.source = o.life.clock.Lasting("host outbox", o.resend)
	case !o.source.At().IsZero():
		return
	}
	o.source.Set(o.resendAt(o.life.host.clock()))
}

// resendAt is when the letters that haven't arrived are handed out again. The older the oldest one,
// the later.
func (o *outbox) resendAt(now time.Time) time.Time {
	oldest := now.UnixMilli()
	for _, l := range o.letters {
		oldest = min(oldest, l.Sent)
	}
	return now.Add(min(max(now.Sub(time.UnixMilli(oldest))/2, resendAfter), resendAtMost))
}

// arrivalTime is how long an actor stays awake for what it has sent at last.
const arrivalTime = time.Second

// unsent says that there is something to be sent when the next host starts.
func (o *outbox) unsent() bool { return !o.empty() && o.life.host.closing() }

// open reads what is still to be sent.
func (o *outbox) open() error {
	l := o.life
	start, end := mailrow.LetterRange()
	for e, err := range l.actor.List(l.ctx, actorstore.ListOptions{Start: start, End: end}) {
		if err != nil {
			return err
		}
		letter, err := mailrow.ParseLetter(e.Key, e.Value)
		switch {
		case err != nil:
			return err
		case letter.From != mailrow.SenderOf(l.actor.ID()): // the other one delivers it
			o.foreign = append(o.foreign, slices.Clone(e.Key))
		default:
			o.add(letter)
		}
	}
	o.expectArrival()
	return nil
}

// resend hands out everything that is in the outbox, at the end of a turn: what has
// landed may not be durable yet. It is rung by the clock.
func (o *outbox) resend() {
	l := o.life
	err := l.inward(context.WithoutCancel(l.ctx), newTurn("actor.resend", func(c *Context) error {
		o.expectArrival()
		o.discardForeign(c)
		letters := o.pending(func(*mailrow.Letter) bool { return true })
		in := l.host.engine.Incarnation()
		c.AfterCommit(func() { l.host.couriers.hand(l.addr, in, letters) })
		return nil
	}))
	switch {
	case err == nil:
	case errors.Is(err, ErrNotAwake), errors.Is(err, errAgain):
		o.source.Hold(l.host.clock())
	default:
		l.report("send messages again", err)
		o.source.Set(o.resendAt(l.host.clock()))
	}
}

// discardForeign removes what the actor, a fork, has of the outbox of the other one.
func (o *outbox) discardForeign(c *Context) {
	if len(o.foreign) == 0 {
		return
	}
	for _, key := range o.foreign {
		c.Batch().Delete(key)
	}
	c.Batch().OnCommit(func() {
		o.foreign = nil
		o.expectArrival()
	})
}

// arrived removes letters that have come, in a turn.
func (o *outbox) arrived(c *Context, letters []*mailrow.Letter) {
	// An actor that was made anew meanwhile may have others with these numbers.
	letters = slices.DeleteFunc(slices.Clone(letters), func(letter *mailrow.Letter) bool {
		own := o.letters[letter.Number]
		return own == nil || own.Nonce != letter.Nonce
	})
	if len(letters) == 0 {
		return
	}
	for _, letter := range letters {
		c.Batch().Delete(mailrow.LetterKey(letter.Number))
	}
	c.Batch().OnCommit(func() {
		for _, letter := range letters {
			delete(o.letters, letter.Number)
		}
		o.expectArrival()
	})
}
