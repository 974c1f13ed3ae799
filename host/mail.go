package host

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/kv"
)

// A mail is what one actor sent and the couriers got. As much of it is in
// trips as there is memory for; the rest is read from the actor's outbox.
type mail struct {
	from     Address
	name     string
	in       kv.Incarnation   // of the engine, in which the letters are durable
	trips    map[string]*trip // by the name of the receiver
	ready    [2][]*trip       // those that a courier of that line may go, in their order
	queued   [2]bool          // it waits in that line
	stored   bool             // the outbox may have letters, up to the newest, that no trip has
	nonce    [16]byte         // of the newest
	newest   uint64           // up to this number letters are durable
	reading  bool             // a courier reads the outbox
	changed  bool             // and since it began there may be something else to read
	couriers [2]int           // under way, of each line
}

// A trip is a way from one actor to another with what is to be carried on it: one courier
// at a time, so that no letter overtakes another.
type trip struct {
	mail     *mail
	to       string
	letters  []*mailrow.Letter // in their order
	newest   *mailrow.Letter   // that was added
	orphans  int               // of the letters, the first, which no outbox has any more
	state    tripState
	asleep   bool // an actor must be woken that looked awake
	came     int  // of the letters, what has come and the sender doesn't know yet; the courier's
	failures int  // in a row
	timer    *time.Timer
}

type tripState int

const (
	fresh  tripState = iota // it has no letters
	moving                  // it waits for a courier, or one is under way
	paused                  // it has failed, and is tried again
	given                   // it is left to the outbox: letters that are read are not for it
)

// advance notes that all up to l is durable.
func (m *mail) advance(l *mailrow.Letter) {
	if m.nonce != l.Nonce || m.newest < l.Number {
		m.nonce, m.newest = l.Nonce, l.Number
	}
}

// unread says that the outbox is to be read: it may have what no trip has, and nothing
// tells that it would be what was skipped before.
func (m *mail) unread() bool { return m.stored && m.changed && !m.reading }

// laden says that a trip has letters.
func (m *mail) laden() bool {
	for _, t := range m.trips {
		if len(t.letters) > 0 {
			return true
		}
	}
	return false
}

// add puts a letter on its trip, behind those before it, unless it is there.
//
// +checklocks:cs.mu
func (cs *couriers) add(m *mail, l *mailrow.Letter) (added bool) {
	t := m.trips[l.To]
	if t == nil {
		t = &trip{mail: m, to: l.To}
		m.trips[l.To] = t
	}
	if t.newest != nil && t.newest.Nonce == l.Nonce && t.newest.Number >= l.Number {
		return false
	}
	t.letters, t.newest = append(t.letters, l), l
	cs.held += l.Size()
	if t.state == fresh {
		t.state = moving
		cs.ready(t)
	}
	return true
}

// ready puts a trip into the line where couriers take it.
//
// +checklocks:cs.mu
func (cs *couriers) ready(t *trip) {
	which := far
	if !t.asleep && (visitor{cs.host}).serves(t.to) {
		which = near
	}
	t.mail.ready[which] = append(t.mail.ready[which], t)
	cs.queue(t.mail, which)
}

// batch returns the letters that go next: such as may create the receiver, or such as may
// not.
func (cs *couriers) batch(t *trip) []*mailrow.Letter {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n, size := 0, 0
	for n < min(len(t.letters), lettersAtOnce) && t.letters[n].Existing == t.letters[0].Existing {
		if size += t.letters[n].Size(); n > 0 && size > bytesAtOnce {
			break
		}
		n++
	}
	return t.letters[:n]
}

// returned says how a trip has ended: what has come is done, and the rest is tried again,
// at once or after a while, or left to the outbox, at once if it is of an incarnation that
// is over.
func (cs *couriers) returned(t *trip, which int, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.leave(t, which)
	cs.release(t, t.came)
	switch {
	case err == nil:
		t.failures = 0
	case t.came > 0:
		t.failures = 1
	default:
		t.failures++
	}
	t.came, t.asleep = 0, false
	switch {
	case err == nil && len(t.letters) > 0:
		cs.ready(t)
	case err == nil:
		delete(t.mail.trips, t.to)
	case errors.Is(err, kv.ErrIncarnation):
		cs.forget(t.mail)
		for _, l := range t.letters[:t.orphans] {
			cs.dropped(t.mail.from, l, err)
		}
		cs.release(t, len(t.letters))
		delete(t.mail.trips, t.to)
	case cs.giveUp(t, err):
		cs.release(t, len(t.letters))
		t.state, t.newest = given, nil
	default:
		t.state = paused
		if t.mail.stored && cs.held > cs.limit && t.orphans == 0 { // they can be read again
			cs.release(t, len(t.letters))
			t.newest = nil
		}
		t.timer = cs.later(backoff(t.failures), func() { cs.again(t) })
	}
	t.mail.changed = true
	cs.tidy(t.mail)
}

