package workflow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// Queue is the actor's queue, for Receive and Send; without one they are a misuse. It
	// must be open for as long as the workflow is, and not Plain if messages are received
	// that are completed later.
	Queue *queue.Queue
	// OnDue is called, on a goroutine of its own, when the workflow has something to do
	// and isn't running: after Open if it isn't finished, and when what it sleeps for is
	// over. A program that calls Live needs none. Messages don't call it: see Status.Names.
	OnDue func()
	// Codec encodes values; nil means CBOR.
	Codec Codec
	// Errors are sentinels by which the code decides what to do about a step that failed:
	// an error that is one of them (errors.Is) is recorded with its code, the key here, so
	// that errors.Is finds it in a later run, too. Codes are without brackets, and stay
	// what they are as long as there are workflows that recorded them.
	Errors map[string]error
	// ShortWait is how long a workflow may sleep and stay in memory in Run. 0 means 100
	// milliseconds, a negative value not at all.
	ShortWait time.Duration
	// Grace is how long the run waits for a step whose context is over, before it leaves the
	// step alone. 0 means 5 seconds, a negative value no wait.
	Grace time.Duration
	// MaxEntries bounds the entries of a history. At three quarters of it a warning is
	// logged, once in a run. 0 means 10,000, a negative value no bound.
	MaxEntries int
	// MaxBytes is the size of a history, in bytes, at three quarters of which a warning is
	// logged. 0 means 64 MiB, a negative value no bound.
	MaxBytes int64
	// Strict demands that code which returns has passed each record at its top level, as
	// iterations and branches always must: what it hasn't passed must be Removed, or the
	// workflow doesn't complete (ErrDiverged).
	Strict bool
	// Observe, unless it is nil, is called for every commit that changes the history, under
	// the actor's commit lock: it must be quick, and must neither commit nor wait for a
	// goroutine that does.
	Observe func(Change)
	// Around, unless it is nil, is called in the place of every attempt at a step, and
	// calls do, which makes it and returns what it returned: for logs, measures and tests.
	// The error that it returns is that of the attempt.
	Around func(ctx context.Context, s StepInfo, do func(context.Context) error) error
	// RunContext, unless it is nil, makes the context of each run, whose values those of its
	// steps have, of that of the call.
	RunContext func(ctx context.Context) context.Context
	// Tracing, unless it is nil, provides spans: "workflow.run" of each run, and
	// "workflow.step" of each attempt at a step in it, whose context carries it.
	Tracing trace.TracerProvider
	// NewID makes the ids of entries; nil means random UUIDs. What it returns must be new.
	NewID func() string
	// Env is what the parts of an actor share. The workflow is a lasting source of its clock, named "workflow".
	part.Env
}

// Defaults of Options and StepOptions.
const (
	defaultShortWait  = 100 * time.Millisecond
	defaultGrace      = 5 * time.Second
	defaultMaxEntries = 10_000
	defaultMaxBytes   = 64 << 20
	defaultTimeout    = 30 * time.Second
	defaultAttempts   = 4
	defaultBackoff    = 100 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
	defaultCommit     = 20
)

// otherCode is when a workflow is run again whose code can't go on with its history: the
// process may have other code by then, or the actor another owner.
const otherCode = 5 * time.Minute

// check returns o with the defaults in.
func (o *Options) check() (Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	if c.Codec == nil {
		c.Codec = CBOR()
	}
	if c.NewID == nil {
		c.NewID = history.NewID
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.ShortWait = max(0, cmp.Or(c.ShortWait, defaultShortWait))
	c.Grace = max(0, cmp.Or(c.Grace, defaultGrace))
	c.MaxEntries = cmp.Or(c.MaxEntries, defaultMaxEntries)
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultMaxBytes)
	return c, nil
}

// StepOptions say how a step is tried. The zero value is fine.
type StepOptions struct {
	// MaxAttempts is how often the step is tried before it has failed for good. 0 means 4,
	// a negative value without end.
	MaxAttempts int
	// Backoff is the wait after the first attempt; it doubles with each one. 0 means 100
	// milliseconds, a negative value no wait.
	Backoff time.Duration
	// MaxBackoff bounds the wait. 0 means 30 seconds.
	MaxBackoff time.Duration
	// Jitter makes each wait shorter, by up to this part of it, from 0 to 1. How much
	// follows from the step and the number of the attempt, so that it is the same after
	// a restart.
	Jitter float64
	// MaxElapsed bounds the time from the first attempt on: none is begun after that. 0
	// means no bound.
	MaxElapsed time.Duration
	// Retry, unless it is nil, decides about each error of an attempt that isn't the last:
	// without again it becomes the last; a delay above 0 replaces the wait, and is at most
	// MaxBackoff. It is asked once, by the run that made the attempt.
	Retry func(err error, attempt uint32) (delay time.Duration, again bool)
	// Timeout ends the context of an attempt. 0 means 30 seconds, a negative value none.
	// What the attempt returns after that is ignored.
	Timeout time.Duration
	// RetryTimeouts makes the step try again after a timeout, which otherwise fails the step
	// for good: the work of the attempt may still be under way.
	RetryTimeouts bool
	// Pause has the workflow wait for Resume when the attempts are used up, instead of
	// letting the step fail.
	Pause bool
	// Unrecorded doesn't record an attempt before it is made, which saves one of two
	// commits: attempts that the end of the process cut off are not counted then, so that
	// a step which ends the process is tried for ever.
	Unrecorded bool
	// Ephemeral records the result with the next commit instead of at once, and attempts
	// not at all: for steps that may be repeated for free.
	Ephemeral bool
	// Undo, unless it is the zero Undo, compensates for the step if the workflow fails. It
	// needs a RollbackCheckpoint before it.
	Undo Undo
}

func (o *StepOptions) check() (StepOptions, error) {
	c := StepOptions{}
	if o != nil {
		c = *o
	}
	c.MaxAttempts = cmp.Or(c.MaxAttempts, defaultAttempts)
	c.Backoff = max(0, cmp.Or(c.Backoff, defaultBackoff))
	c.MaxBackoff = cmp.Or(c.MaxBackoff, defaultMaxBackoff)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	if c.Jitter < 0 || c.Jitter > 1 || c.MaxBackoff < 0 || c.MaxElapsed < 0 {
		return c, fmt.Errorf("jitter %v, longest wait %v, time for all attempts %v", c.Jitter, c.MaxBackoff, c.MaxElapsed)
	}
	return c, nil
}
