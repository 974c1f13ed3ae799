package jwt

import (
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Sentinels of this package; errors.Is tells them apart.
var (
	// ErrOptions: New was given options that make no sense; the text says which.
	ErrOptions = errors.New("jwt: bad options")
	// ErrRefused: Verify doesn't take the token; the text says why, with nothing of the token. The client
	// needs another one.
	ErrRefused = errors.New("jwt: token refused")
	// ErrExpired: the token was right, and is over. The client needs a newer one.
	ErrExpired = errors.New("jwt: token expired")
	// ErrUnavailable: there are no keys, or none that are new enough, to tell whether the token is right,
	// because they can't be fetched. The same token may be taken later.
	ErrUnavailable = errors.New("jwt: keys unavailable")
	// ErrClosed: the Verifier was closed.
	ErrClosed = errkind.New("jwt: closed", errkind.ErrClosed)
)

// refused returns ErrRefused with a reason, which is one of this package's sentences.
func refused(reason string) error { return fmt.Errorf("%w: %s", ErrRefused, reason) }
