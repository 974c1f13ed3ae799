package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/internal/limits"
)

// permitTime is how long a permit for a message lasts that isn't renewed.
const permitTime = limits.Lease

// A permitSet is the permits of a part of an actor, one of each of its limits. The set of a part without limits is nil.
type permitSet struct {
	life   *life
	claims []claimed
	lost   context.Context // ends when a permit is lost, because it couldn't be renewed in time
	lose   context.CancelCauseFunc
	stop   chan struct{} // closed by release; nil for permits that aren't renewed
	done   sync.WaitGroup
	mu     sync.Mutex // of claims, while they grow
}

// A claimed permit is one of a set.
type claimed struct {
	desk *desk
	by   limits.Claimant
}

func (c *claimed) key() claimKey { return claimKey{c.by.Actor, c.by.Part} }

// errPermitLost says that a permit ended before what was done under it.
var errPermitLost = errors.New("host: a permit has ended")

// A claimer claims permits for parts of an actor.
type claimer struct{ *life }

// admit claims permits of all limits for a part of an actor, one after the other, and returns when it has them. number tells apart the permits that a part holds
// at a time. Those of a workflow don't end by themselves.
//
// When ctx ends the place in the line stays, and the life's inLine says so.
func (l claimer) admit(ctx context.Context, all []*Limit, of part, number int) (*permitSet, error) {
	if len(all) == 0 {
		return nil, nil
	}
	for {
		p := &permitSet{life: l.life}
		p.lost, p.lose = context.WithCancelCause(ctx)
		if of != partWorkflow {
			p.stop = make(chan struct{})
			p.done.Go(p.renew)
		}
		err := p.claim(all, of, number)
		if err == nil {
			return p, nil
		}
		p.release(true)
		if ctx.Err() != nil || !errors.Is(context.Cause(p.lost), errPermitLost) {
			return nil, fmt.Errorf("host: claim a permit: %w", err)
		}
	}
}

// claim claims the permits.
func (p *permitSet) claim(all []*Limit, of part, number int) error {
	l := p.life
	until := func() time.Time {
		if of == partWorkflow {
			return time.Time{}
		}
		return l.host.clock().Add(permitTime)
	}
	var labels map[string]string
	for i, m := range all {
		if labels == nil && m.Label+m.Fair != "" {
			labels = l.actor.Attributes().Labels
		}
		by := limits.Claimant{Actor: l.name, Part: partNames[of], Number: number, Fair: labels[m.Fair]}
		c := claimed{l.host.limits.enter(m, labels[m.Label]), by}
		wait := func() {
			l.inLine[of].Store(true)
			if of != partWorkflow {
				return
			}
			// An actor whose label has changed while it slept may hold permits of limits that come later, which others may wait for that have the one that it waits for.
			for _, later := range all[i+1:] {
				d := l.host.limits.enter(later, labels[later.Label])
				d.giveBack(l.steady, by, false)
				d.leave()
			}
		}
		if err := c.desk.await(p.lost, c.by, until, wait, &l.inLine[of]); err != nil {
			c.desk.leave()
			return err
		}
		c.desk.hold(c.key(), 1)
		p.mu.Lock()
		p.claims = append(p.claims, c)
		p.mu.Unlock()
	}
	return nil
}

// renew makes the permits last until release. If that fails for too long, or the store doesn't answer, p is lost before they end.
func (p *permitSet) renew() {
	h := p.life.host
	const margin = permitTime / 6
	ends := time.AfterFunc(permitTime-margin, func() { p.lose(errPermitLost) })
	defer ends.Stop()
	ctx, cancel := context.WithCancel(p.life.steady)
	defer cancel()
	go func() { // a call that hangs doesn't hold up release
		select {
		case <-p.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		select {
		case <-time.After(permitTime / 3):
		case <-p.stop:
			return
		}
		p.mu.Lock()
		claims := p.claims
		p.mu.Unlock()
		began, now, kept := time.Now(), h.clock(), true
		for _, c := range claims {
			if c.desk.Rule.Concurrency == 0 {
				continue // it isn't held
			}
			held, err := c.desk.Extend(ctx, c.by, now.Add(permitTime))
			if err == nil && !held {
				p.lose(errPermitLost)
				return
			}
			kept = kept && err == nil
		}
		if kept {
			ends.Reset(permitTime - margin - time.Since(began))
		}
	}
}

// release gives the permits back, and the tokens as well if nothing was begun. Those that have no end it tries to give back until the actor is to sleep: they are taken back from one that sleeps.
func (p *permitSet) release(unused bool) {
	if p == nil {
		return
	}
	if p.stop != nil {
		close(p.stop)
		p.done.Wait()
	}
	p.lose(nil)
	for _, c := range p.claims {
		for tried := 1; c.desk.giveBack(p.life.steady, c.by, unused) && p.stop == nil && p.life.ctx.Err() == nil; tried++ {
			select {
			case <-time.After(backoff(tried)):
			case <-p.life.ctx.Done():
			}
		}
		c.desk.hold(c.key(), -1)
		c.desk.leave()
	}
	p.claims = nil
}

// each calls fn with each limit of the workflow, and how the workflow claims permits of it, until fn fails.
func (l claimer) each(fn func(d *desk, by limits.Claimant) error) error {
	labels := l.actor.Attributes().Labels
	for _, m := range l.kind.flowLimits {
		d := l.host.limits.enter(m, labels[m.Label])
		err := fn(d, limits.Claimant{Actor: l.name, Part: partNames[partWorkflow], Fair: labels[m.Fair]})
		d.leave()
		if err != nil {
			return err
		}
	}
	return nil
}

// join takes a place in the line of the first limit, before the workflow is started: so workflows run in the order in which they were started. It says whether the workflow
// has it only from now on, or may have.
func (l claimer) join(ctx context.Context) (joined bool, err error) {
	first := true
	err = l.each(func(d *desk, by limits.Claimant) (err error) {
		if !first {
			return nil
		}
		first = false
		joined, err = d.Join(ctx, by)
		return err
	})
	return joined, err
}

// leave gives up the places in all lines: the workflow wasn't started, or is over.
func (l claimer) leave() {
	err := l.each(func(d *desk, by limits.Claimant) error {
		defer d.poke() // others are at the head of the line
		return d.Leave(l.steady, by)
	})
	if err != nil {
		l.report("leave the line of a limit", err)
	}
}

// keep ends p without giving lasting permits back: the actor has them when it is awake again.
func (p *permitSet) keep() {
	if p == nil {
		return
	}
	p.lose(nil)
	for _, c := range p.claims {
		c.desk.hold(c.key(), -1)
		c.desk.leave()
	}
	p.claims = nil
}

// within returns a context that ends when a permit is lost, too.
func (p *permitSet) within(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	if p == nil {
		return inner, func() { cancel(nil) }
	}
	stop := context.AfterFunc(p.lost, func() { cancel(context.Cause(p.lost)) })
	return inner, func() { stop(); cancel(nil) }
}
