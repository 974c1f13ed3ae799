package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/limits"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/workflow"
)

// limiters are the limits of a host's types. Without limits they do nothing.
type limiters struct {
	host  *Host
	named map[string]*Limit

	mu    sync.Mutex
	desks map[deskKey]*desk // +checklocks:mu
	work  sync.WaitGroup    // of desks, and of what they wake
}

// deskKey is a limit and a value of its label.
type deskKey struct{ name, value string }

// A desk is a limit for one value of its label, as far as this host has to do with it: it calls those at the head of the line, when there are permits. It runs on a
// goroutine for as long as there is a line.
type desk struct {
	limits.Limit
	all   *limiters
	key   deskKey
	label string        // of whose values Value is one; "" for none
	look  chan struct{} // of one: the line is to be looked at

	// The lock of the limiters guards these.
	running bool
	users   int                        // callers of claim and holders of permits; without any, and without running, the desk goes
	waiters map[claimKey]chan struct{} // claims of this host that wait to be called
	holders map[claimKey]int           // permits that are held by actors that are awake here
	called  map[claimKey]*call         // actors that weren't awake when they were at the head of the line
}

// claimKey is a part of an actor.
type claimKey struct{ actor, part string }

// A call is that of an actor that wasn't awake here.
type call struct {
	ticket uint64
	begun  time.Time
	ended  time.Time // zero while the actor is being woken
	woken  bool      // it was
	gone   bool      // the actor doesn't exist, or wants no permit
}

const (
	// deskPatience is how long those at the head of a line may take to claim before others are called.
	deskPatience = 10 * time.Second
	// deskPoll is how often a desk looks without being told.
	deskPoll = 5 * time.Second
	// sweepEvery is how often a desk asks about permits that have no end.
	sweepEvery = time.Minute
	// lineCheck is how often a claim that waits looks whether it has its place still: a desk takes out of the line what hasn't claimed in time.
	lineCheck = time.Minute
	// tidyEvery is how often records that say nothing, permits that are over, and the lines of limits that there aren't any more are removed.
	tidyEvery = time.Hour
)

// newLimiters returns the limits of types.
func newLimiters(types map[string]*kind) (*limiters, error) {
	ls := &limiters{named: map[string]*Limit{}, desks: map[deskKey]*desk{}}
	for _, k := range types {
		for _, all := range [][]*Limit{k.Limits, k.WorkflowLimits} {
			for _, m := range all {
				if other := ls.named[m.Name]; other != nil && *other != *m {
					return nil, fmt.Errorf("%w: there are two limits %q that differ", ErrTypes, m.Name)
				}
				ls.named[m.Name] = m
			}
		}
	}
	return ls, nil
}

// start begins to look after lines that there are already, and such as other hosts have.
func (ls *limiters) start(h *Host) {
	ls.host = h
	ls.work.Go(func() { ls.again(tidyEvery, ls.tidy) })
	if len(ls.named) > 0 {
		ls.work.Go(func() { ls.again(h.opts.Rescan, ls.findAll) })
	}
}

// again calls fn, again and again.
func (ls *limiters) again(every time.Duration, fn func() error) {
	h := ls.host
	for {
		if err := fn(); err != nil && h.ctx.Err() == nil {
			h.log.Warn("host: look for lines of limits", slog.Any("error", err))
		}
		select {
		case <-time.After(every):
		case <-h.ctx.Done():
			return
		}
	}
}

// findAll looks for lines.
func (ls *limiters) findAll() error {
	var all error
	for name := range ls.named {
		if err := ls.find(name); err != nil {
			all = errors.Join(all, fmt.Errorf("limit %q: %w", name, err))
		}
	}
	return all
}

// tidy takes back the permits that are over, also such as no other claimant waits for, and removes records that say nothing: of all limits of the store, since a program that doesn't have a
// limit any more leaves them behind.
func (ls *limiters) tidy() error {
	var all error
	for name, err := range limits.Names(ls.host.ctx, ls.host.engine) {
		if err != nil {
			return err
		}
		if err := ls.tidyOne(name); err != nil {
			all = errors.Join(all, fmt.Errorf("limit %q: %w", name, err))
		}
	}
	return all
}

