package actorstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// ActorOptions change what Store.Actor does. The zero value is fine.
type ActorOptions struct {
	// Name is recorded for the actor: now if it exists, else with its first commit.
	// An actor has one name for ever.
	Name string
	// MustExist refuses an actor that was never written to: ErrUnknownActor.
	MustExist bool
	// Wait waits until the Store's other handle to the actor is closed, and until the
	// host that has the actor gives it up or dies, instead of returning ErrInUse. It
	// ends with the context.
	Wait bool
	// Force takes the actor from a host that is alive: that host is asked, and fences its
	// handle with the next renewal of its lease; its other actors it keeps. This takes a
	// third of a TTL at most, or a TTL if the host doesn't answer. On an engine that
	// one process has open taking over is immediate in any case.
	Force bool

	// Layout is the layout that a new actor gets. An actor that exists keeps its own: opening it
	// is ErrLayout if Layout is another one, and not LayoutGreenroom, which asks for none.
	Layout Layout

	// MaxSchema refuses an actor whose database is of a version above it (Attributes.Schema): *SchemaError. It isn't taken over then. 0 means any,
	// and NoSchema none.
	MaxSchema uint64

	fresh bool // refuses an actor that exists: ErrExists
}

// NoSchema as ActorOptions.MaxSchema refuses an actor whose database is of any version.
const NoSchema = math.MaxUint64

// An arrangement is embedded by the types that read and write the keys of one actor.
type arrangement struct{ layout Layout }

// Layout returns the layout of the actor's keys. It doesn't change.
func (l *arrangement) Layout() Layout { return l.layout }

// An Actor is the owner's handle to one actor: the only way to write to it. It is
// a Reader of the newest applied state, and safe for concurrent use.
//
// A handle ends in one of four ways, which every later call reports: Close and
// Drop (ErrClosed), another owner (ErrFenced), a failure after which it is not known
// what is stored (ErrPoisoned). It must be closed in any case.
type Actor struct {
	reader
	lifecycle
	published
	hints
	found
	spent

	store   *Store
	place   *place
	headKey []byte
	nonce   [8]byte // half of every commit id

	// host is what the handle has of its host's lease, nil where no other host can want the actor.
	host *lease.Seat

	// A commit of this handle that is in doubt, and the one of the handle before.
	doubted atomic.Pointer[Doubt]
	before  *Doubt

	// lock holds one token: the goroutine that put it there commits, and owns what follows. It
	// is not a mutex because a context must be able to end the wait.
	lock   chan struct{}
	head   layout.Head
	row    [layout.HeadSize]byte // the stored head
	exists bool                  // whether there is a stored head
	unsaid bool                  // the name is not recorded yet
	// forking: the handle makes a fork. hidden: the fork isn't complete, and its
	// commits count for nothing yet: a head of no commit is one of no actor.
	forking, hidden bool
	tries           uint64 // engine commits started
	notes           []Note // what lands with the batch that is being committed
	rewake          *Wake  // what SetWake wants of the commit that is being made

	kept [16]atomic.Bool // the namespaces that have a keeper
}

var _, _, _ Reader = (*Actor)(nil), (*Snapshot)(nil), (*View)(nil)

// Limits returns what a batch may hold.
func (a *Actor) Limits() batch.Limits { return a.store.limits }

// Leased says that other hosts may take the actor over, see Options.Host.
func (a *Actor) Leased() bool { return a.host != nil }

// fail makes every later call return reason, which wraps cause. The first failure
// stays, and is returned.
func (a *Actor) fail(reason, cause error) error {
	err := fmt.Errorf("%w: actor %s: %w", reason, a.id, cause)
	a.failed.CompareAndSwap(nil, &err)
	a.finish()
	if a.opened() { // else what it has kept may still change; leave ends that
		a.reads.Part().Die()
	}
	return *a.failed.Load()
}

// Sync returns when everything that was applied before the call is on stable
// storage: at once, if a later Commit or Sync has waited for it already. A failure poisons
// the handle, unless it is the context's. If the engine lost what was applied
// (kv.Incarnation) it wraps kv.ErrUnknownOutcome: what is stored is a prefix of it.
func (a *Actor) Sync(ctx context.Context) error {
	if err := a.check(); err != nil {
		if errors.Is(err, ErrFenced) && a.durable.Load() < a.seq.Load() && a.store.eng.Incarnation() != a.incarnation.of() {
			err = errLost(err) // its owner now may have begun without them
		}
		return err
	}
	for seq := a.seq.Load(); a.durable.Load() < seq; {
		in := a.incarnation.of()
		err := a.store.eng.Sync(ctx, in)
		if err == nil {
			raise(&a.durable, seq)
			break
		}
		if a.store.eng.Incarnation() != in {
			err = ownership{a}.survey(ctx)
		}
		switch {
		case err == nil: // it is all there: once more
		case ours(ctx, err):
			return err
		default:
			return a.fail(ErrPoisoned, err)
		}
	}
	return a.owned(ctx, a.store.eng)
}

