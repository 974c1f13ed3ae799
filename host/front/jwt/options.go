package jwt

import (
	"crypto"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// MaxToken is how many bytes a token has at most.
const MaxToken = 8 << 10

// Options say which tokens are taken. Exactly one of JWKS, KeySet, PublicKeys and Secret is set.
type Options struct {
	// Issuer is what iss has to be. Empty means anything that has one of the keys, which is right only if
	// nothing else is signed with them.
	Issuer string
	// Audience are those of which aud has to have one. Empty means anything; an issuer that serves several
	// programs then lets each of them act as its callers here.
	Audience []string

	// JWKS is the URL of the issuer's JWK set (RFC 7517): https, or http to a loopback address.
	JWKS string
	// KeySet is a JWK set of public keys, as JSON.
	KeySet []byte
	// PublicKeys are *rsa.PublicKey, *ecdsa.PublicKey and ed25519.PublicKey. They have no ids: each is
	// tried for each token that has an algorithm for it, whatever its kid.
	PublicKeys []crypto.PublicKey
	// Secret is what tokens are signed with by HMAC: at least as long as the digests of all Algorithms,
	// which are 32 bytes for HS256. Each program that can verify such a token can make one, too.
	Secret []byte

	// Algorithms are those that tokens may be signed with, of RFC 7518 and RFC 8037. Nil means RS256,
	// RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA, and HS256 with a Secret. With a
	// Secret they can only be HS256, HS384 and HS512, and without one none of those.
	Algorithms []string
	// Types are those that the header may have as typ, without "application/", in any case. Nil means JWT
	// and at+jwt, and that typ may be missing; it has to be there if Types are set.
	Types []string
	// Leeway is by how much the clocks of the issuer and of this machine may differ. 0 means 1 minute, and
	// a negative one means not at all.
	Leeway time.Duration

	// Refresh is how old keys become before they are fetched again, beside the requests that use them.
	// Once no fetch has been tried for twice as long, the next request waits for one. So a key that was
	// withdrawn is taken for at most twice Refresh and FetchTimeout, if the server answers. 0 means 10
	// minutes.
	Refresh time.Duration
	// MaxStale is how old keys become while the server doesn't answer; then Verify returns ErrUnavailable.
	// A key that was withdrawn isn't taken for longer, whatever happens. 0 means 24 hours.
	MaxStale time.Duration
	// MinInterval is between the beginnings of two fetches, whatever tokens come. A token whose key is
	// newer than that of the last fetch may be refused for so long. 0 means 30 seconds.
	MinInterval time.Duration
	// FetchTimeout bounds a fetch. 0 means 5 seconds.
	FetchTimeout time.Duration
	// Client fetches keys; nil means one with the defaults of net/http. It follows at most three redirects,
	// all of them to https, or from a loopback address to another one.
	Client *http.Client
	// Now says what time it is; nil means time.Now.
	Now func() time.Time
	// Logger takes what goes wrong with keys; nil means slog.Default().
	Logger *slog.Logger
}

// hashes are the algorithms with how many bytes their digests have.
var hashes = map[jose.SignatureAlgorithm]int{
	jose.RS256: 32, jose.RS384: 48, jose.RS512: 64, jose.PS256: 32, jose.PS384: 48, jose.PS512: 64,
	jose.ES256: 32, jose.ES384: 48, jose.ES512: 64, jose.EdDSA: 64, jose.HS256: 32, jose.HS384: 48, jose.HS512: 64,
}

// asymmetric are the algorithms by default, without a secret.
var asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// orDefault returns o with its zero fields replaced.
func (o *Options) orDefault() (Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	r.Audience, r.Types, r.Algorithms = slices.Clone(r.Audience), slices.Clone(r.Types), slices.Clone(r.Algorithms)
	if r.Algorithms == nil {
		r.Algorithms = asymmetric
		if r.Secret != nil {
			r.Algorithms = []string{"HS256"}
		}
	}
	switch {
	case r.Leeway == 0:
		r.Leeway = time.Minute
	case r.Leeway < 0:
		r.Leeway = 0
	}
	or(&r.Refresh, 10*time.Minute)
	or(&r.MaxStale, 24*time.Hour)
	or(&r.MinInterval, 30*time.Second)
	or(&r.FetchTimeout, 5*time.Second)
	if r.Client == nil {
		r.Client = &http.Client{}
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.Logger == nil {
		r.Logger = slog.Default()
	}
	return r, r.check()
}

func or(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// check says what makes no sense. It repeats neither keys nor the URL, which may have a password.
func (o *Options) check() error {
	sources := 0
	for _, set := range []bool{o.JWKS != "", o.KeySet != nil, o.PublicKeys != nil, o.Secret != nil} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		return fmt.Errorf("%w: exactly one of JWKS, KeySet, PublicKeys and Secret has to be set", ErrOptions)
	}
	if o.JWKS != "" {
		if u, err := url.Parse(o.JWKS); err != nil || !mayFetch(u) {
			return fmt.Errorf("%w: JWKS has to be the URL of a server, with https, or http to a loopback address", ErrOptions)
		}
	}
	if slices.Contains(o.Audience, "") || slices.Contains(o.Types, "") {
		return fmt.Errorf("%w: Audience and Types have nothing empty", ErrOptions)
	}
	return o.checkAlgorithms()
}

func (o *Options) checkAlgorithms() error {
	if len(o.Algorithms) == 0 {
		return fmt.Errorf("%w: there are no Algorithms", ErrOptions)
	}
	for _, alg := range o.Algorithms {
		size := hashes[jose.SignatureAlgorithm(alg)]
		switch symmetric := strings.HasPrefix(alg, "HS"); {
		case size == 0:
			return fmt.Errorf("%w: the algorithm %q isn't one that tokens may have", ErrOptions, alg)
		case symmetric && o.Secret == nil:
			return fmt.Errorf("%w: the algorithm %s needs a Secret", ErrOptions, alg)
		case !symmetric && o.Secret != nil:
			return fmt.Errorf("%w: the algorithm %s has no use for a Secret", ErrOptions, alg)
		case symmetric && len(o.Secret) < size:
			return fmt.Errorf("%w: the Secret has %d bytes, and %s needs %d", ErrOptions, len(o.Secret), alg, size)
		}
	}
	return nil
}

// algorithms returns Algorithms as go-jose has them.
func (o *Options) algorithms() []jose.SignatureAlgorithm {
	algs := make([]jose.SignatureAlgorithm, len(o.Algorithms))
	for i, alg := range o.Algorithms {
		algs[i] = jose.SignatureAlgorithm(alg)
	}
	return algs
}

// mayType says whether the header may have typ, "" for none.
func (o *Options) mayType(typ string) bool {
	const prefix = "application/"
	if len(typ) > len(prefix) && strings.EqualFold(typ[:len(prefix)], prefix) {
		typ = typ[len(prefix):]
	}
	if o.Types == nil {
		return typ == "" || strings.EqualFold(typ, "JWT") || strings.EqualFold(typ, "at+jwt")
	}
	return slices.ContainsFunc(o.Types, func(t string) bool { return strings.EqualFold(t, typ) })
}

// mayFetch says whether keys may come from u: by a connection that can't be changed on its way.
func mayFetch(u *url.URL) bool {
	switch name := u.Hostname(); u.Scheme {
	case "https":
		return name != ""
	case "http":
		ip := net.ParseIP(name)
		return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
	}
	return false
}
