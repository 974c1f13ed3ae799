package workflow

import (
	"context"
	"time"

	"github.com/greenroomdb/greenroom/batch"
)

// An Undo compensates for a step whose result is known: it is called when the workflow
// fails after the step, with what the step returned.
type Undo struct {
	do    func(ctx context.Context, codec Codec, out []byte, land func(*batch.Batch) error) error
	lands bool // do has the record that the step was undone land with what it does
	opts  UndoOptions
}

// UndoOptions say how an Undo is tried. The zero value is fine.
type UndoOptions struct {
	// MaxAttempts is how often it is tried by one run, in memory; after that the run ends
	// with an error that names the step, and the next one tries again. 0 means 4.
	MaxAttempts int
	// Backoff is the wait after the first attempt; it doubles with each one, up to 30
	// seconds. 0 means 100 milliseconds.
	Backoff time.Duration
	// Timeout ends the context of an attempt, which must return then. 0 means 30 seconds, a
	// negative value none.
	Timeout time.Duration
}

// With returns u with options.
func (u Undo) With(o UndoOptions) Undo {
	u.opts = o
	return u
}

// isZero reports whether u does nothing.
func (u Undo) isZero() bool { return u.do == nil }

// UndoStep returns an Undo that calls fn with the result of the step. It may be called
// more than once: until it has succeeded, and again if the process ends before that is
// recorded.
func UndoStep[T any](fn func(ctx context.Context, out T) error) Undo {
	return Undo{do: func(ctx context.Context, codec Codec, out []byte, _ func(*batch.Batch) error) error {
		v, err := decodeFor[T](codec, out)
		if err != nil {
			return err
		}
		return fn(ctx, v)
	}}
}

// UndoWithin returns an Undo whose effect is in the actor, and which ends with a commit of
// its own: land has the record that the step was undone land with b, or not at all. fn calls
// land once, and commits b before it returns. See StepWithin.
func UndoWithin[T any](fn func(ctx context.Context, out T, land func(*batch.Batch) error) error) Undo {
	return Undo{lands: true, do: func(ctx context.Context, codec Codec, out []byte, land func(*batch.Batch) error) error {
		v, err := decodeFor[T](codec, out)
		if err != nil {
			return err
		}
		return fn(ctx, v, land)
	}}
}

// decodeFor decodes the output of a step; that of a Do is the zero T.
func decodeFor[T any](codec Codec, out []byte) (v T, err error) {
	if out == nil {
		return v, nil
	}
	err = codec.Decode(out, &v)
	return v, err
}
