package client

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// A CallOptions says what may become of a call whose answer is lost. The zero value, and nil, have the client make up an idempotency key, and send the call again until its answer is there.
type CallOptions struct {
	// IdempotencyKey is a key of the caller's own, 1 to 128 characters of printable ASCII, with which a program that was started anew makes the same call.
	IdempotencyKey string
	// Idempotent says that the call may run twice and no harm is done, as one that only reads: it is sent again without a key, and the actor stores nothing for it.
	Idempotent bool
	// Once sends the call without a key, and never again once it may have arrived.
	Once bool
}

// A request is what is asked of a host, perhaps several times.
type request struct {
	wire.Request
	repeats  bool // it may be sent again when it may have arrived
	doubt    bool // it may have arrived
	failures int
}

// newRequest returns a call.
func newRequest(action string, args any, opts *CallOptions) (*request, error) {
	if opts == nil {
		opts = &CallOptions{}
	}
	if opts.Once && (opts.Idempotent || opts.IdempotencyKey != "") || opts.Idempotent && opts.IdempotencyKey != "" {
		return nil, errors.New("client: a call has a key, or is idempotent, or is sent once")
	}
	r := &request{Request: wire.Request{Type: wire.TypeCall, Action: action}, repeats: !opts.Once}
	if args != nil {
		raw, err := host.Encode(args)
		if err != nil {
			return nil, fmt.Errorf("%w: of %.80q: %w", host.ErrArgs, action, err)
		}
		r.Args = wire.Value(raw)
	}
	if !opts.Once && !opts.Idempotent {
		key := cmp.Or(opts.IdempotencyKey, rand.Text())
		r.IdempotencyKey = &key
	}
	return r, nil
}

// again says whether a request that has failed with err may be sent again, and notes whether it may have landed.
func (r *request) again(err error) bool {
	if errors.Is(err, host.ErrUnknownOutcome) {
		r.doubt = true
		return r.repeats
	}
	var said *host.Error
	return errors.As(err, &said) && passing[said.Code]
}

// final returns the error that the caller gets of a request that the host has refused. One that may have landed before, and was refused since then without regard to that, has an
// outcome that isn't known.
func (r *request) final(err error) error {
	var said *host.Error
	if errors.As(err, &said) && !passing[said.Code] && !undecided[said.Code] {
		return err
	}
	return r.left(err)
}

// left returns the error that the caller gets of a request that is given up because of err.
func (r *request) left(err error) error {
	if !r.doubt || errors.Is(err, host.ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", host.ErrUnknownOutcome, err)
}

// decode decodes the result of an action.
func decode(action string, body host.Raw, result any) error {
	if result == nil {
		return nil
	}
	if err := body.Decode(result); err != nil {
		return fmt.Errorf("client: the result of %.80q, which was done: %w", action, err)
	}
	return nil
}
