// Package opentx lets package host begin a transaction of package greenroom in one place and end it in another, as a turn
// does. For programs there is only Actor.Update, whose function can't leave its transaction open. Package greenroom sets the
// functions when it is initialised, with its own types in them, which this package can't import.
package opentx

import (
	"context"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/traces"
)

// A Transaction is one that its caller ends, by Apply or Rollback. It is for one goroutine at a time.
type Transaction interface {
	// Batch returns the batch of the transaction for reading what it shows, and for its hooks. What writes anything takes the
	// batch of the Tx.
	Batch() *batch.Batch
	// SetSpan sets the span that gets what the transaction does as events; nil means no span.
	SetSpan(s *traces.Span)
	// Adopt makes the calling goroutine the transaction's: see Hooks.Begin.
	Adopt()
	// Apply lands the transaction without waiting for stable storage, unless its context is done. On an error nothing has
	// landed but where Actor.Update says so. A transaction that has written nothing makes sure that the actor still
	// belongs to its handle.
	Apply() error
	// Rollback gives the transaction up and returns reason, with what went wrong at that. After the end of the
	// transaction it does nothing.
	Rollback(reason error) error
}

// Options change what a transaction does.
type Options struct {
	// Due, unless it is nil, is called before something is written for which the actor must be open later: an event of the
	// schedule, with its action, or, with "", a message. Its error is that of the write.
	Due func(action string) error
	// Incarnation, unless it is 0, is the one of the engine in which alone a transaction without SQL may land by Apply:
	// in another one it is kv.ErrIncarnation.
	Incarnation kv.Incarnation
	// Whole: the transaction lands by one engine commit, with those of other actors, or not at all.
	Whole bool
}

// Hooks are what package greenroom does for package host. A is *greenroom.Actor, and T *greenroom.Tx.
type Hooks[A, T any] struct {
	// Begin begins a transaction of an actor, when the one before has ended. ctx is the transaction's. The goroutine that
	// calls it counts as the transaction's: what would wait for the transaction is greenroom.ErrNested there.
	Begin func(ctx context.Context, actor A, o Options) (T, Transaction, error)
	// Goroutine returns the number of the calling goroutine, by which code that runs in a transaction is known whatever
	// context it has; 0 if goroutines can't be told apart.
	Goroutine func() int64
	// WithUpdater returns a context with which the steps of the actor's workflow that are transactions are run by update,
	// and not by the actor itself.
	WithUpdater func(ctx context.Context, actor A, update func(ctx context.Context, fn func(tx T) error) error) context.Context
}

var hooks any

// Provide sets the hooks, and returns them. Package greenroom calls it when it is initialised.
func Provide[A, T any](h Hooks[A, T]) Hooks[A, T] {
	hooks = h
	return h
}

// Get returns the hooks that Provide was called with. It panics if the types are others.
func Get[A, T any]() Hooks[A, T] { return hooks.(Hooks[A, T]) }
