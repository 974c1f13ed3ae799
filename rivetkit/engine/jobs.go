package engine

import "log/slog"

// leave gives back what enter has returned.
func (a *actor) leave() {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.users--
	a.settle()
}

// settle closes the actor if it isn't needed.
//
// +checklocks:a.e.mu
func (a *actor) settle() {
	if a.users > 0 || a.phase != asleep || len(a.tunnels) > 0 || a.working || a.closing || a.e.closed {
		return
	}
	a.shut(slog.LevelError)
}

// abandon closes an actor that is gone, once nothing works with it.
//
// +checklocks:a.e.mu
func (a *actor) abandon() {
	if !a.working && !a.closing {
		a.shut(slog.LevelDebug)
	}
}

// shut closes the handle of the actor, and forgets the actor. An error is logged at level.
//
// +checklocks:a.e.mu
func (a *actor) shut(level slog.Level) {
	a.closing = true
	a.e.pools.forget(a)
	a.e.spawn(func() {
		a.pages.end()
		if err := a.handle.Close(); err != nil {
			a.e.log.Log(a.e.ctx, level, "engine: close an actor", a.attr(), slog.Any("error", err))
		}
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		delete(a.e.actors, a.id)
		close(a.closed)
	})
}

// do calls fn, which works with the actor's keys, after what was asked for before. bytes is what fn has in memory.
//
// +checklocks:a.e.mu
func (a *actor) do(bytes int, fn func()) {
	a.jobs = append(a.jobs, fn)
	a.jobBytes += bytes
	if a.working {
		return
	}
	a.working = true
	a.e.spawn(func() {
		a.e.mu.Lock()
		defer a.e.mu.Unlock()
		for len(a.jobs) > 0 {
			jobs := a.jobs
			a.jobs, a.jobBytes = nil, 0
			a.e.mu.Unlock()
			for _, fn := range jobs {
				fn()
			}
			a.e.mu.Lock()
		}
		if a.working = false; a.e.draining {
			a.notify()
		}
		if a.phase == gone {
			a.abandon()
			return
		}
		a.settle()
	})
}