// forget drops a mail whose letters are of an incarnation that is over: the actors that sent them
// may be lost, and other letters may have their numbers. What is still to be carried is in the
// outbox, which hands it out again. Trips end when they come to a turn, which doesn't land.
//
// +checklocks:cs.mu
func (cs *couriers) forget(m *mail) {
	m.stored = false
	if cs.mails[m.name] == m {
		delete(cs.mails, m.name)
	}
}

// again ends the pause of a trip.
//
// +checklocks:cs.mu
func (cs *couriers) again(t *trip) {
	if len(t.letters) > 0 {
		t.state = moving
		cs.ready(t)
		return
	}
	// What had come may still be in the outbox, if the sender could not be told: it is carried
	// once more, and told then.
	t.state, t.newest, t.mail.changed = fresh, nil, true
	cs.tidy(t.mail)
}

// release takes the first n letters off a trip.
//
// +checklocks:cs.mu
func (cs *couriers) release(t *trip, n int) {
	for _, l := range t.letters[:n] {
		cs.held -= l.Size()
	}
	clear(t.letters[:n])
	t.letters, t.orphans = t.letters[n:], max(t.orphans-n, 0)
}

// tidy queues the outbox of a mail to be read if that may bring something, and forgets a mail
// without anything left to carry.
//
// +checklocks:cs.mu
func (cs *couriers) tidy(m *mail) {
	if m.unread() && len(m.ready[far]) == 0 {
		cs.queue(m, far)
		return
	}
	if m.reading || m.unread() {
		return
	}
	for to, t := range m.trips {
		if t.state == fresh {
			delete(m.trips, to) // there are none in the outbox either
		} else if t.state != given {
			return
		}
	}
	cs.forget(m)
}

// read puts letters from the outbox of a mail on their trips: some of them, or those of
// one trip if memory allows no more. The sender sleeps on.
func (cs *couriers) read(m *mail) {
	cs.mu.Lock()
	nonce, newest := m.nonce, m.newest
	cs.mu.Unlock()
	rest, err := cs.scan(m, func(l *mailrow.Letter) bool { return l.Nonce == nonce && l.Number <= newest })
	if err != nil && cs.host.ctx.Err() == nil {
		cs.host.log.Warn("host: read messages to other actors", slog.String("actor", m.name), slog.Any("error", err))
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	m.reading = false
	switch {
	case err != nil && !m.changed:
		m.stored = false // the outbox hands it out again
	case rest == all && !m.changed:
		m.stored = false
	case rest == more:
		m.changed = true
	}
	cs.tidy(m)
}

// A remainder is what reading an outbox has left there.
type remainder int

const (
	all     remainder = iota // nothing
	skipped                  // letters of trips that are under way
	more                     // others, too
)

// scan reads letters that are durable.
func (cs *couriers) scan(m *mail, durable func(l *mailrow.Letter) bool) (rest remainder, err error) {
	h := cs.host
	id, err := h.store.Lookup(h.ctx, m.name)
	if err != nil {
		return all, ignore(err, actorstore.ErrUnknownActor)
	}
	v, err := h.store.View(h.ctx, id)
	if err != nil {
		return all, ignore(err, actorstore.ErrUnknownActor)
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	start, end := mailrow.LetterRange()
	first, n, size, known := "", 0, 0, map[string]bool{} // receivers: whether letters are read for them
	for e, err := range v.List(h.ctx, actorstore.ListOptions{Start: start, End: end}) {
		if err != nil {
			return rest, err
		}
		l, err := mailrow.ParseLetter(e.Key, e.Value)
		if err != nil {
			return rest, err
		}
		if l.From != mailrow.SenderOf(id) || !durable(l) {
			continue
		}
		wanted, met := known[l.To]
		cs.mu.Lock()
		t, full := m.trips[l.To], cs.held >= cs.limit
		if !met {
			wanted = t == nil || t.state == fresh
		}
		// Once one is skipped those behind it are: they would overtake.
		wanted = wanted && (t == nil || t.state != given && (t.state != paused || len(t.letters) > 0))
		known[l.To] = wanted
		enough := n == lettersAtOnce || full && n > 0 && (first != l.To || size >= leastRead)
		if wanted && !enough {
			cs.add(m, l)
			first, n, size = cmp.Or(first, l.To), n+1, size+l.Size()
		}
		cs.mu.Unlock()
		if !wanted {
			rest = skipped
		} else if enough {
			return more, nil
		}
	}
	return rest, nil
}

// ignore returns nil instead of an error that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
