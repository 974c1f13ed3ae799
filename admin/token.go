package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Role is what a client may do.
type Role string

// The roles.
const (
	RoleRead  Role = "read"  // whatever changes nothing: what is asked for with GET, and queries
	RoleWrite Role = "write" // everything
)

// A Token lets a client of Serve in.
type Token struct {
	// Name is what the log calls the client. No two tokens have one name.
	Name string
	Role Role
	// Secret is what the client sends as its bearer token: at least MinSecret characters, all of them printable ASCII without spaces.
	Secret string
}

// MinSecret is how many characters Token.Secret has at least.
const MinSecret = 16

// ErrTokens says that Serve can't work with Options.Tokens.
var ErrTokens = errors.New("admin: bad tokens")

// CheckTokens returns an error that wraps ErrTokens if Serve can't work with these tokens: there has to be one, and each has to be as Token says.
// It doesn't repeat a secret.
func CheckTokens(tokens []Token) error {
	if len(tokens) == 0 {
		return fmt.Errorf("%w: there is none", ErrTokens)
	}
	plain := func(text string) bool {
		return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	}
	for i, t := range tokens {
		same := func(other Token) bool { return other.Name == t.Name || other.Secret == t.Secret }
		switch {
		case t.Name == "" || !plain(t.Name):
			return fmt.Errorf("%w: the name of token %d has to be printable ASCII without spaces", ErrTokens, i+1)
		case t.Role != RoleRead && t.Role != RoleWrite:
			return fmt.Errorf("%w: the role of token %s has to be %s or %s", ErrTokens, t.Name, RoleRead, RoleWrite)
		case len(t.Secret) < MinSecret || !plain(t.Secret):
			return fmt.Errorf("%w: the secret of token %s has to have at least %d characters, all of them printable ASCII without spaces", ErrTokens, t.Name, MinSecret)
		case slices.ContainsFunc(tokens[:i], same):
			return fmt.Errorf("%w: token %s has the name or the secret of another one", ErrTokens, t.Name)
		}
	}
	return nil
}

// A client is where a request comes from.
type client struct {
	name string // in the log
	role Role
}

// onSocket is a client that came through the socket: the user of the process, or root.
var onSocket = client{"socket", RoleWrite}

// A clientKey is the key of the client in the context of a request.
type clientKey struct{}

// clientOf returns the client of a request that was admitted.
func clientOf(ctx context.Context) client {
	c, _ := ctx.Value(clientKey{}).(client)
	return c
}

// admit has serve answer requests of clients that may do what reads says, and refuses others.
func (s *Server) admit(reads bool, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := s.identify(r)
		if err == nil && !reads && c.role != RoleWrite {
			err = &Error{Code: "forbidden", Message: "the token " + c.name + " may only read"}
		}
		if err != nil {
			s.log.Warn("admin: refused", slog.String("by", c.name), slog.String("from", r.RemoteAddr), slog.String("method", r.Method),
				slog.String("path", r.URL.Path), slog.Any("error", err))
			if c == (client{}) {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			refuse(w, err)
			return
		}
		serve(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, c)))
	}
}

// identify returns the client of a request; the zero client if it isn't known.
func (s *Server) identify(r *http.Request) (client, error) {
	// A page of another origin has no token, but its browser may: it is refused before that is looked at.
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return client{}, &Error{Code: "forbidden", Message: "pages of other origins are not answered"}
		}
	}
	if s.tokens == nil {
		return onSocket, nil
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// All are compared, and sums of one length, so that the time says nothing of a secret.
	sum, found := sha256.Sum256([]byte(secret)), client{}
	for _, t := range s.tokens {
		if want := sha256.Sum256([]byte(t.Secret)); subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
			found = client{t.Name, t.Role}
		}
	}
	if !strings.EqualFold(scheme, "Bearer") || found == (client{}) {
		return client{}, &Error{Code: "unauthorized", Message: "a bearer token is needed"}
	}
	return found, nil
}
