package host

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/queue"
)

// sending is what a turn sends to other actors.
type sending struct {
	c       *Context
	letters []*mailrow.Letter // to other actors
	account *mailrow.Account  // of the actor, when the turn has landed; nil if nothing is sent
}

// write makes a letter of a message.
func (s *sending) write(to Address, m queue.Send) (*mailrow.Letter, error) {
	c := s.c
	out := &c.life.out
	if len(out.letters)+len(s.letters) >= maxLetters {
		return nil, fmt.Errorf("%w: limit %d", ErrOutboxFull, maxLetters)
	}
	if !utf8.ValidString(m.Name) || !utf8.ValidString(m.Key) {
		return nil, &queue.InvalidError{What: "name", Err: errors.New("it is not UTF-8")}
	}
	if m.Delay < 0 {
		return nil, &queue.InvalidError{What: "options", Err: fmt.Errorf("the delay is %v", m.Delay)}
	}
	if m.Priority < queue.MinPriority || m.Priority > queue.MaxPriority {
		return nil, &queue.InvalidError{What: "options", Err: fmt.Errorf("the priority is %d", m.Priority)}
	}
	d := m.Debounce
	switch {
	case d == nil:
		d = &queue.Debounce{}
	case d.Key == "" || !utf8.ValidString(d.Key) || d.Max < 0:
		return nil, &queue.InvalidError{What: "options", Err: fmt.Errorf("the debounce has the key %.80q and at most %v", d.Key, d.Max)}
	}
	body, err := encodeBody(m.Body)
	if err != nil {
		return nil, &queue.InvalidError{What: "body", Err: err}
	}
	if err := s.loadAccount(); err != nil {
		return nil, err
	}
	return &mailrow.Letter{
		Number: c.life.actor.Seq()*numbersOfCommit + uint64(len(s.letters)),
		From:   mailrow.SenderOf(c.ID()), Nonce: s.account.Nonce, To: to.String(),
		Name: m.Name, Body: body, Key: m.Key, Sent: c.now.UnixMilli(), Delay: uint64(m.Delay.Milliseconds()), Priority: int8(m.Priority),
		Debounce: d.Key, DebounceMax: uint64(d.Max.Milliseconds()),
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

// permit looks whether a letter may be sent, and says in it what it may do.
func (s *sending) permit(to Address, l *mailrow.Letter) error {
	c := s.c
	o := c.life.kind.Letters
	if o == nil {
		o = c.life.host.opts.Letters
	}
	if o == nil {
		o = &Letters{}
	}
	l.Generation = s.account.Generation + 1
	if !o.allows(l.To) {
		return fmt.Errorf("%w: %.80q", ErrNotAllowed, l.To)
	}
	must := c.life.host.kind(to.Type).MustCreate
	if must || o.Generations < 0 || o.Generations > 0 && int64(l.Generation) > int64(o.Generations) {
		l.Existing = true
		exists, err := s.exists(to)
		switch {
		case err != nil:
			return err
		case !exists && must:
			return ErrNoActor
		case !exists:
			return fmt.Errorf("%w: limit %d", ErrGenerations, max(o.Generations, 0))
		}
	}
	if !o.charge(s.account, c.now) {
		return fmt.Errorf("%w: limit %v per second", ErrTooFast, o.Rate)
	}
	return nil
}

// exists says whether there is an actor, awake or not. One that is being created isn't there.
func (s *sending) exists(a Address) (bool, error) {
	c, h := s.c, s.c.life.host
	if (visitor{h}).serves(a.String()) {
		return true, nil
	}
	id, err := h.store.Lookup(c, a.String())
	if err != nil {
		return false, ignore(err, actorstore.ErrUnknownActor)
	}
	v, err := h.store.View(c, id)
	if err != nil {
		return false, ignore(err, actorstore.ErrUnknownActor)
	}
	note, err := creationNote(c, v.Snapshot)
	return !bytes.Equal(note, noteBegun), errors.Join(err, v.Close())
}

// loadAccount reads the actor's account for the turn.
func (s *sending) loadAccount() error {
	c := s.c
	if s.account != nil {
		return nil
	}
	out := &c.life.out
	if out.account == nil {
		value, err := c.life.actor.Get(c, mailrow.AccountKey(), nil)
		if errors.Is(err, actorstore.ErrNotFound) {
			s.account = newAccount()
			return nil
		}
		if err != nil {
			return err
		}
		a, err := mailrow.ParseAccount(value)
		if err != nil {
			return err
		}
		out.account = &a
	}
	own := *out.account
	s.account = &own
	return nil
}

// stageAccount counts what the turn sends.
func (s *sending) stageAccount() {
	c := s.c
	out := &c.life.out
	if len(s.letters) == 0 || out.account != nil && *out.account == *s.account {
		return
	}
	c.Batch().Put(mailrow.AccountKey(), s.account.Append(nil))
	c.Batch().OnCommit(func() { out.account = s.account })
}

// post is for letters that have landed: they leave when they are durable. With them go
// those for the same actors that are still in the outbox. Couriers that have those ignore
// them; but a courier may have given them up, and what arrives behind a newer letter is
// taken for one that has come before.
//
// An actor that is destroyed leaves the couriers all that it has sent.
func (s *sending) post() {
	c := s.c
	if len(s.letters) == 0 && !c.destroy {
		return
	}
	l := c.life
	to := map[string]bool{}
	for _, own := range s.letters {
		l.out.add(own)
		to[own.To] = true
	}
	letters := l.out.pending(func(old *mailrow.Letter) bool { return c.destroy || to[old.To] })
	in := l.host.engine.Incarnation() // before the gate waits
	l.out.expectArrival()
	hand := l.host.couriers.hand
	if c.destroy && c.restore == nil {
		hand = l.host.couriers.inherit
	}
	c.out = append(c.out, func() { hand(l.addr, in, letters) })
}
