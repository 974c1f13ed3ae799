package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore"
)

// contents are what memory knows of the messages, stored and staged, and of the calls that wait for them.
//
// mu guards all of it but the settings, and what the open batches have claimed (draft). It is held for memory alone: never while the
// engine is asked, nor during a commit, whose hooks take it.
type contents struct {
	settings
	closing chan struct{} // closed by Close

	mu       sync.Mutex
	closed   bool          // +checklocks:mu
	failed   error         // why the index can't be trusted  +checklocks:mu
	index    index         // +checklocks:mu
	numbers  numbers       // +checklocks:mu
	keys     keyTable      // +checklocks:mu
	bad      []Quarantined // +checklocks:mu
	retry    retry         // +checklocks:mu
	open     []*draft      // those that have staged something  +checklocks:mu
	reserved int           // messages that are staged and count  +checklocks:mu
	answers  answers       // +checklocks:mu
	waiters  listeners     // +checklocks:mu
}

// init makes them empty.
func (c *contents) init() {
	c.closing, c.answers, c.waiters = make(chan struct{}), answers{}, listeners{}
	c.index.init(c.opts.MemoryBytes)
	c.keys.known = map[noteKey]*keyed{}
}

// load reads what is stored, all of one state.
func (c *contents) load(ctx context.Context) (err error) {
	snap, err := c.actor.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.seen = c.millis()
	if err := c.keys.load(ctx, &c.settings, snap, c.index.seen); err != nil {
		return err
	}
	found := metadata{next: 1}
	for _, k := range c.keys.known {
		found.taken(k.id)
	}
	for e, err := range entries(ctx, snap, nil) {
		if err != nil {
			return err
		}
		found.size++
		id, ok := parseMessageKey(snap.Layout(), e.key)
		if !ok {
			c.quarantine(Quarantined{Key: e.key, Size: len(e.value), Err: fmt.Errorf("%w: the key is no message's", actorstore.ErrCorrupt)})
			continue
		}
		found.taken(id)
		c.loadMessage(id, e)
	}
	return c.numbers.load(ctx, &c.settings, snap, found)
}

// loadMessage puts a message into the index.
//
// +checklocks:c.mu
func (c *contents) loadMessage(id ID, e entry) {
	var r record
	err := e.err
	if err == nil {
		r, err = parseRecord(e.value)
	}
	if err != nil {
		c.quarantine(Quarantined{id, e.key, len(e.value), err})
		return
	}
	it := &item{id: id, created: r.created, priority: r.priority, size: len(e.value), rec: e.value, lease: r.lease(c.visibility()), debounce: r.debounce.kept()}
	began := r.created
	if r.inFlight.value && r.since.set {
		began = r.since.value
	}
	it.at = sooner(it.at, began-c.index.seen) // the clock may have been set back
	c.index.enter(it, r.name)
	c.put(it)
}

// check says why no call may go on; it is the actor's word that it is still ours.
func (c *contents) check(ctx context.Context) error {
	c.mu.Lock()
	err := c.usable()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.actor.Owned(ctx)
}

// usable says why nothing may be staged or told.
//
// +checklocks:c.mu
func (c *contents) usable() error {
	switch {
	case c.closed:
		return ErrClosed
	case c.failed != nil:
		return c.failed
	}
	return c.actor.Err()
}

