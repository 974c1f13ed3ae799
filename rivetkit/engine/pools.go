package engine

import "math/rand/v2"

// A poolKey names the runners of one name in a namespace: each of them can run the actors that want that name.
type poolKey struct{ namespace, name string }

// A pool is the runners of a poolKey, and the actors that sleep and wait for one.
type pool struct {
	runners map[*runner]struct{} // those that take actors
	waiting map[*actor]struct{}
}

// pools are those that aren't empty. They are guarded by core.mu.
type pools map[poolKey]*pool

// at returns a pool, and makes it if it isn't there.
func (s pools) at(key poolKey) *pool {
	p := s[key]
	if p == nil {
		p = &pool{runners: map[*runner]struct{}{}, waiting: map[*actor]struct{}{}}
		s[key] = p
	}
	return p
}

// join lets a runner take actors, and tells those that wait for one.
func (s pools) join(r *runner) {
	p := s.at(r.pool())
	p.runners[r] = struct{}{}
	for a := range p.waiting {
		a.notify()
	}
	clear(p.waiting)
}

// quit gives a runner no more actors.
func (s pools) quit(r *runner) {
	if p := s[r.pool()]; p != nil {
		delete(p.runners, r)
		s.tidy(r.pool())
	}
}

// pick returns a runner that can run a, or nil. Then the actor waits for one; and if it begins to, last is a runner that may still have what it did before, nil
// for none. ended says that its last start has ended for sure.
func (s pools) pick(a *actor, ended bool) (best, last *runner) {
	p, n := s.at(a.pool()), 0
	for r := range p.runners {
		if !ended && (r.at.key == a.rec.RunnerKey || r.again && a.rec.Generation > 0) {
			last = r // it may not have stopped it yet
		} else if n++; rand.IntN(n) == 0 {
			best = r
		}
	}
	if best == nil && last != nil && a.e.now().Sub(last.since) >= a.e.opts.StopThreshold {
		best = last
	}
	if best != nil || s.lack(a) {
		return best, nil
	}
	p.waiting[a] = struct{}{}
	return nil, last
}

// lack reports whether a waits for a runner.
func (s pools) lack(a *actor) bool {
	p := s[a.pool()]
	if p == nil {
		return false
	}
	_, waits := p.waiting[a]
	return waits
}

// has reports whether there is a runner that takes actors of a's pool.
func (s pools) has(a *actor) bool {
	p := s[a.pool()]
	return p != nil && len(p.runners) > 0
}

// refusal returns an error if a sleeps, and can't be started here.
//
// +checklocks:a.e.mu
func (s pools) refusal(a *actor) error {
	switch {
	case a.phase == asleep && a.e.draining:
		return errLeaving
	case a.phase == asleep && !s.has(a):
		return errElsewhere
	}
	return nil
}

// forget forgets that a waits for a runner.
func (s pools) forget(a *actor) {
	if p := s[a.pool()]; p != nil {
		delete(p.waiting, a)
		s.tidy(a.pool())
	}
}

func (s pools) tidy(key poolKey) {
	if p := s[key]; len(p.runners) == 0 && len(p.waiting) == 0 {
		delete(s, key)
	}
}
