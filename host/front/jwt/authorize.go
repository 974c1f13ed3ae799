package jwt

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
)

// A Rule decides whether a caller with these claims may do what it asks for; an error refuses it, as one of front.Options.Authorize does. It may keep neither.
// A nil Rule allows everything to each caller with a token. It is called from many goroutines at once.
type Rule func(c *Claims, a *front.Access) error

// Authorize returns a front.Options.Authorize that lets in the requests that bear a token of the issuer, as front.Bearer finds it, and then asks the rule of the actor's
// type. Actors of a type without a rule are for no caller. The caller's ID is the Subject, which a token must have, and its claims are all claims of the token.
// A request of a socket is verified for each call and subscription through it, and every front.Options.PingInterval, so that they and the socket end with the token.
//
// A request without a token that holds is front.ErrUnauthenticated. While the keys can't be fetched it is an error with the code "unavailable".
func (v *Verifier) Authorize(rules map[string]Rule) func(ctx context.Context, r *http.Request, a *front.Access) (*host.Caller, error) {
	return func(ctx context.Context, r *http.Request, a *front.Access) (*host.Caller, error) {
		c, err := v.Verify(ctx, front.Bearer(r))
		switch {
		case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
			return nil, &host.Error{Code: "unavailable", Message: "Tokens can't be verified; try again.", Err: err}
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", front.ErrUnauthenticated, err)
		case c.Subject == "":
			return nil, fmt.Errorf("%w: the token has no sub", front.ErrUnauthenticated)
		}
		rule, ok := rules[a.Actor.Type]
		if !ok {
			return nil, fmt.Errorf("jwt: there is no rule for the type %q", a.Actor.Type)
		}
		if rule != nil {
			if err := rule(c, a); err != nil {
				return nil, err
			}
		}
		return &host.Caller{ID: c.Subject, Claims: c.Raw}, nil
	}
}
