package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// Sentinels of this package; errors.Is tells them apart. What the packages below return
// comes through with them, and what an actor's code returns comes as it is.
var (
	// ErrTypes: Open was given types that make no sense; the text says which.
	ErrTypes = errors.New("host: bad actor type")
	// ErrAddress: an address has no key, or is too long, or not UTF-8.
	ErrAddress = errors.New("host: bad address")
	// ErrNoType: the host has no actors of that type.
	ErrNoType = errkind.New("host: no such type", errkind.ErrNotFound)
	// ErrNoAction: actors of the type have no such action, or no type of the host lists it.
	ErrNoAction = errkind.New("host: no such action", errkind.ErrNotFound)
	// ErrNoActor: the actor doesn't exist, and the call doesn't create it.
	ErrNoActor = errkind.New("host: no such actor", errkind.ErrNotFound)
	// ErrNoConn: the actor has no such connection.
	ErrNoConn = errkind.New("host: no such connection", errkind.ErrNotFound)
	// ErrNoWorkflow: actors of the type have no workflow.
	ErrNoWorkflow = errkind.New("host: the type has no workflow", errkind.ErrNotFound)
	// ErrArgs: the arguments of a call can't be read as what the action takes.
	ErrArgs = errors.New("host: bad arguments")
	// ErrIdempotencyKey: the idempotency key of a call isn't 1 to 128 bytes of printable ASCII.
	ErrIdempotencyKey = errors.New("host: bad idempotency key")
	// ErrIdempotencyMismatch: the actor has answered another call with that idempotency key: of another action or
	// caller, or with other arguments.
	ErrIdempotencyMismatch = errors.New("host: the idempotency key is that of another call")
	// ErrPanic: an actor's code panicked; nothing of the turn landed.
	ErrPanic = errors.New("host: panic")
	// ErrOverloaded: as many turns wait for the actor as may.
	ErrOverloaded = errors.New("host: too many turns are waiting")
	// ErrOutboxFull: as many messages of the actor to others are under way as may.
	ErrOutboxFull = errors.New("host: too many messages to other actors are under way")
	// ErrNotAllowed: Letters.To doesn't have the actor to which a message is sent.
	ErrNotAllowed = errors.New("host: messages to this actor are not allowed")
	// ErrTooFast: an actor sends more messages to others than Letters.Rate allows.
	ErrTooFast = errors.New("host: too many messages to other actors in too short a time")
	// ErrGenerations: a message would create an actor at the end of a chain of actors, each created by
	// the one before, that is longer than Letters.Generations allows.
	ErrGenerations = errors.New("host: too many actors have created each other")
	// ErrUnknownOutcome: the turn may have landed, or not. The store failed while it did,
	// or the caller's context ended while the turn ran. Nothing of what it sends has left.
	ErrUnknownOutcome = errkind.New("host: outcome of the turn is not known", errkind.ErrUnknownOutcome)
	// ErrUnreachable: another host has the actor, and can't be reached, although it may be alive; nothing was done. Try again: a host that is dead loses its
	// actors soon. Carriers return it.
	ErrUnreachable = errkind.New("host: the actor's host can't be reached", errkind.ErrInUse)
	// ErrNotAwake: the actor, for whose stay in memory the context was, is going to sleep.
	ErrNotAwake = errors.New("host: actor is going to sleep")
	// ErrClosed: the host is closed, or being closed.
	ErrClosed = errkind.New("host: closed", errkind.ErrClosed)
)

// errHanded says that an actor goes to another host. Callers here follow it.
var errHanded = fmt.Errorf("%w: its actors go to other hosts", ErrClosed)

// A handedError is errHanded for a call that waited for the actor.
type handedError struct{ at *place }

func (*handedError) Error() string { return errHanded.Error() }
func (*handedError) Unwrap() error { return errHanded }

// A place is that of a call in the line of those that waited for an actor when it left for another host. A call is made there when the one before it was answered.
type place struct {
	before *place
	left   chan struct{}
	once   sync.Once // closes left
}

// next returns the place behind p, the first one for nil.
func (p *place) next() *place { return &place{before: p, left: make(chan struct{})} }