// tidyOne is tidy for one limit.
func (ls *limiters) tidyOne(name string) error {
	ctx, h := ls.host.ctx, ls.host
	m := ls.named[name]
	if m == nil {
		m = &Limit{Name: name}
		if err := ls.abandon(m); err != nil {
			return err
		}
	}
	var held []*desk
	defer func() {
		for _, d := range held {
			d.leave()
		}
	}()
	for value, err := range limits.Held(ctx, h.engine, name) {
		if err != nil {
			return err
		}
		held = append(held, ls.enter(m, value))
	}
	for look := range 2 { // what hasn't changed in between is over
		for _, d := range held {
			if _, err := d.sweep(); err != nil {
				return err
			}
		}
		if look > 0 || len(held) == 0 {
			break
		}
		select {
		case <-time.After(limits.Lease):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return limits.Tidy(ctx, h.engine, name, h.clock())
}

// abandon wakes the actors that wait for a limit that the program doesn't have any more, and takes them out of its lines. Actors of types that only other hosts have stay.
func (ls *limiters) abandon(m *Limit) error {
	ctx, h := ls.host.ctx, ls.host
	for value, err := range limits.Lines(ctx, h.engine, m.Name) {
		if err != nil {
			return err
		}
		for head, err := range limits.Line(ctx, h.engine, m.Name, value) {
			if err != nil {
				return err
			}
			a, err := ParseAddress(head.Actor)
			if err != nil || h.kind(a.Type) == nil {
				continue
			}
			l, err := h.enter(ctx, a, nil, byAlarm)
			if err == nil {
				l.leave()
			} else if !noActor(err) {
				continue // the next time; or another host has it
			}
			d := ls.enter(m, value)
			err = d.Leave(ctx, head.Claimant)
			d.leave()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// find opens the desks of a limit that have lines.
func (ls *limiters) find(name string) error {
	for value, err := range limits.Lines(ls.host.ctx, ls.host.engine, name) {
		if err != nil {
			return err
		}
		d := ls.enter(ls.named[name], value)
		d.poke()
		d.leave()
	}
	return nil
}

// enter returns the desk of a limit, and counts a user of it until leave.
func (ls *limiters) enter(m *Limit, value string) *desk {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	key := deskKey{m.Name, value}
	d := ls.desks[key]
	if d == nil {
		d = &desk{
			all: ls, key: key, look: make(chan struct{}, 1), waiters: map[claimKey]chan struct{}{}, called: map[claimKey]*call{}, holders: map[claimKey]int{}, label: m.Label,
		}
		d.Engine, d.Name, d.Value, d.Rule, d.Now = ls.host.engine, m.Name, value, m.rule(), ls.host.clock
		ls.desks[key] = d
	}
	d.users++
	return d
}

func (d *desk) leave() {
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	d.users--
	d.forget()
}

// forget drops a desk of which nothing is left to do.
//
// +checklocks:d.all.mu
func (d *desk) forget() {
	if d.users == 0 && !d.running {
		delete(d.all.desks, d.key)
	}
}

// poke has the desk look at the line.
func (d *desk) poke() {
	select {
	case d.look <- struct{}{}:
	default:
	}
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	if !d.running && d.all.host.ctx.Err() == nil {
		d.running = true
		d.all.work.Go(d.run)
	}
}

// await claims a permit for c until that is given, or ctx ends. The place in the line stays when ctx ends.
//
// wait is called when it must wait, and sets inLine, which stays so when ctx ends.
func (d *desk) await(ctx context.Context, c limits.Claimant, until func() time.Time, wait func(), inLine *atomic.Bool) error {
	key, called := claimKey{c.Actor, c.Part}, make(chan struct{}, 1)
	d.all.mu.Lock()
	d.waiters[key] = called // before the claim, so that no call is missed
	delete(d.called, key)   // it is awake
	d.all.mu.Unlock()
	defer func() {
		d.all.mu.Lock()
		delete(d.waiters, key)
		d.all.mu.Unlock()
		if inLine.Load() {
			d.poke() // c may have been called just now
		}
	}()
	for failures, waited := 0, false; ; {
		granted, err := d.Claim(ctx, c, until())
		h := d.all.host
		var retry <-chan time.Time
		switch {
		case granted:
			inLine.Store(false)
			h.meter.Count(metricPermits, 1)
			return nil
		case err == nil:
			failures = 0
			if !waited {
				waited = true
				wait()
				h.meter.Count(metricWaited, 1)
			}
			d.poke()
		case errors.Is(err, kv.ErrPoisoned) || errors.Is(err, kv.ErrClosed) || ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		default:
			failures++
			retry = time.After(backoff(failures))
			h.troubles.tell(h.log, h.clock(), "host: claim a permit", d.Name, err, slog.String("limit", d.Name), slog.String("actor", c.Actor))
		}
		if retry == nil {
			retry = time.After(lineCheck)
		}
		select {
		case <-called:
		case <-retry:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// giveBack gives the permit of c back, and says whether trying again may help.
func (d *desk) giveBack(ctx context.Context, c limits.Claimant, unused bool) (again bool) {
	waiting, err := d.Release(ctx, c, unused)
	if err != nil {
		h := d.all.host
		h.troubles.tell(h.log, h.clock(), "host: give a permit back", d.Name, err, slog.String("limit", d.Name), slog.String("actor", c.Actor))
	}
	if waiting {
		d.poke()
	}
	return err != nil && !errors.Is(err, kv.ErrPoisoned) && !errors.Is(err, kv.ErrClosed)
}

// run calls those at the head of the line for as long as there is one.
func (d *desk) run() {
	h := d.all.host
	changed, stop := d.watch()
	defer stop()
	var swept time.Time // when permits are to be looked at
	for {
		c, err := d.Call(h.ctx)
		if err == nil && c.Full && !h.clock().Before(swept) {
			swept, err = d.sweep()
			if err == nil {
				c, err = d.Call(h.ctx)
			}
		}
		if err != nil && h.ctx.Err() == nil {
			h.troubles.tell(h.log, h.clock(), "host: look at the line of a limit", d.Name, err, slog.String("limit", d.Name))
		}
		if d.call(&c) && err == nil || h.ctx.Err() != nil {
			return
		}
		wait := deskPoll
		if c.Again > 0 {
			wait = min(wait, c.Again)
		}
		if c.Full {
			wait = min(wait, max(swept.Sub(h.clock()), time.Millisecond))
		}
		timer := time.NewTimer(wait)
		select {
		case <-d.look:
		case <-changed:
		case <-timer.C:
		case <-h.ctx.Done():
		}
		timer.Stop()
	}
}

// watch returns a channel that receives when the limit has changed: nil where the engine can't tell.
func (d *desk) watch() (changed <-chan struct{}, stop func()) {
	if tr := txn.TransactorOf(d.Engine); tr != nil && tr.TxCaps().Has(txn.Watching) {
		changed, stop, err := tr.Watch(d.Key())
		if err == nil {
			return changed, stop
		}
	}
	return nil, func() {}
}

// sweep takes back permits that are over, and returns when that is to be done next.
func (d *desk) sweep() (again time.Time, err error) {
	h := d.all.host
	again = h.clock().Add(sweepEvery)
	next, err := d.Sweep(h.ctx, d.dead)
	if !next.IsZero() && next.Before(again) {
		again = next
	}
	return again, err
}

// overStates are the states of workflows that are over, in the words of the index.
var overStates = []string{workflow.Completed.String(), workflow.Failed.String(), workflow.Cancelled.String()}

// dead says whether a permit that has no end is of no more use: the workflow that had it is over, its actor is gone, or its actor has another value of the label and will
// claim that one's permit.
func (d *desk) dead(c limits.Claimant) (bool, error) {
	h := d.all.host
	has := d.all.named[d.Name] != nil // else the label isn't known, and the actor doesn't give the permit back
	if l := h.life(c.Actor); l != nil && has {
		return !d.known(claimKey{c.Actor, c.Part}) && d.other(l), nil // else the actor gives it back by itself
	}
	id, err := h.store.Lookup(h.ctx, c.Actor)
	if err == nil {
		v, err2 := h.store.View(h.ctx, id)
		if err = err2; err == nil {
			info := v.Info()
			over := info.Attributes.Workflow == "" || slices.Contains(overStates, info.Attributes.Workflow)
			moved := has && info.Host == actorstore.HostID{} && info.Attributes.Labels[d.label] != d.Value
			return over || moved, v.Close()
		}
	}
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return true, nil
	}
	return false, err
}

// known says whether a part of an actor that is awake here waits for a permit, or holds one.
func (d *desk) known(c claimKey) bool {
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	return d.waiters[c] != nil || d.holders[c] > 0
}

// other says whether an actor that is awake has another value of the label than that of the desk.
func (d *desk) other(l *life) bool {
	d.all.host.mu.Lock()
	up := l.phase == awake
	d.all.host.mu.Unlock()
	return up && l.actor.Attributes().Labels[d.label] != d.Value
}

// hold counts a permit that a part of an actor that is awake here holds, or, with -1, one less.
func (d *desk) hold(c claimKey, n int) {
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	if d.holders[c] += n; d.holders[c] == 0 {
		delete(d.holders, c)
	}
}

// call tells the claims of this host that are at the head of the line, and wakes actors that are there. It says whether the desk has nothing more to do, which then isn't
// running any more.
func (d *desk) call(c *limits.Call) (done bool) {
	var skip []limits.Head
	var leave []bool
	now := d.all.host.clock()
	d.all.mu.Lock()
	for _, head := range c.Heads {
		key := claimKey{head.Actor, head.Part}
		if w := d.waiters[key]; w != nil {
			select {
			case w <- struct{}{}:
			default:
			}
			continue
		}
		switch was := d.called[key]; {
		case was == nil, was.ticket != head.Ticket && !was.ended.IsZero():
			was = &call{ticket: head.Ticket, begun: now}
			d.called[key] = was
			d.all.work.Go(func() { d.wake(head, was) })
		case was.ticket != head.Ticket: // it is being woken still
			was.ticket, was.begun = head.Ticket, now
		case was.gone, now.Sub(was.begun) >= deskPatience:
			skip, leave = append(skip, head), append(leave, was.gone || was.woken)
		}
	}
	maps.DeleteFunc(d.called, func(_ claimKey, c *call) bool { return !c.ended.IsZero() && now.Sub(c.begun) > 2*deskPatience })
	if !c.Waiting && len(d.waiters) == 0 {
		done = true
		d.running = false
		d.forget()
	}
	d.all.mu.Unlock()
	for i, head := range skip {
		if err := d.Skip(d.all.host.ctx, head, leave[i]); err != nil && d.all.host.ctx.Err() == nil {
			d.all.host.log.Warn("host: move a claim in its line", slog.String("limit", d.Name), slog.String("actor", head.Actor), slog.Any("error", err))
		}
	}
	return done
}

// wake wakes an actor at the head of the line: it claims by itself, if it still wants to.
func (d *desk) wake(head limits.Head, c *call) {
	h := d.all.host
	a, err := ParseAddress(head.Actor)
	wants := true
	if err == nil {
		var l *life
		if l, err = h.enter(h.ctx, a, nil, byAlarm); err == nil {
			wants = d.wants(l, head.Part)
			l.leave()
		}
	}
	d.all.mu.Lock()
	c.ended = h.clock()
	c.woken = err == nil
	c.gone = noActor(err) || errors.Is(err, ErrAddress) || !wants
	gone := c.gone
	d.all.mu.Unlock()
	if gone {
		d.poke()
	}
	if err != nil && !gone && !errors.Is(err, actorstore.ErrInUse) && !errors.Is(err, ErrNoType) && !errors.Is(err, ErrClosed) && h.ctx.Err() == nil {
		h.troubles.tell(h.log, h.clock(), "host: wake an actor for its permit", d.Name, err, slog.String("limit", d.Name), slog.String("actor", head.Actor))
	}
}

// wants says whether a part of an actor has something to claim a permit for: a message that was there when it took its place in the line may be gone. A workflow that is awake
// sees to that by itself.
func (d *desk) wants(l *life, part string) bool {
	for _, t := range l.kind.takers() {
		if partNames[t.part] == part {
			now, cancel := context.WithCancel(d.all.host.ctx)
			cancel()
			return l.queue.WaitFor(now, t.names...) == nil
		}
	}
	return part == partNames[partWorkflow] && l.workflow != nil
}
