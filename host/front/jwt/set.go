package jwt

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	josejson "github.com/go-jose/go-jose/v4/json"
)

const (
	// maxKeys bounds the keys of a set. A token without a kid is tried with all of them.
	maxKeys = 64
	// An RSA key of fewer bits is weak (RFC 7518, section 3.3), and one of more takes too long.
	minRSA, maxRSA = 2048, 8192
)

// A key may have signed a token.
type key struct {
	public any // []byte for a secret
	kid    string
	alg    jose.SignatureAlgorithm // the only one that it is for, "" for all of its type
}

// A keySet is what tokens may be signed with. It isn't changed.
type keySet struct {
	list []key
	// unnamed keys have no ids, so that a token's kid says nothing.
	unnamed bool
}

// verify returns the claims of a token, as bytes, if one of the keys has signed them. known says that
// another set wouldn't help: this one has a key of the token's kid.
func (s *keySet) verify(t *signedToken) (payload []byte, known bool) {
	for _, k := range s.list {
		if t.kid != "" && !s.unnamed {
			if k.kid != t.kid {
				continue
			}
			known = true
		}
		if !k.fits(t.alg) {
			continue
		}
		if payload, err := t.jws.Verify(k.public); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// fits says whether k is for alg. A public key is never a secret.
func (k *key) fits(alg jose.SignatureAlgorithm) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(string(alg), "RS") || strings.HasPrefix(string(alg), "PS")
	case *ecdsa.PublicKey:
		return alg == curves[public.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return alg == jose.EdDSA
	case []byte:
		return strings.HasPrefix(string(alg), "HS")
	}
	return false
}

// curves are the algorithms of curves, by their bits (RFC 7518, section 3.4).
var curves = map[int]jose.SignatureAlgorithm{256: jose.ES256, 384: jose.ES384, 521: jose.ES512}

// usable says what is wrong with a public key, nil for nothing.
func usable(public crypto.PublicKey) error {
	switch public := public.(type) {
	case *rsa.PublicKey:
		if public == nil || public.N == nil || public.N.BitLen() < minRSA || public.N.BitLen() > maxRSA {
			return fmt.Errorf("an RSA key has %d to %d bits", minRSA, maxRSA)
		}
	case *ecdsa.PublicKey:
		if public == nil || public.Curve == nil || curves[public.Curve.Params().BitSize] == "" {
			return errors.New("the curve is none of P-256, P-384 and P-521")
		}
		if _, err := public.Bytes(); err != nil {
			return errors.New("the point isn't on its curve")
		}
	case ed25519.PublicKey:
		if len(public) != ed25519.PublicKeySize {
			return fmt.Errorf("an Ed25519 key has %d bytes", ed25519.PublicKeySize)
		}
	default:
		return errors.New("it is neither a public RSA, ECDSA nor Ed25519 key")
	}
	return nil
}

// parseSet reads a JWK set. Keys that can't be used here are passed over, as RFC 7517, section 5, wants it:
// skipped has what is wrong with each of them.
func parseSet(data []byte) (set *keySet, skipped []error, err error) {
	var raw struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := josejson.Unmarshal(data, &raw); err != nil {
		return nil, nil, errors.New("it isn't JSON of a JWK set")
	}
	switch {
	case raw.Keys == nil:
		return nil, nil, errors.New("it has no list of keys")
	case len(*raw.Keys) > maxKeys:
		return nil, nil, fmt.Errorf("it has %d keys, more than %d", len(*raw.Keys), maxKeys)
	}
	set = &keySet{}
	for i, data := range *raw.Keys {
		k, err := parseKey(data)
		if err != nil {
			skipped = append(skipped, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		set.list = append(set.list, k)
	}
	return set, skipped, nil
}

// parseKey reads a JWK. It takes no secrets: a published one isn't secret any more.
func parseKey(data []byte) (key, error) {
	var members map[string]json.RawMessage
	if err := josejson.Unmarshal(data, &members); err != nil {
		return key{}, errors.New("it isn't an object in JSON")
	}
	for _, name := range []string{"k", "d", "p", "q", "dp", "dq", "qi", "oth", "priv"} {
		if _, ok := members[name]; ok {
			return key{}, errors.New("it isn't only public")
		}
	}
	var operations []string
	if ops, ok := members["key_ops"]; ok {
		if josejson.Unmarshal(ops, &operations) != nil || !slices.Contains(operations, "verify") {
			return key{}, errors.New("it isn't for signatures")
		}
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(data); err != nil {
		return key{}, errors.New("it can't be read")
	}
	if jwk.Use != "" && jwk.Use != "sig" {
		return key{}, errors.New("it isn't for signatures")
	}
	if err := usable(jwk.Key); err != nil {
		return key{}, err
	}
	return key{jwk.Key, jwk.KeyID, jose.SignatureAlgorithm(jwk.Algorithm)}, nil
}

// A source has the keys that tokens may be signed with.
type source interface {
	// keys returns the keys of now. It takes trouble to return others than lacking, in which a token's
	// key isn't, and returns lacking if it must not, or if there are none.
	keys(ctx context.Context, lacking *keySet) (*keySet, error)
	// close ends what the source does, and waits for that.
	close()
}

// static keys never change.
type static struct{ set *keySet }

var _ source = static{}

func (s static) keys(context.Context, *keySet) (*keySet, error) { return s.set, nil }
func (s static) close()                                         {}

// staticKeys returns the keys of options that have some.
func staticKeys(o Options) (*keySet, error) {
	switch {
	case o.Secret != nil:
		return &keySet{[]key{{public: append([]byte(nil), o.Secret...)}}, true}, nil
	case o.KeySet != nil:
		set, skipped, err := parseSet(o.KeySet)
		if err == nil {
			err = errors.Join(skipped...) // a key of the program's own is there to be used
		}
		if err == nil && len(set.list) == 0 {
			err = errors.New("it has no keys")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: KeySet: %w", ErrOptions, err)
		}
		return set, nil
	}
	set := &keySet{unnamed: true}
	for i, public := range o.PublicKeys {
		if err := usable(public); err != nil {
			return nil, fmt.Errorf("%w: public key %d: %w", ErrOptions, i+1, err)
		}
		set.list = append(set.list, key{public: public})
	}
	if n := len(set.list); n == 0 || n > maxKeys {
		return nil, fmt.Errorf("%w: there are %d public keys, and have to be 1 to %d", ErrOptions, n, maxKeys)
	}
	return set, nil
}
