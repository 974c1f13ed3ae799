package host

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/kv"
)

// Couriers carry letters from their senders to the queues of other actors.
// They belong to the host and not to the sender's stay in memory: where only few actors
// may be awake, the sender may have to sleep for the receiver to wake.
//
// There are two lines of them. In the far one each courier may wait until there is room to
// wake an actor; in the near one none does, so that letters between actors that are awake
// get through while no actor can be woken. A line has a bound of couriers, each of which is
// a goroutine as long as it has work. What waits for them are the mails of senders, one
// place in a line each: a busy sender waits behind all others after each trip.
//
// What they carry they may lose: it is in the sender's outbox, which hands it out again.
//
// What they carry is durable in one incarnation of the engine, and only there do they
// hand it over, and have the sender forget it (kv.Commit.In): a later one may be without the
// turn that sent it, or without what the receiver got.
type couriers struct {
	host   *Host
	mu     sync.Mutex
	mails  map[string]*mail // by the name of the sender  +checklocks:mu
	visits map[way]*visit   // +checklocks:mu
	lines  [2]line          // +checklocks:mu
	held   int              // bytes of the letters in all trips  +checklocks:mu
	limit  int              // of held  +checklocks:mu
	most   int              // couriers in a line
	closed bool             // +checklocks:mu
	work   sync.WaitGroup
}

// near and far are the lines.
const (
	near = iota
	far
)

// A line is where mails wait for a courier.
type line struct {
	mails list.List // of *mail, the longest first
	busy  int       // couriers under way
}

// A way is where couriers of a line go: to the receiver of that name.
type way struct {
	line int
	to   string
}

// A visit is what is on one way.
type visit struct {
	couriers int
	waiting  []*trip
}

const (
	// lettersAtOnce is how many letters go with one turn of the receiver.
	lettersAtOnce = 64
	// bytesAtOnce bounds them too, but for one letter: they must fit into a commit of the
	// receiver on any engine.
	bytesAtOnce = 512 << 10
	// attempts is how often a courier tries, in a row, before it leaves the rest to the outbox.
	attempts = 4
	// maxVisitors bounds the couriers for one actor, which share the waits for its storage:
	// see visitors.
	maxVisitors = 16
	// leastRead is how much of an outbox is read if the letters in memory are too many, in
	// bytes, or one letter if that is more.
	leastRead = 256 << 10
	// maxHeld bounds the letters in memory, in bytes, or nearly so: beyond that they are read
	// from the outbox of the sender when its turn comes.
	maxHeld = 16 << 20
)

// hand takes letters of an actor, in their order, that are durable. Those that are under
// way already it doesn't take twice.
// in is the incarnation of the engine, as it was before that was found out.
func (cs *couriers) hand(from Address, in kv.Incarnation, letters []*mailrow.Letter) {
	cs.take(from, in, letters, false)
}

// inherit takes what is in the outbox of an actor that is about to be destroyed, which
// can't be read there any more.
func (cs *couriers) inherit(from Address, in kv.Incarnation, letters []*mailrow.Letter) {
	cs.take(from, in, letters, true)
}

func (cs *couriers) take(from Address, in kv.Incarnation, letters []*mailrow.Letter, last bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed || len(letters) == 0 {
		return
	}
	m := cs.mails[from.String()]
	if m != nil && m.in != in {
		cs.forget(m)
		m = nil
	}
	if m == nil {
		m = &mail{from: from, name: from.String(), in: in, trips: map[string]*trip{}}
		cs.mails[m.name] = m
	}
	m.advance(letters[len(letters)-1])
	size := 0
	for _, l := range letters {
		size += l.Size()
		if t := m.trips[l.To]; t != nil && t.state == given {
			delete(m.trips, l.To)
		}
	}
	switch {
	case last && cs.held+size > 2*maxHeld:
		cs.host.meter.Count(metricUndeliverable, int64(len(letters)))
		cs.host.log.Error("host: messages of a destroyed actor are dropped", slog.String("from", m.name), slog.Int("messages", len(letters)))
	case last || !m.stored && cs.held+size <= cs.limit:
		for _, l := range letters {
			cs.add(m, l)
			if t := m.trips[l.To]; last {
				t.orphans = len(t.letters)
			}
		}
		m.stored = m.stored && !last
	default:
		m.stored, m.changed = true, true
	}
	cs.tidy(m)
}

