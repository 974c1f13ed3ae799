package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// An outbox is what an actor has sent to others and isn't known to have come: it lies in
// the actor's keys from the commit of the turn that sends it until a commit after its
// arrival. It is of the actor's goroutine.
//
// A letter is handed to the couriers when its turn is durable. The outbox only looks
// after what doesn't come back from there: it hands everything out again when the actor
// wakes, and when its alarm rings, which is set as long as there is something.
type outbox struct {
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

// Send puts a message into the queue of another actor, which is created if it doesn't
// exist, and woken. One of a type with MustCreate must exist, or it is ErrNoActor. It is sent when the turn is durable, and not at all if the turn
// doesn't land. From then on it arrives, whatever happens to either of the two actors
// or to the host: exactly once, behind those that this actor has sent to that one before,
// unless it takes more than a day. Until it has come it is tried again and again, of which
// the actor that sends it hears nothing.
//
// Only what has not come when the actor is destroyed is in the memory of the host alone,
// and lost with it, or with a crash of the server on which the engine stands.
//
// A message that the other queue can never take, because it is too large there or its
// name is not known, is dropped, with an error in the log. s.Delay counts from now. What
// an actor sends to itself is put into its queue by the turn, as Queue.Send does.
//
// Letters may bound which actors it may be sent to, whether it may create one, and how
// much is sent in a time. Such bounds don't count what an actor sends to itself.
//
// Errors: ErrAddress, ErrNoType, ErrNoActor, ErrOutboxFull, queue.ErrInvalid, greenroom.ErrClosed, those of
// Letters, and those of the store. They say that nothing is sent, also if the turn lands.
func (c *Context) Send(to Address, s queue.Send) error {
	if _, err := to.check(); err != nil {
		return err
	}
	if c.life.host.types[to.Type] == nil {
		return fmt.Errorf("%w: %.80q", ErrNoType, to.Type)
	}
	if to == c.life.addr {
		if r, ok := s.Body.(Raw); ok {
			s.Body = queue.Raw(r)
		}
		_, err := c.Enqueue(s)
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	l, err := c.write(to, s)
	if err != nil {
		return err
	}
	if err := c.permit(to, l); err != nil {
		c.life.host.meter.Count(metricRefused, 1)
		return err
	}
	c.Batch().Put(mailrow.LetterKey(l.Number), l.Append(nil))
	c.Batch().WakeBy(c.now)
	c.letters = append(c.letters, l)
	c.life.host.meter.Count(metricSent, 1)
	c.sent(s.Name, traces.String(eventTo, l.To))
	return nil
}

// write makes a letter of a message.
func (c *Context) write(to Address, s queue.Send) (*mailrow.Letter, error) {
	out := &c.life.out
	if len(out.letters)+len(c.letters) >= maxLetters {
		return nil, fmt.Errorf("%w: limit %d", ErrOutboxFull, maxLetters)
	}
	if !utf8.ValidString(s.Name) || !utf8.ValidString(s.Key) {
		return nil, &queue.InvalidError{What: "name", Err: errors.New("it is not UTF-8")}
	}
	if s.Delay < 0 {
		return nil, &queue.InvalidError{What: "options", Err: fmt.Errorf("the delay is %v", s.Delay)}
	}
	body, err := encodeBody(s.Body)
	if err != nil {
		return nil, &queue.InvalidError{What: "body", Err: err}
	}
	if err := c.loadAccount(); err != nil {
		return nil, err
	}
	return &mailrow.Letter{
		Number: c.life.actor.Seq()*numbersOfCommit + uint64(len(c.letters)),
		From:   mailrow.SenderOf(c.ID()), Nonce: c.account.Nonce, To: to.String(),
		Name: s.Name, Body: body, Key: s.Key, Sent: c.now.UnixMilli(), Delay: uint64(s.Delay.Milliseconds()),
	}, nil
}

// encodeBody returns a body in CBOR, which is not the caller's.
func encodeBody(v any) (Raw, error) {
	if r, ok := v.(queue.Raw); ok {
		v = Raw(r)
	}
	r, err := Encode(v)
	if err != nil {
		return nil, err
	}
	if len(r) == 0 {
		return undefined, nil
	}
	return slices.Clone(r), checkArgs(r)
}

// post is for letters that have landed: they leave when they are durable. With them go
// those for the same actors that are still in the outbox. Couriers that have those ignore
// them; but a courier may have given them up, and what arrives behind a newer letter is
// taken for one that has come before.
//
// An actor that is destroyed leaves the couriers all that it has sent.
func (c *Context) post() {
	if len(c.letters) == 0 && !c.destroy {
		return
	}
	l := c.life
	to := map[string]bool{}
	for _, own := range c.letters {
		l.out.add(own)
		to[own.To] = true
	}
	letters := l.out.pending(func(old *mailrow.Letter) bool { return c.destroy || to[old.To] })
	in := l.host.engine.Incarnation() // before the gate waits
	l.expectArrival()
	hand := l.host.couriers.hand
	if c.destroy && c.restore == nil {
		hand = l.host.couriers.inherit
	}
	c.out = append(c.out, func() { hand(l.addr, in, letters) })
}

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
func (l *life) expectArrival() {
	out := &l.out
	switch {
	case out.empty():
		if out.source != nil {
			out.source.Set(time.Time{})
		}
		return
	case out.source == nil:
		out.source = l.clock.Lasting("host outbox", l.resend)
	case !out.source.At().IsZero():
		return
	}
	out.source.Set(out.resendAt(l.host.clock()))
}

// resendAt is when what has not come is handed out again, the later the longer it has been under way.
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
func (l *life) unsent() bool { return !l.out.empty() && l.host.closing() }

// openOutbox reads what is still to be sent.
func (l *life) openOutbox() error {
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
			l.out.foreign = append(l.out.foreign, slices.Clone(e.Key))
		default:
			l.out.add(letter)
		}
	}
	l.expectArrival()
	return nil
}

// resend hands out everything that is in the outbox, at the end of a turn: what has
// landed may not be durable yet. It is rung by the clock.
func (l *life) resend() {
	err := l.inward(context.WithoutCancel(l.ctx), newTurn("actor.resend", func(c *Context) error {
		l.expectArrival()
		l.discardForeign(c)
		letters := l.out.pending(func(*mailrow.Letter) bool { return true })
		in := l.host.engine.Incarnation()
		c.AfterCommit(func() { l.host.couriers.hand(l.addr, in, letters) })
		return nil
	}))
	switch {
	case err == nil:
	case errors.Is(err, ErrNotAwake), errors.Is(err, errAgain):
		l.out.source.Hold(l.host.clock())
	default:
		l.report("send messages again", err)
		l.out.source.Set(l.out.resendAt(l.host.clock()))
	}
}

// discardForeign removes what the actor, a fork, has of the outbox of the other one.
func (l *life) discardForeign(c *Context) {
	if len(l.out.foreign) == 0 {
		return
	}
	for _, key := range l.out.foreign {
		c.Batch().Delete(key)
	}
	c.Batch().OnCommit(func() {
		l.out.foreign = nil
		l.expectArrival()
	})
}

// arrived removes letters that have come.
func (c *Context) arrived(letters []*mailrow.Letter) {
	l := c.life
	// An actor that was made anew meanwhile may have others with these numbers.
	letters = slices.DeleteFunc(slices.Clone(letters), func(letter *mailrow.Letter) bool {
		own := l.out.letters[letter.Number]
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
			delete(l.out.letters, letter.Number)
		}
		l.expectArrival()
	})
}
