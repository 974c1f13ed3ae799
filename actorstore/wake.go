package actorstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
)

// When an actor must be woken stands in a row beside its head, and in an index over the
// store in the order of time. A commit that stores something to be done later
// (batch.Batch.WakeBy) brings both forward, so the row is never later than what is stored.
// It may be earlier: what is done, or taken back, leaves it as it is, so that the commits of
// an actor that is awake write it once. The actor's owner puts it right with SetWake
// when it has looked at everything, before it closes the actor.

// A Wake says when an actor must be woken.
type Wake struct {
	// At is the time, in whole milliseconds; the zero time for never.
	At time.Time
	// Tried are the versions of the actor's code that have found something to do and could
	// not do it, the newest last, at most MaxTried. For them At holds. Any other version
	// is to look at once. The next commit with something to do forgets them.
	Tried []uint64
}

// MaxTried is how many versions a Wake holds.
const MaxTried = 4

// Due returns when a process whose code is of that version must wake the actor: At, or the time at which the
// Unix epoch began if others have tried and this version has not; the zero time for never.
func (w *Wake) Due(version uint64) time.Time {
	if len(w.Tried) > 0 && !slices.Contains(w.Tried, version) {
		return time.UnixMilli(0)
	}
	return w.At
}

// A Waking is one row of the index: an actor, and when it must be woken.
type Waking struct {
	ID     ID
	Name   string // "" when the actor has none
	Layout Layout // of the actor's keys
	Wake
	host HostID // that had the actor open when the row was written, and has not put it right since; zero for none
}

// SetWake replaces what the store says of when the actor must be woken, in one commit that
// doesn't wait for stable storage; without one if it says so already, or if the actor doesn't
// exist. w.Tried must not change meanwhile. Errors are those of Apply.
func (a *Actor) SetWake(ctx context.Context, w Wake) error {
	var b batch.Batch
	if err := a.StageWake(&b, w); err != nil {
		return err
	}
	return a.write(ctx, &b, kv.Applied, 0)
}

// StageWake has what SetWake does land with b, whatever b.WakeBy says. It may be called while b is open.
func (a *Actor) StageWake(b *batch.Batch, w Wake) error {
	if len(w.Tried) > MaxTried {
		return fmt.Errorf("actorstore: %d versions that have tried, limit %d", len(w.Tried), MaxTried)
	}
	b.Late(func(*batch.Batch) error {
		if !a.wake.Load().says(&w) {
			a.rewake = &w
		}
		return nil
	})
	return nil
}

// Wake returns what the store says of when the actor must be woken: the zero Wake for never. Tried must not be modified.
func (a *Actor) Wake() Wake { return a.wake.Load().wake() }

// Wakes yields the actors that must be woken by a time, or are to be looked at by
// versions of their code that haven't tried, in the order of those times. An actor that another host has open is
// left out as long as that host's lease lasts: what the index says of it is for that host. It reads the index in
// pages, each of one state, and the hosts' leases once if it must. An error is yielded once, with a zero Waking, and ends the sequence.
func (s *Store) Wakes(ctx context.Context, by time.Time) iter.Seq2[Waking, error] {
	return func(yield func(Waking, error) bool) {
		start, _ := rowRange(rowWake)
		end := appendAbove(appendRowKey(nil, lookRow{by.UnixMilli()}))
		var living map[HostID]bool
		for e, err := range s.pages(ctx, start, end) {
			var w Waking
			if err == nil {
				w, err = parseWaking(e)
			}
			if err == nil && living == nil && !w.host.IsZero() {
				living, err = s.otherHosts(ctx)
			}
			if err != nil {
				yield(Waking{}, fmt.Errorf("actorstore: actors to be woken: %w", err))
				return
			}
			if !living[w.host] && !yield(w, nil) {
				return
			}
		}
	}
}

// otherHosts returns the hosts but that of s whose leases last.
func (s *Store) otherHosts(ctx context.Context) (map[HostID]bool, error) {
	living := map[HostID]bool{}
	for h, err := range s.Hosts(ctx) {
		if err != nil {
			return nil, err
		}
		own := s.hosting.now.Load()
		living[h.ID] = (own == nil || own.id != h.ID) && s.now().Before(h.Expires)
	}
	return living, nil
}

// OnWake has fn called for each actor of which a handle has been closed that a Store of this process had on the same
// engine: with what the handle knew of when the actor must be woken, the zero Wake for never, and why the handle
// was of no use any more, nil if it was closed in good order. On an engine
// that other processes have open as well, fn hears of the handles of this Store alone. fn must be quick, and may be called
// from several goroutines. It isn't called any more when stop has returned.
func (s *Store) OnWake(fn func(w Waking, lost error)) (stop func()) {
	l := &wakeListener{fn: fn}
	s.wakes.mu.Lock()
	defer s.wakes.mu.Unlock()
	s.wakes.all = append(s.wakes.all, l)
	return func() {
		s.wakes.mu.Lock()
		s.wakes.all = slices.DeleteFunc(slices.Clone(s.wakes.all), func(o *wakeListener) bool { return o == l })
		s.wakes.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stopped = true
	}
}

// wakeListeners are the functions that OnWake was given, of all Stores on one engine if they are in one process.
type wakeListeners struct {
	mu  sync.Mutex
	all []*wakeListener // replaced, never changed  +checklocks:mu
}

type wakeListener struct {
	fn      func(w Waking, lost error)
	mu      sync.RWMutex // held for reading while fn is called
	stopped bool         // +checklocks:mu
}

// wakesKey is where the listeners are in the map that users of an engine share.
type wakesKey struct{}

func listenersOf(eng kv.Engine) *wakeListeners {
	shared := kv.Shared(eng)
	if shared == nil {
		return new(wakeListeners)
	}
	l, _ := shared.LoadOrStore(wakesKey{}, new(wakeListeners))
	return l.(*wakeListeners)
}

// tell calls the functions for a handle that is of no use any more.
func (l *wakeListeners) tell(a *Actor) {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, o := range all {
		o.mu.RLock()
		if !o.stopped {
			o.fn(Waking{ID: a.id, Name: a.Name(), Layout: a.layout, Wake: a.Wake()}, a.Err())
		}
		o.mu.RUnlock()
	}
}

// A lookRow is the subspace of the index's rows of one time, a wakeKey the key of one.
type lookRow struct{ Look int64 }

func (s *lookRow) Elements(e *keys.Elements) {
	e.Const(rowsName, rowsVersion, rowWake)
	e.Int64(&s.Look)
}