// close ends the couriers once the host's context has ended.
func (cs *couriers) close() {
	cs.mu.Lock()
	cs.closed = true
	for _, m := range cs.mails {
		for _, t := range m.trips {
			if t.timer != nil {
				t.timer.Stop()
			}
		}
	}
	cs.mu.Unlock()
	cs.work.Wait()
}

// stats returns how many couriers are under way, and how many senders have letters that
// are not known to have come.
func (cs *couriers) stats() (busy, senders int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.lines[near].busy + cs.lines[far].busy, len(cs.mails)
}

// queue puts a mail into a line, and starts a courier for the line if it may have one more.
//
// +checklocks:cs.mu
func (cs *couriers) queue(m *mail, which int) {
	if cs.closed || m.queued[which] {
		return
	}
	m.queued[which] = true
	l := &cs.lines[which]
	l.mails.PushBack(m)
	if l.busy < cs.most {
		l.busy++
		cs.work.Go(func() { cs.serve(which) })
	}
}

// serve is a courier.
func (cs *couriers) serve(which int) {
	for {
		switch m, t := cs.next(which); {
		case t != nil:
			cs.carry(t, which)
		case m != nil:
			cs.read(m)
		default:
			return
		}
	}
}

// next returns what is to be done next in a line: a trip, or a mail to be read. If there
// is neither the courier is gone.
func (cs *couriers) next(which int) (*mail, *trip) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	l := &cs.lines[which]
	for !cs.closed && l.mails.Len() > 0 {
		m := l.mails.Remove(l.mails.Front()).(*mail)
		m.queued[which] = false
		if m.couriers[which] >= cs.visitors() {
			continue // it is queued again when one has returned
		}
		if len(m.ready[which]) == 0 {
			if which == far && m.unread() && (cs.held < cs.limit || !m.laden()) {
				m.reading, m.changed = true, false
				return m, nil
			}
			continue // if it is laden it is queued again when a trip has returned
		}
		t := m.ready[which][0]
		m.ready[which] = m.ready[which][1:]
		v := cs.visits[way{which, t.to}]
		if v == nil {
			v = &visit{}
			cs.visits[way{which, t.to}] = v
		}
		late := v.couriers >= cs.visitors()
		if late {
			v.waiting = append(v.waiting, t)
		} else {
			v.couriers++
			m.couriers[which]++
		}
		if len(m.ready[which]) > 0 || which == far && m.unread() {
			cs.queue(m, which)
		}
		if !late {
			return nil, t
		}
	}
	l.busy--
	return nil, nil
}

// visitors is how many couriers of a line there may be for one receiver, and for one
// sender: each of these can hold up those that it has.
func (cs *couriers) visitors() int { return max(1, min(maxVisitors, cs.most/4)) }

// leave ends a visit: the one that waited for longest may be next. All may if it was
// the last visit, for the next one may be of the other line, which doesn't tell this one.
//
// +checklocks:cs.mu
func (cs *couriers) leave(t *trip, which int) {
	m, w := t.mail, way{which, t.to}
	m.couriers[which]--
	if len(m.ready[which]) > 0 {
		cs.queue(m, which)
	}
	v := cs.visits[w]
	v.couriers--
	n := min(len(v.waiting), 1)
	if v.couriers == 0 {
		n = len(v.waiting)
		delete(cs.visits, w)
	}
	for _, t := range v.waiting[:n] {
		cs.ready(t)
	}
	v.waiting = v.waiting[n:]
}

