package host

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Replace puts another version in the place of one of the types, such as a module that was loaded anew. Actors that wake from now on are of the new version. Those that are awake keep
// the version that they woke with until they sleep. When keep has passed, those that are left sleep as soon as the turn has ended that they are at: what waits for them goes to the new
// version, connections that don't hibernate are closed, and a running step of a workflow is done again. The channel is closed when no actor has the old version any more. If ctx ends before, it never is, and the actors that
// are left keep theirs until they sleep.
//
// Errors: those of the engine; ErrTypes, if no type has that name, t makes no sense, or t has a limit that none of the types of Open has. Nothing is replaced then.
func (u *upgrader) Replace(ctx context.Context, t *Type, keep time.Duration) (gone <-chan struct{}, err error) {
	k, err := newKind(t)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(k.limits, k.flowLimits) {
		if has := u.host.limits.named[m.Name]; has == nil || *has != *m {
			return nil, fmt.Errorf("%w: the limit %q isn't one that the host began with", ErrTypes, m.Name)
		}
	}
	if err := k.noteVersioned(ctx, u.host.engine); err != nil {
		return nil, err
	}
	before, err := u.swap(k)
	if err != nil {
		return nil, err
	}
	if f := &u.host.forwarder; f.routes != nil && before.Migrations.Latest() != k.Migrations.Latest() {
		if err := f.tell(ctx, false); err != nil {
			u.host.log.Warn("host: tell other hosts", slog.Any("error", err)) // the next list does it
		}
	}
	done := make(chan struct{})
	lasts, cancel := context.WithTimeout(ctx, keep)
	var work sync.WaitGroup
	for _, l := range u.host.all() {
		if l.kind != k && l.kind.Name == k.Name { // an earlier Replace may have left some
			work.Go(func() { u.retire(ctx, lasts, l) })
		}
	}
	go func() {
		defer cancel()
		if work.Wait(); ctx.Err() == nil {
			close(done)
		}
	}()
	return done, nil
}

// keeps says whether the actor of a call has a version of its type still that was replaced, and has the action.
func (u *upgrader) keeps(now *kind, c *Call) bool {
	l := u.host.life(c.Actor.String())
	return l != nil && l.kind != now && l.kind.handler(c.Action) != nil
}

// swap puts a type in the place of that of the same name, which it returns.
func (u *upgrader) swap(k *kind) (before *kind, err error) {
	u.host.mu.Lock() // with which actors begin to wake
	defer u.host.mu.Unlock()
	old := u.host.now.Load()
	if before = old.byName[k.Name]; before == nil {
		return nil, fmt.Errorf("%w: there is no %q to be replaced", ErrTypes, k.Name)
	}
	all := &kinds{maps.Clone(old.byName), maps.Clone(old.owners)}
	for _, a := range before.actions {
		delete(all.owners, a)
	}
	if err := all.add(k); err != nil {
		return nil, err
	}
	u.host.now.Store(all)
	return before, nil
}

// retire waits until an actor has left memory, and when lasts has ended has it leave.
func (u *upgrader) retire(ctx, lasts context.Context, l *life) {
	select {
	case <-l.left:
		return
	case <-lasts.Done():
	}
	select {
	case <-l.woken:
	case <-l.left: // of one that sleeps, and was only visited
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return
	}
	u.host.mu.Lock()
	if l.phase == awake {
		l.depart()
		close(l.sleep)
		l.cancel() // a running step of its workflow is a user, which would keep it
	}
	u.host.mu.Unlock()
	select {
	case <-l.left:
	case <-ctx.Done():
	}
}
