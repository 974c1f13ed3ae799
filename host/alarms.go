package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
)

// A wakeTable knows when which sleeping actor must be woken, and does it.
//
// What an actor waits for is stored in its keys. The table is rebuilt from an index of
// rows (keys.go), which must never be behind: before an actor stages anything that may
// set its clock, its row says that it must be woken at once, and when it has gone to
// sleep, with everything stored, the row says when, or goes. Both are applied and not
// waited for: what is applied in an engine before something else is there after a crash
// if that is. A host that was killed wakes all actors that were awake and waited for
// something; they find out themselves what that was.
//
// A row that is replaced or removed must be the one that this stay in memory has written:
// a host that lost the actor can't touch the row of the next one.
type wakeTable struct {
	host *Host

	mu     sync.Mutex
	next   *btree.BTreeG[*sleeper] // +checklocks:mu
	of     map[string]*sleeper     // +checklocks:mu
	rung   map[string]*sleeper     // those that are being woken by the table  +checklocks:mu
	poke   chan struct{}           // of one: next has changed
	ctx    context.Context         // ends with close
	end    context.CancelFunc
	closed bool // +checklocks:mu
	work   sync.WaitGroup
}

// A sleeper is an actor that is to be woken.
type sleeper struct {
	name      string
	at        time.Time // zero: by another version of its type alone
	failures  int       // attempts to wake it, in a row
	row       *alarmRow // if that has fingerprints; else nil
	elsewhere bool      // another host had it when it was last due
	unstored  bool      // it is due, or will be, for what no row says
}

// before is the order in which actors are woken.
func (e *sleeper) before(o *sleeper) bool {
	return cmp.Or(e.at.Compare(o.at), cmp.Compare(e.name, o.name)) < 0
}

// wakers bounds how many actors are being woken by the table at once.
const wakers = 16

// newWakeTable returns an empty table.
func newWakeTable(h *Host) *wakeTable {
	t := &wakeTable{
		host: h, of: map[string]*sleeper{}, rung: map[string]*sleeper{}, poke: make(chan struct{}, 1),
		next: btree.NewBTreeGOptions((*sleeper).before, btree.Options{NoLocks: true}),
	}
	t.ctx, t.end = context.WithCancel(h.ctx)
	return t
}

// start reads the index, and begins to wake actors.
func (t *wakeTable) start(ctx context.Context) error {
	if err := t.scan(ctx); err != nil {
		return err
	}
	t.work.Go(t.run)
	if kv.Shared(t.host.engine) == nil {
		t.work.Go(t.rescan)
	}
	return nil
}

// scan reads the index. An actor that is known already keeps the earlier time.
func (t *wakeTable) scan(ctx context.Context) error {
	for e, err := range t.host.engine.Scan(ctx, alarmRange()) {
		if err != nil {
			return err
		}
		name, err := parseAlarmKey(e.Key)
		if err != nil {
			return err
		}
		row, err := parseAlarmRow(e.Value)
		if err != nil {
			return fmt.Errorf("%w, of %q", err, name)
		}
		a, err := ParseAddress(name)
		kind := t.host.types[a.Type]
		if err != nil || kind == nil {
			continue // of a type that another program has
		}
		if t.isAwake(name) {
			continue // it knows by itself
		}
		t.add(&sleeper{name: name, at: row.due(kind), row: row.ifTried()})
	}
	return nil
}

// rescan finds the actors that other hosts have put to sleep, or left behind.
func (t *wakeTable) rescan() {
	tick := time.NewTicker(t.host.opts.Rescan)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		if err := t.scan(t.ctx); err != nil && t.ctx.Err() == nil {
			t.host.log.Warn("host: read alarms", slog.Any("error", err))
		}
	}
}

// due returns when a host with that type must wake the actor; the zero time for never.
func (r *alarmRow) due(k *kind) time.Time {
	switch {
	case len(r.tried) > 0 && !slices.Contains(r.tried, k.fingerprint()):
		return time.UnixMilli(0) // it may be able to do what waits, and has not looked
	case r.at == never:
		return time.Time{}
	}
	return time.UnixMilli(r.at)
}

// ifTried returns the row if it has fingerprints.
func (r alarmRow) ifTried() *alarmRow {
	if len(r.tried) == 0 {
		return nil
	}
	return &r
}

// try notes that the version of the type that k is can't do all that the actor has to do. What
// is known of other versions, from the row that the actor had, holds as long as there is no
// work that they have not seen, be it fresh or due since then. For what one of them waits to
// do later the row keeps the time.
func (r *alarmRow) try(k *kind, had *alarmRow, fresh bool, now time.Time) {
	r.tried = k.tried(nil)
	if had == nil || fresh || had.at <= now.UnixMilli() {
		return
	}
	r.at, r.tried = min(r.at, had.at), k.tried(had.tried)
}