// leave lets the next call go. It may be called more than once.
func (p *place) leave() { p.once.Do(func() { close(p.left) }) }

// linePatience bounds waiting for the call before, whose caller may follow no actor.
const linePatience = time.Second

// await waits until the call before was answered.
func (p *place) await(ctx context.Context) {
	if p.before == nil {
		return
	}
	over := time.NewTimer(linePatience)
	defer over.Stop()
	select {
	case <-p.before.left:
	case <-over.C:
	case <-ctx.Done():
	}
	p.before = nil // so that a long line isn't kept
}

// An Error is what an actor's code returns for its caller to be told. Any other error of
// it goes to the log alone: a front says "internal" then.
type Error struct {
	Code    string // a word for programs, such as "out_of_stock"
	Message string // a sentence for people
	Err     error  // why, for the log; may be nil
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// codeInternal is the code of an error of which callers learn nothing more.
const codeInternal = "internal"

// A fault is how an error is told to the world.
type fault struct {
	err           error
	code, message string
}

// faults are looked through in their order: an outcome that isn't known outweighs its
// reason.
var faults = []fault{
	{ErrUnknownOutcome, "unknown_outcome", "It is not known whether this was done."},
	{ErrUnreachable, "host_unreachable", "The host that has the actor can't be reached; try again."},
	{actorstore.ErrInUse, "actor_in_use", "Another host has the actor."},
	{actorstore.ErrFenced, "actor_moved", "The actor was taken over by another host; try again."},
	{actorstore.ErrLeaseLost, "unavailable", "The store can't be reached; try again."},
	{ErrAddress, "bad_address", "This is not the address of an actor."},
	{ErrNoType, "no_such_type", "There are no actors of this type."},
	{ErrNoAction, "no_such_action", "Actors of this type have no such action."},
	{ErrNoActor, "no_such_actor", "There is no such actor."},
	{ErrNoConn, "no_such_connection", "The actor has no such connection."},
	{ErrNoWorkflow, "no_workflow", "Actors of this type have no workflow."},
	{workflow.ErrOver, "workflow_over", "The actor's workflow is over."},
	{workflow.ErrRunning, "workflow_running", "The actor's workflow is running; try again."},
	{workflow.ErrCancelled, "workflow_cancelled", "The actor's workflow was cancelled."},
	{workflow.ErrNotStarted, "workflow_not_started", "The actor's workflow was not started."},
	{workflow.ErrUnfinished, "workflow_unfinished", "The actor's workflow is not over."},
	{workflow.ErrFailed, "workflow_failed", "The actor's workflow has failed."},
	{workflow.ErrState, "workflow_state", "The state of the actor's workflow doesn't allow this."},
	{workflow.ErrNoStep, "no_such_step", "The actor's workflow has no such step."},
	{actorstore.ErrLabel, "bad_label", "The label can't be set."},
	{ErrArgs, "bad_arguments", "The arguments are not what the action takes."},
	{ErrIdempotencyKey, "bad_idempotency_key", "An idempotency key is 1 to 128 characters of printable ASCII."},
	{ErrIdempotencyMismatch, "idempotency_mismatch", "The idempotency key was used for another call."},
	{ErrPanic, "actor_failed", "The actor failed."},
	{ErrOverloaded, "overloaded", "Too much is waiting for this actor; try again later."},
	{ErrOutboxFull, "outbox_full", "Too many messages of the actor are under way; try again later."},
	{ErrNotAllowed, "not_allowed", "The actor may not send messages there."},
	{ErrTooFast, "too_fast", "The actor sends too many messages; try again later."},
	{ErrGenerations, "too_many_generations", "The actor may not create others by messages."},
	{ErrClosed, "shutting_down", "The host is shutting down; try again."},
	{ErrNotAwake, "shutting_down", "The actor is going to sleep; try again."},
	{actorstore.ErrQuota, "quota_exceeded", "The actor has no room left."},
	{queue.ErrFull, "queue_full", "The actor's queue is full."},
	{queue.ErrTooLarge, "message_too_large", "The message is too large."},
	{persist.ErrTooLarge, "state_too_large", "The actor's state is too large."},
	{conn.ErrTooLarge, "connection_too_large", "The connection's state is too large."},
	{batch.ErrTooLarge, "too_large", "This is too much for one turn."},
	{batch.ErrValueTooLarge, "value_too_large", "A value is too large."},
	{batch.ErrKeyTooLong, "key_too_long", "A key is too long."},
	{greenroom.ErrNewerSchema, "newer_schema", "The actor is of a newer version of the program; try again."},
	{kv.ErrPoisoned, "unavailable", "The store has failed."},
	{errkind.ErrNoSpace, "no_space", "The store has no room; try again later."},
	{context.DeadlineExceeded, "timeout", "It took too long."},
	{context.Canceled, "cancelled", "It was cancelled."},
}

// Code returns the word by which an error is told to programs elsewhere: that of an Error,
// one for each thing that can go wrong here or below, and "internal" for everything
// else; "" for nil. It gives nothing away.
func Code(err error) string {
	code, _ := describe(err)
	return code
}

// Message returns the sentence that goes with Code, "" for nil.
func Message(err error) string {
	_, message := describe(err)
	return message
}

func describe(err error) (code, message string) {
	if err == nil {
		return "", ""
	}
	for _, f := range faults[:2] { // before what the actor, or another host, says: it didn't know
		if errors.Is(err, f.err) {
			return f.code, f.message
		}
	}
	if told := (*remoteError)(nil); errors.As(err, &told) {
		return told.code, told.message
	}
	var own *Error
	if errors.As(err, &own) && own.Code != "" {
		return own.Code, own.Message
	}
	for _, f := range faults {
		if !errors.Is(err, f.err) {
			continue
		}
		var args *argsError
		if f.err == ErrArgs && errors.As(err, &args) {
			return f.code, args.message()
		}
		return f.code, f.message
	}
	return codeInternal, "Something went wrong."
}

// An argsError says which arguments don't fit, and what was expected. It wraps ErrArgs.
type argsError struct {
	action string
	want   reflect.Type // nil: any value
	err    error
}

func (e *argsError) Error() string {
	return fmt.Sprintf("%v of the action %.80q: %v", ErrArgs, e.action, e.err)
}

func (e *argsError) Unwrap() []error { return []error{ErrArgs, e.err} }

// message is what the caller is told.
func (e *argsError) message() string {
	if e.want == nil {
		return fmt.Sprintf("The arguments of %.80q are not one value in CBOR.", e.action)
	}
	return fmt.Sprintf("The action %.80q takes %s.", e.action, expected(e.want))
}

// A remoteError is what another host has answered.
type remoteError struct {
	code, message string
	from          string // its name
	is            []error
}

// Error names the host.
func (e *remoteError) Error() string { return "host " + e.from + ": " + e.message }

// Unwrap returns what the error would be at this host.
func (e *remoteError) Unwrap() []error { return e.is }

// moved reports whether an error says that nothing was done since the actor is at another host, or belongs there, or its host is about to end while this one isn't.
func moved(err error) bool {
	switch {
	case err == nil, errors.Is(err, ErrUnknownOutcome), errors.As(err, new(*ranError)):
		return false
	case errors.Is(err, actorstore.ErrInUse), errors.Is(err, actorstore.ErrFenced), errors.Is(err, actorstore.ErrNewerSchema), errors.Is(err, errHanded):
		return true
	}
	return errors.As(err, new(*remoteError)) && (errors.Is(err, ErrClosed) || errors.Is(err, ErrNotAwake))
}

// A ranError is one that an actor's code has returned, and is about another actor, or another host: what was asked for was done, and failed.
type ranError struct{ error }

// ran returns an error of an actor's code, as a ranError if it could be taken for one about the actor itself, here or at a host that forwards to this one.
func ran(err error) error {
	if moved(err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotAwake) || errors.Is(err, ErrNoActor) {
		return &ranError{err}
	}
	return err
}

// noActor reports whether an error says that the actor itself doesn't exist, and not another one that its code has called.
func noActor(err error) bool { return errors.Is(err, ErrNoActor) && !errors.As(err, new(*ranError)) }

func (e *ranError) Unwrap() error { return e.error }