// carry goes a trip once: to the receiver, unless that was done, and to the sender, to
// have it forget what has come. Either is woken by couriers of the far line alone.
func (cs *couriers) carry(t *trip, which int) {
	h, wake := cs.host, which == far
	letters := cs.batch(t)
	var err error
	if t.came == 0 && len(letters) > 0 {
		t.came, err = cs.deliver(t.mail, t.to, letters, wake, t.orphans > 0)
	}
	if t.came > 0 {
		if unsettled := cs.settle(t.mail, letters[:t.came], wake); unsettled != nil {
			err = unsettled
		}
	}
	if errors.Is(err, errAsleep) {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		t.asleep = true
		cs.leave(t, which)
		cs.ready(t)
		return
	}
	if err != nil {
		h.meter.Count(metricRetried, 1)
		h.log.Warn("host: message to another actor", slog.String("actor", t.mail.name), slog.String("to", t.to), slog.Any("error", err))
	}
	cs.returned(t, which, err)
}

// errAsleep says that an actor is not awake, of which something is wanted only if it is.
var errAsleep = errors.New("host: actor is not awake")

// visit runs t on an actor, which is woken for it only if wake says so.
func (cs *couriers) visit(a Address, b *birth, t *turn, wake bool) error {
	h := cs.host
	t.must, t.courier = true, true
	if wake {
		return h.turn(h.ctx, a, b, t)
	}
	l := h.life(a.String())
	if l == nil || !l.enterAwake() {
		return errAsleep
	}
	t.life, t.patient = l, true
	if err := l.post(h.ctx, t); err != nil {
		l.leave()
		return err
	}
	if err := t.wait(h.ctx); err != errAgain {
		return err
	}
	return errAsleep
}

// deliver puts letters into an actor's queue, durably, and returns how many of them, from
// the first on, are settled: there, or such that they never will be. err says why not all. An actor that is awake is found here alone; orphans have
// no outbox in which another host could read them.
func (cs *couriers) deliver(m *mail, to string, letters []*mailrow.Letter, wake, orphans bool) (came int, err error) {
	a, err := ParseAddress(to)
	if err != nil {
		return 0, err
	}
	if !wake || orphans {
		return cs.bring(m.from, m.in, a, letters, wake)
	}
	h := cs.host
	far, err := h.ask(h.ctx, a, func() (*request, error) { return sayMail(m.name, a, letters) }, func(context.Context) (err error) {
		came, err = cs.bring(m.from, m.in, a, letters, true)
		return err
	})
	if far != nil {
		came = 0
		if bad := far.result(&came); bad != nil || came < 0 || came > len(letters) {
			return 0, cmp.Or(bad, errWire)
		}
	}
	return came, err
}

// collect brings letters that are in an actor's outbox, at another host, and returns how many of them are settled.
func (cs *couriers) collect(ctx context.Context, to Address, ask *mailing) (came int, err error) {
	h := cs.host
	if ask == nil || len(ask.Numbers) == 0 || len(ask.Numbers) > lettersAtOnce {
		return 0, errWire
	}
	from, err := ParseAddress(ask.From)
	if err != nil {
		return 0, err
	}
	// What is read is of this incarnation of the engine, or of a later one, in which the letters don't land.
	in := h.engine.Incarnation()
	id, err := h.store.Lookup(ctx, ask.From)
	if err != nil {
		return 0, err
	}
	v, err := h.store.View(ctx, id)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	letters := make([]*mailrow.Letter, 0, len(ask.Numbers))
	for _, number := range ask.Numbers {
		key := mailrow.LetterKey(number)
		value, err := v.Get(ctx, key, nil)
		if err != nil {
			return 0, fmt.Errorf("host: message %d of %s: %w", number, ask.From, err)
		}
		l, err := mailrow.ParseLetter(key, value)
		if err != nil {
			return 0, err
		}
		if l.From != mailrow.SenderOf(id) || !bytes.Equal(l.Nonce[:], ask.Nonce) || l.To != to.String() || len(letters) > 0 && l.Existing != letters[0].Existing {
			return 0, fmt.Errorf("%w: message %d of %s is another one", errWire, number, ask.From)
		}
		letters = append(letters, l)
	}
	return cs.bring(from, in, to, letters, true)
}