// add has an actor woken at a time, or earlier if it is to be woken earlier already.
func (t *wakeTable) add(e *sleeper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if known := t.of[e.name]; known == nil {
		t.of[e.name] = e
	} else {
		if e.row != nil {
			known.row = e.row
		}
		known.unstored = known.unstored || e.unstored
		if !e.at.IsZero() && (known.at.IsZero() || e.at.Before(known.at)) {
			t.next.Delete(known)
			known.at, known.elsewhere = e.at, e.elsewhere
		}
		e = known
	}
	if e.at.IsZero() {
		return
	}
	t.next.Set(e)
	select {
	case t.poke <- struct{}{}:
	default:
	}
}

// take forgets an actor, which is being woken or destroyed, and returns what was known of it;
// nil for nothing: then it has no row, as far as this host knows.
func (t *wakeTable) take(name string) *sleeper {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.of[name]
	if e == nil {
		return t.rung[name]
	}
	delete(t.of, name)
	t.next.Delete(e)
	return e
}

func (t *wakeTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next.Len()
}

// close ends the waking, not what has been woken.
func (t *wakeTable) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end()
	t.work.Wait()
}

// due takes the next actor that must be woken by now, or returns how long that takes; a
// negative time if there is none.
func (t *wakeTable) due() (e *sleeper, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.next.Min()
	if !ok {
		return nil, -1
	}
	if in = e.at.Sub(t.host.clock()); in > 0 {
		// Timers don't count the time that a machine is suspended.
		return nil, min(in, time.Minute)
	}
	t.next.PopMin()
	delete(t.of, e.name)
	t.rung[e.name] = e
	return e, 0
}

// run wakes who is due.
func (t *wakeTable) run() {
	busy := make(chan struct{}, wakers)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e, in := t.due()
		if e != nil {
			select {
			case busy <- struct{}{}:
			case <-t.ctx.Done():
				return
			}
			t.work.Go(func() {
				t.wake(e)
				<-busy
			})
			continue
		}
		if in >= 0 {
			timer.Reset(in)
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-t.poke:
		case <-t.ctx.Done():
			return
		}
	}
}

// wake wakes an actor: everything else it does by itself.
func (t *wakeTable) wake(e *sleeper) {
	h := t.host
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.rung, e.name)
	}()
	a, err := ParseAddress(e.name)
	if err == nil && e.elsewhere && !e.unstored && t.done(e.name, a) {
		return
	}
	if err == nil {
		var l *life
		if l, err = h.enter(t.ctx, a, nil, false); err == nil {
			l.leave()
			h.meter.Count(metricAlarms, 1)
			return
		}
	}
	switch {
	case errors.Is(err, ErrNoActor), errors.Is(err, ErrAddress):
		t.drop(e.name)
	case errors.Is(err, ErrClosed), t.ctx.Err() != nil:
	case errors.Is(err, actorstore.ErrInUse):
		t.add(&sleeper{name: e.name, at: h.clock().Add(h.opts.Rescan), row: e.row, elsewhere: true, unstored: e.unstored}) // the other host looks after it while it can
	default:
		h.log.Error("host: wake by alarm", slog.String("actor", e.name), slog.Any("error", err))
		t.add(&sleeper{e.name, h.clock().Add(backoff(e.failures + 1)), e.failures + 1, e.row, e.elsewhere, e.unstored})
	}
}

// done says whether the host that had an actor has done what was due, as the row tells, and
// notes for when that one has left it. Without it the hosts would wake the actor in turns,
// each because the one before was seen at it.
func (t *wakeTable) done(name string, a Address) bool {
	var row alarmRow
	err := t.host.onEngine(func(e kv.Engine) error {
		value, err := e.Get(t.ctx, alarmKey(name), nil)
		if err == nil {
			row, err = parseAlarmRow(value)
		}
		return err
	})
	if err != nil {
		return errors.Is(err, kv.ErrNotFound)
	}
	at := row.due(t.host.types[a.Type])
	if !at.IsZero() && !at.After(t.host.clock()) {
		return false
	}
	t.add(&sleeper{name: name, at: at, row: row.ifTried()})
	return true
}

// drop removes the row of an actor that doesn't exist. It reads the row first and looks for the
// actor then, so that the row of an actor that is created meanwhile stays.
func (t *wakeTable) drop(name string) {
	h := t.host
	err := h.onEngine(func(e kv.Engine) error {
		key := alarmKey(name)
		old, err := e.Get(h.ctx, key, nil)
		if err != nil {
			return err
		}
		if _, err := h.store.Lookup(h.ctx, name); !errors.Is(err, actorstore.ErrUnknownActor) {
			return err
		}
		return e.Commit(h.ctx, &kv.Commit{
			Checks: []kv.Check{{Key: key, Value: old}}, Ops: []kv.Op{kv.Clear(key)}, Durability: kv.Applied,
		})
	})
	if err != nil && !errors.Is(err, kv.ErrNotFound) && !errors.Is(err, kv.ErrConflict) {
		h.log.Warn("host: remove an alarm", slog.String("actor", name), slog.Any("error", err))
	}
}