// ended reports whether an error is that of the queue's end or the caller's context. Once
// the queue is closed the actor may be, too, and a call that is under way may meet that first.
func (c *contents) ended(ctx context.Context, err error) bool {
	if errors.Is(err, actorstore.ErrClosed) {
		select {
		case <-c.closing:
			return true
		default:
		}
	}
	return errors.Is(err, ErrClosed) || ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// due makes visible what is to be visible by now.
//
// +checklocks:c.mu
func (c *contents) due() {
	x, now := &c.index, c.millis()
	c.keys.sooner(x.observe(now))
	for it := x.timed.top; it != nil && it.at <= now; it = x.timed.top {
		if it.state == leased {
			c.meter.Count(metricExpired, 1)
		}
		x.take(it)
		it.state = ready
		c.put(it)
	}
}

// put puts a message where it belongs, and wakes a call that waits for one. One that hasn't
// landed belongs nowhere.
//
// +checklocks:c.mu
func (c *contents) put(it *item) {
	if it.line == nil {
		return
	}
	if c.index.put(it, c.mustDie(it)) {
		c.waiters.wake(it.line.name)
	}
}

// mustDie says whether a message is to become a dead letter instead of visible.
//
// +checklocks:c.mu
func (c *contents) mustDie(it *item) bool {
	return !it.stays && (it.doomed || c.opts.dying(it.line.name, it.lease))
}

// quarantine sets a message aside.
//
// +checklocks:c.mu
func (c *contents) quarantine(bad Quarantined) {
	c.bad = append(c.bad, bad)
	c.meter.Count(metricQuarantined, 1)
	c.log.Warn("queue: a stored message is set aside", "actor_id", c.actor.ID(),
		"key", actorstore.Describe(bad.Key), "err", bad.Err)
}

// putAside puts a message that is in no order among the quarantined ones. It can't be
// completed, so those that wait for it are told.
//
// +checklocks:c.mu
func (c *contents) putAside(it *item, err error) {
	c.index.leave(it)
	c.answers.give(it.id, answer{err: fmt.Errorf("%w: %w", ErrNoAnswer, err)})
	c.quarantine(Quarantined{ID: it.id, Key: appendMessageKey(c.actor.Layout(), nil, it.id), Size: it.size, Err: err})
}

// value returns the stored value of a message that is claimed, which no other batch
// can change meanwhile. The slice must not be changed.
func (c *contents) value(ctx context.Context, it *item) ([]byte, error) {
	c.mu.Lock()
	rec := it.rec
	c.mu.Unlock()
	if rec != nil {
		return rec, nil
	}
	return c.actor.Get(ctx, appendMessageKey(c.actor.Layout(), nil, it.id), nil)
}

// rewind has the ids above all that are stored, staged, or known to others given again.
//
// +checklocks:c.mu
func (c *contents) rewind() {
	c.numbers.next = max(c.numbers.meta.next, c.numbers.shown)
	for _, d := range c.open {
		for _, a := range d.adds {
			c.numbers.next = max(c.numbers.next, a.it.id+1)
		}
	}
}

// staged reports whether a batch is about to enqueue the message.
//
// +checklocks:c.mu
func (c *contents) staged(id ID) bool {
	for _, d := range slices.Backward(c.open) { // the newest is asked for most
		if slices.ContainsFunc(d.adds, func(a added) bool { return a.it.id == id }) {
			return true
		}
	}
	return false
}

// holds says whether a message is still that of the receiver with the receipt.
func (c *contents) holds(r Receipt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due()
	it := c.index.byID[r.ID]
	return it != nil && it.claim == nil && it.fits(r)
}

// ids returns the ids of the messages of the names, of all if there are none, sorted.
func (c *contents) ids(names []string) (ids []ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, it := range c.index.byID {
		if len(names) == 0 || slices.Contains(names, it.line.name) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// wakeAll makes all waiting calls look again, and tells those that wait for an answer why none comes.
//
// +checklocks:c.mu
func (c *contents) wakeAll() {
	c.waiters.wakeAll()
	for id := range c.answers {
		c.answers.give(id, answer{err: errors.Join(c.usable(), ErrNoAnswer)})
	}
}

// A Quarantined is a stored message that can't be read, a key among the messages that
// isn't a message's, or a message that was handed out often enough and for which no commit has room as
// a dead letter. It stays where it is, out of the way, until it is deleted or discarded;
// when the queue is opened again, what it is is found out anew.
type Quarantined struct {
	ID   ID     // 0 when the key isn't a message's
	Key  []byte // of the actor
	Size int    // of the value in bytes, 0 when that isn't known
	Err  error  // what is wrong with it; often wraps actorstore.ErrCorrupt or actorstore.ErrNewerFormat
}