// bring is deliver at this host.
func (cs *couriers) bring(from Address, in kv.Incarnation, a Address, letters []*mailrow.Letter, wake bool) (int, error) {
	h := cs.host
	var came int // not a result: to return would write it beside the turn
	var full error
	t := newTurn("actor.deliver", func(c *Context) error {
		came, full = receipt{c}.take(from, letters)
		if came == 0 {
			return full
		}
		return nil
	})
	t.in = in
	var b *birth
	if kind := h.kind(a.Type); !letters[0].Existing && (kind == nil || !kind.MustCreate) {
		b = &birth{generation: letters[0].Generation, in: in}
	}
	if err := cs.visit(a, b, t, wake); noActor(err) && b == nil {
		for _, l := range letters {
			cs.dropped(from, l, err)
		}
		return len(letters), nil
	} else if err != nil {
		return 0, err // and came is not to be looked at: the turn may still be running
	}
	return came, full
}

// dropped tells of a letter that can't come.
func (cs *couriers) dropped(from Address, l *mailrow.Letter, err error) {
	h := cs.host
	h.meter.Count(metricUndeliverable, 1)
	h.troubles.tell(h.log, h.clock(), "host: message is dropped", from.Type, err, slog.String("from", from.String()), slog.String("to", l.To), slog.String("name", l.Name))
}

// settle makes the sender forget the letters that have arrived. If it can't, they are handed out
// again, and come to receivers that have them already. It doesn't wake a sender that sleeps.
func (cs *couriers) settle(m *mail, letters []*mailrow.Letter, wake bool) error {
	arrived := func() *turn {
		t := newTurn("actor.arrived", func(c *Context) error {
			c.life.out.arrived(c, letters)
			return nil
		})
		t.in = m.in
		return t
	}
	h := cs.host
	err := ErrNotAwake
	if l := h.life(m.from.String()); l != nil { // also while it goes to sleep
		err = l.inward(h.ctx, arrived())
	}
	for errors.Is(err, ErrNotAwake) || errors.Is(err, errAgain) || wake && errors.Is(err, errAsleep) {
		if err = cs.visit(m.from, nil, arrived(), false); wake && errors.Is(err, errAsleep) {
			err = cs.settleAsleep(m, letters)
		}
	}
	if errors.Is(err, greenroom.ErrNotFound) || err != nil && h.ctx.Err() != nil {
		return nil
	}
	return err
}

// settleAsleep removes letters from the keys of a sender that sleeps. The error is ErrNotAwake if it doesn't sleep by then.
func (cs *couriers) settleAsleep(m *mail, letters []*mailrow.Letter) error {
	h := cs.host
	kind := h.kind(m.from.Type)
	if kind == nil {
		return ErrNoType
	}
	l, isAwake, err := visitor{h}.place(h.ctx, m.from, m.name, byCourier)
	if err != nil {
		return err
	}
	if isAwake {
		l.leave()
		return ErrNotAwake
	}
	defer visitor{h}.release(l)
	return h.door.Visit(h.ctx, actorstore.IDFromName(m.name), func(ctx context.Context, a *greenroom.Actor) error {
		var b batch.Batch
		for _, letter := range letters {
			key := mailrow.LetterKey(letter.Number)
			value, err := a.Lower().Get(ctx, key, nil)
			if errors.Is(err, greenroom.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			// An actor that was made anew meanwhile may have others with these numbers.
			own, err := mailrow.ParseLetter(key, value)
			if err != nil {
				return err
			}
			if own.Nonce == letter.Nonce && own.From == letter.From {
				b.DeletePrior(key, batch.Stored(len(value)))
			}
		}
		return a.Lower().ApplyIn(ctx, &b, m.in)
	})
}

// later calls fn after d, unless the couriers are closed by then.
func (cs *couriers) later(d time.Duration, fn func()) *time.Timer {
	return time.AfterFunc(d, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if !cs.closed {
			fn()
		}
	})
}

// giveUp says that another attempt before the outbox's next one is of no use.
func (cs *couriers) giveUp(t *trip, err error) bool {
	return t.failures >= attempts && t.orphans == 0 || cs.host.ctx.Err() != nil || errors.Is(err, ErrClosed)
}