// A mark is the row that a stay in memory has written.
type mark struct {
	set   bool
	nonce [16]byte
	in    kv.Incarnation // of the engine, before the row was written
}

// markDue has the row of the actor say that it must be woken when a host starts: before
// anything lands for which it must. A row that may be lost, of an earlier incarnation of
// the engine, is written anew.
func (l *life) markDue() error {
	m := mark{set: true, in: l.host.engine.Incarnation()}
	if l.mark.set && l.mark.in == m.in {
		return nil
	}
	_, _ = rand.Read(m.nonce[:]) // it never fails
	err := l.commitRow(&kv.Commit{
		Ops: []kv.Op{kv.Set(alarmKey(l.name), alarmRow{nonce: m.nonce}.append(nil))},
	})
	if err != nil {
		return fmt.Errorf("host: note that %s must be woken: %w", l.name, err)
	}
	l.mark = m
	return nil
}

// commitRow commits a change of the actor's row, and doesn't wait for stable storage.
func (l *life) commitRow(c *kv.Commit) error {
	c.Durability = kv.Applied
	return l.host.onEngine(func(e kv.Engine) error { return e.Commit(l.host.ctx, c) })
}

// replaceMark does op to the row, if it is that of this stay in memory.
func (l *life) replaceMark(op kv.Op) {
	if !l.mark.set {
		return
	}
	err := l.commitRow(&kv.Commit{
		Checks: []kv.Check{{Key: alarmKey(l.name), Value: alarmRow{nonce: l.mark.nonce}.append(nil)}},
		Ops:    []kv.Op{op},
	})
	if err != nil && !errors.Is(err, kv.ErrConflict) {
		l.report("note when it must be woken", err) // else it is woken too early
	}
}

// asleep notes when an actor that has been put to sleep must be woken: at once if there
// is something for it to do. If there is something that its type can't do, the row stays
// for another version of the type.
func (t *wakeTable) asleep(l *life, left remnant) {
	at := l.clock.Next()
	if left.ready {
		at = t.host.clock()
	}
	key := alarmKey(l.name)
	if at.IsZero() && !left.stuck {
		l.replaceMark(kv.Clear(key))
		return
	}
	if err := l.markDue(); err != nil { // there is none if what it waits for isn't stored
		l.report("note when it must be woken", err)
	}
	row := alarmRow{at: never, nonce: l.mark.nonce}
	if !at.IsZero() {
		row.at = max(at.UnixMilli(), 1)
	}
	if left.stuck {
		row.try(l.kind, l.row, left.fresh, t.host.clock())
	}
	if row.at != never && (at.IsZero() || row.at < at.UnixMilli()) {
		at = time.UnixMilli(row.at)
	}
	l.replaceMark(kv.Set(key, row.append(nil)))
	if now := t.host.clock(); !at.IsZero() && at.Before(now) && !left.ready {
		at = now.Add(time.Second) // it was awake when that was due
	}
	t.add(&sleeper{name: l.name, at: at, row: row.ifTried()})
}

// sleeping has an actor woken at a time for what isn't stored, if it sleeps: one that is
// awake knows by itself.
func (t *wakeTable) sleeping(name string, at time.Time) {
	if !t.isAwake(name) {
		t.add(&sleeper{name: name, at: at, unstored: true})
	}
}

func (t *wakeTable) isAwake(name string) bool {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	return t.host.lives[name] != nil
}

// lost has an actor that didn't wake, or was not put to sleep in good order, looked at
// again if it may wait for something: soon, or later if another host has it by now, which
// looks after it as long as it can.
func (t *wakeTable) lost(l *life, err error) {
	if errors.Is(err, ErrNoActor) || !l.known && !l.mark.set && (l.clock == nil || l.clock.Next().IsZero()) {
		return
	}
	t.mu.Lock()
	rung := t.rung[l.name] != nil
	t.mu.Unlock()
	if rung {
		return // who has rung for it looks again
	}
	in, elsewhere := time.Second, errors.Is(err, actorstore.ErrInUse) || errors.Is(err, actorstore.ErrFenced)
	if elsewhere {
		in = t.host.opts.Rescan
	}
	t.add(&sleeper{name: l.name, at: t.host.clock().Add(in), row: l.row, elsewhere: elsewhere})
}

// destroyed forgets an actor that doesn't exist any more.
func (t *wakeTable) destroyed(l *life) {
	l.replaceMark(kv.Clear(alarmKey(l.name)))
	t.take(l.name)
	if l.known && !l.mark.set { // its row is not of this stay
		t.add(&sleeper{name: l.name, at: t.host.clock()})
	}
}
