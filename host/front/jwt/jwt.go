// Package jwt verifies the JSON Web Tokens (RFC 7519) that HTTP requests bear: signed by an issuer, whose
// public keys it fetches from where the issuer publishes them, or with keys that the program has.
//
// It makes no tokens, reads no encrypted ones, and decides nothing but whether a token's claims are its
// issuer's and hold now. What they permit is for the program to say.
package jwt

import (
	"context"
	"slices"
	"sync/atomic"
)

// A Verifier tells tokens of an issuer from all others. All of its methods may be called concurrently.
type Verifier struct {
	opts   Options
	source source
	closed atomic.Bool
}

// New returns a Verifier. It returns ErrOptions for options that make no sense.
//
// New fetches no keys: the first token that needs them does. ctx is that of all fetches, so that the
// Verifier is left with the keys that it has when ctx is over. The program closes the Verifier.
func New(ctx context.Context, opts *Options) (*Verifier, error) {
	o, err := opts.orDefault()
	if err != nil {
		return nil, err
	}
	v := &Verifier{opts: o}
	if o.JWKS != "" {
		v.source = newFetched(ctx, o)
		return v, nil
	}
	set, err := staticKeys(o)
	if err != nil {
		return nil, err
	}
	v.source = static{set}
	return v, nil
}

// Close ends a fetch of keys that is under way, and waits for its end. From then on Verify returns
// ErrClosed. Close may be called more than once.
func (v *Verifier) Close() {
	v.closed.Store(true)
	v.source.close()
}

// Verify returns the claims of a token in the compact form, HEADER.CLAIMS.SIGNATURE, if all of this holds:
//
//   - It has at most MaxToken bytes, and its three parts are in base64url without padding, spaces and
//     superfluous bits.
//   - Its header has one of Options.Algorithms, a type of Options.Types, and nothing that has to be
//     understood (crit). Keys in it, and where it says that keys are (jwk, x5c, jku, x5u),
//     mean nothing.
//   - A key of the issuer that is for this algorithm has made the signature: that with the token's kid, or
//     any if the token has no kid.
//   - The claims are an object in which each name comes once, and those of them that Claims has are of the
//     right types.
//   - There is an exp, and it is in the future; nbf and iat, if they are there, aren't. Each may be off by
//     Options.Leeway.
//   - iss is Options.Issuer, and one of aud is in Options.Audience, if those are set.
//
// The error is ErrExpired for a token that is over and otherwise right, ErrUnavailable if there are no
// keys to tell, ErrClosed after Close, that of ctx if it ends while Verify waits for keys, and ErrRefused
// for all else. Its text has nothing of the token.
func (v *Verifier) Verify(ctx context.Context, token string) (*Claims, error) {
	if v.closed.Load() {
		return nil, ErrClosed
	}
	t, err := parse(token, &v.opts)
	if err != nil {
		return nil, err
	}
	payload, err := v.signed(ctx, t)
	if err != nil {
		return nil, err
	}
	c, err := readClaims(payload)
	if err != nil {
		return nil, err
	}
	if err := v.holds(c); err != nil {
		return nil, err
	}
	return c, nil
}

// signed returns the claims of a token, as bytes, if one of the keys has signed them.
func (v *Verifier) signed(ctx context.Context, t *signedToken) ([]byte, error) {
	set, err := v.source.keys(ctx, nil)
	if err != nil {
		return nil, v.orClosed(err)
	}
	payload, known := set.verify(t)
	if payload == nil && !known {
		newer, err := v.source.keys(ctx, set)
		if err != nil {
			return nil, v.orClosed(err)
		}
		if newer != set {
			payload, known = newer.verify(t)
		}
	}
	switch {
	case payload != nil:
		return payload, nil
	case known:
		return nil, refused("its signature isn't that of the key that it names")
	default:
		return nil, refused("no key is known for it")
	}
}

// orClosed returns ErrClosed for what failed because the Verifier was closed.
func (v *Verifier) orClosed(err error) error {
	if v.closed.Load() {
		return ErrClosed
	}
	return err
}

// holds says whether claims hold now, and here. That they are over is the last thing that it says.
func (v *Verifier) holds(c *Claims) error {
	now := v.opts.Now()
	switch {
	case v.opts.Issuer != "" && c.Issuer != v.opts.Issuer:
		return refused("its issuer is another one")
	case len(v.opts.Audience) > 0 && !shareOne(c.Audience, v.opts.Audience):
		return refused("it is for another audience")
	case !c.NotBefore.IsZero() && now.Before(c.NotBefore.Add(-v.opts.Leeway)):
		return refused("it isn't valid yet")
	case !c.IssuedAt.IsZero() && now.Before(c.IssuedAt.Add(-v.opts.Leeway)):
		return refused("it is issued in the future")
	case !now.Before(c.Expires.Add(v.opts.Leeway)):
		return ErrExpired
	}
	return nil
}

// shareOne says whether a and b have one in common.
func shareOne(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