// raise sets v to n unless it is larger.
func raise(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if old >= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}

// ours reports whether err is that of the caller's own context: what was to be
// done has not been done.
func ours(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err()) &&
		!errors.Is(err, kv.ErrUnknownOutcome) && !errors.Is(err, kv.ErrPoisoned)
}

// Close gives the actor up, after the commit that is being applied, if any. The
// handle refuses everything from then on; what was applied and not synced stays
// so. Snapshots stay open. A second Close returns nil.
func (a *Actor) Close() error {
	if !a.shut() {
		return nil
	}
	// A goroutine that gets the lock now sees that the handle is closed.
	a.lock <- struct{}{}
	<-a.lock
	a.leave()
	return nil
}

// leave gives the places of the handle to the next one.
func (a *Actor) leave() {
	var last *[layout.HeadSize]byte
	if a.exists {
		last = &a.row
	}
	a.reads.Retire(last)
	if d := a.doubted.Load(); d != nil {
		a.store.doubts.set(a.id, d)
	}
	a.store.owners.leave(a)
	a.store.places.release(a.id, a.place)
	if a.host != nil {
		a.host.Leave(yieldWake(a))
	}
	if a.opened() {
		a.store.told.closings.tell(closing{Waking{ID: a.id, Name: a.Name(), Layout: a.layout, Wake: a.wake.Load().wake()}, a.Err()})
	}
}

// acquire takes the commit lock.
func (a *Actor) acquire(ctx context.Context) error {
	if err := a.check(); err != nil {
		return err
	}
	select {
	case a.lock <- struct{}{}:
	default:
		select {
		case a.lock <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := errors.Join(a.check(), ctx.Err()); err != nil {
		<-a.lock
		return err
	}
	return nil
}

// Owned returns nil while this handle is the actor's owner, else what every other
// call returns. Code that keeps data of the actor in memory asks before using them: they are
// the newest then, as of the moment of asking. It reads nothing on an engine that only
// this process has open (kv.Sharer), nor on any other while the Store's lease holds.
// When that is in doubt it reads the actor's head; if that fails too, the error is
// ErrLeaseLost and says why, and the handle is as it was.
func (a *Actor) Owned(ctx context.Context) error {
	if err := a.check(); err != nil {
		return err
	}
	return a.owned(ctx, a.store.eng)
}

// owned makes sure, after src was read, that the actor is the handle's still.
func (a *Actor) owned(ctx context.Context, src kv.Reader) error { return ownership{a}.still(ctx, src) }

// Doubt returns what became of the commit that poisoned the handle before this one
// in the same Store, nil if nothing did. That it did not apply is final: the head
// that it had to find isn't there any more. The outcome is unknown if the
// engine has forgotten the commit and others have owned the actor since.
func (a *Actor) Doubt() *Doubt { return a.before }

// Keep makes the caller the only writer of a namespace through this handle, among
// those that ask: two that keep what is stored there in memory would not see each
// other's changes. Nothing is enforced upon others. free, which may be called more than
// once, ends it; so does the end of the handle. Another keeper is ErrKept.
func (a *Actor) Keep(namespace byte) (free func(), err error) {
	if int(namespace) >= len(a.kept) {
		return nil, fmt.Errorf("actorstore: there is no namespace %d", namespace)
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	if a.kept[namespace].Swap(true) {
		return nil, fmt.Errorf("%w: %d of actor %s", ErrKept, namespace, a.id)
	}
	return sync.OnceFunc(func() { a.kept[namespace].Store(false) }), nil
}

// User returns the user keys of the actor.
func (a *Actor) User() *User { return &User{a, a} }

// appendName appends what records the actor's name.
func (a *Actor) appendName(checks []kv.Check, ops []kv.Op) ([]kv.Check, []kv.Op) {
	name := a.Name()
	n := layout.Named{ID: layout.ID(a.id), Created: a.store.millis()}
	key := layout.NameKey(name)
	return append(checks, kv.Check{Key: key, Absent: true}),
		append(ops, kv.Set(key, n.Append(nil)), kv.Set(layout.RecordKey(layout.ID(a.id), layout.PartName), []byte(name)))
}

// commitID returns an id for the next engine commit: random for each handle,
// counted within it.
func (a *Actor) commitID() (id kv.CommitID) {
	a.tries++
	copy(id[:], a.nonce[:])
	binary.BigEndian.PutUint64(id[8:], a.tries)
	return id
}

// publish shows readers the head.
func (a *Actor) publish() {
	a.used.Store(a.head.Used)
	a.seq.Store(int64(a.head.Seq))
	a.landed.Store(a.store.shared.landed())
}
