package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// mostRetry bounds how long a host pauses between two renewals that it needs. Its actors
// can't be opened meanwhile, so the pause doesn't grow with the TTL.
const mostRetry = time.Second

// A lease is one host: a store for as long as it keeps its lease.
type lease struct {
	*others
	id     [16]byte
	claims claims
	// retry is how soon a renewal follows one that failed, or the one before when a handle needs it.
	retry time.Duration

	term  atomic.Pointer[term] // the newest one, nil when the lease is lost
	hurry chan struct{}        // asks for a renewal before its time
	stop  context.CancelFunc
	done  chan struct{} // closed when nothing renews any more

	// What is stored, nil before the first row, as far as known: the renewing goroutine's, and
	// its caller's before and after it.
	row    layout.Host
	stored []byte

	mu    sync.Mutex
	tried chan struct{} // closed when a renewal has ended, and made anew  +checklocks:mu
}

// errWanted is why a handle is fenced that its own host gave up.
var errWanted = errors.New("another host took it over")

// newLease returns a lease that isn't stored yet.
func newLease(o *others) *lease {
	l := &lease{
		others: o, retry: min(o.TTL/24, mostRetry),
		hurry: make(chan struct{}, 1), done: make(chan struct{}), tried: make(chan struct{}),
	}
	rand.Read(l.id[:]) // never fails
	l.claims = claims{
		base: o.base, host: l.id, handles: map[layout.ID]*held{}, unclaimed: map[layout.ID]unclaim{},
		released: released{in: o.Engine.Incarnation()},
	}
	l.row = layout.Host{TTL: uint64(o.TTL.Milliseconds()), Name: o.Shown}
	machine, pid, started := identify()
	if l.row.Machine = machine; o.Name != "" { // else nothing can be concluded from the process
		l.row.PID, l.row.Started = pid, started
	}
	return l
}

// rewrite writes the row of the next term in the place of the one that is stored, and begins
// that term.
func (l *lease) rewrite(ctx context.Context) error {
	t := &term{sent: monotonic(), wall: l.Now(), ttl: l.TTL, in: l.Engine.Incarnation(), said: l.said.Load()}
	l.row.Count++ // also for one that fails: others must never see the same number twice
	row := l.row
	row.Wanted, row.Announcement = nil, t.said.Announcement
	row.Expires = l.clock.latest() + int64(row.TTL)
	stored := row.Append(nil)
	if err := swap(ctx, l.Engine, l.id, l.stored, stored); err != nil {
		return err
	}
	l.row, l.stored = row, stored
	l.term.Store(t)
	return nil
}

// valid says whether the lease holds at this moment. It neither blocks nor reads.
func (l *lease) valid() bool {
	t := l.term.Load()
	if t == nil {
		return false
	}
	// A server that took over may not know of this term.
	if t.in == l.Engine.Incarnation() && t.holds(monotonic(), l.Now()) {
		return true
	}
	select {
	case l.hurry <- struct{}{}:
	default:
	}
	return false
}

// run renews the lease until ctx ends or it is lost.
func (l *lease) run(ctx context.Context) {
	defer close(l.done)
	var surveys sync.WaitGroup
	defer surveys.Wait()
	surveying := make(chan struct{}, 1)
	rest := l.every()
	for n := 0; l.rest(ctx, rest); n++ {
		// What fails of it, readers notice: they look at the head when the lease is
		// over. A call that wants another actor then waits for it.
		rest = l.every()
		if err := l.renew(ctx); err != nil {
			rest = l.retry
		}
		l.attempted()
		if l.claims.isLost() {
			return
		}
		select {
		case surveying <- struct{}{}:
			surveys.Go(func() {
				l.claims.survey(ctx)
				l.claims.giveUp(ctx)
				<-surveying
			})
		default: // one is under way
		}
		if n%sweepEvery == 0 {
			l.sweep(ctx)
		}
	}
}

// settle waits, when the lease is over, until a renewal tells whether it is lost: a
// handle that enters a lease that doesn't know it yet is fenced as soon as it does. A renewal that is
// under way may fail for what is over by now, the one after it tells; if not even that
// does, the engine has no answer for the claim, either.
func (l *lease) settle(ctx context.Context) {
	for range 2 {
		l.mu.Lock()
		tried := l.tried
		l.mu.Unlock()
		if l.valid() {
			return
		}
		select {
		case <-tried:
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

// tell waits until the row says the nth announcement, or the renewals that were asked to write it have failed.
func (l *lease) tell(ctx context.Context, n uint64) error {
	// One may be under way that began before.
	for range 2 {
		l.mu.Lock()
		tried := l.tried
		l.mu.Unlock()
		if t := l.term.Load(); t == nil || t.said.n >= n {
			return nil
		}
		select {
		case l.hurry <- struct{}{}:
		default:
		}
		select {
		case <-tried:
		case <-l.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// attempted tells those that wait that a renewal is over.
func (l *lease) attempted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.tried)
	l.tried = make(chan struct{})
}

// rest waits until it is time for a renewal, and says whether there shall be one.
func (l *lease) rest(ctx context.Context, d time.Duration) bool {
	due, soon := time.NewTimer(d), time.NewTimer(l.retry)
	defer due.Stop()
	defer soon.Stop()
	var hurry <-chan struct{} // which is heard only after a pause
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-soon.C:
			hurry = l.hurry
		case <-hurry:
			return true
		}
	}
}

// renew rewrites the row. As long as it isn't known that it did, the term before is
// all there is.
func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.every())
	defer cancel()
	for {
		err := l.rewrite(ctx)
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
		if err := l.reread(ctx); err != nil {
			return err
		}
	}
}

// reread looks why a renewal conflicts: an earlier one landed whose outcome was not
// known, or another host wants an actor, or the host was given up.
func (l *lease) reread(ctx context.Context) error {
	row, stored, err := Read(ctx, l.Engine, l.id)
	if errors.Is(err, kv.ErrNotFound) {
		l.term.Store(nil)
		l.claims.lose()
		return errHostLost
	}
	if err != nil {
		return err
	}
	// A renewal without them says that they answer nothing any more.
	for _, id := range row.Wanted {
		if h := l.claims.handle(id); h != nil {
			h.handle.Fence(errWanted)
		}
	}
	row.Count = max(row.Count, l.row.Count)
	l.row, l.stored = row, stored
	return nil
}
