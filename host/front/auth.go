package front

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/metrics"
)

// A digest stands for a token where it is compared: all have the same length.
type digest [sha256.Size]byte

func digestOf(token string) digest { return sha256.Sum256([]byte(token)) }

// A guard decides which requests are served, and of whom they are.
type guard struct {
	*Options
	keys  []digest // of the bearer tokens
	meter metrics.Meter
}

func newGuard(o *Options) guard {
	g := guard{Options: o, meter: metrics.Meter{To: o.Metrics}}
	for _, token := range o.Tokens {
		g.keys = append(g.keys, digestOf(token))
	}
	return g
}

// admit returns the caller of what a request asks for, nil if the request opens everything.
func (g *guard) admit(ctx context.Context, r *http.Request, a *Access) (*host.Caller, error) {
	if g.opens(r) {
		return nil, nil
	}
	if g.Authorize == nil {
		g.meter.Count(metricRefused, 1)
		return nil, errToken
	}
	ctx, cancel := context.WithTimeout(ctx, g.CallTimeout)
	defer cancel()
	caller, err := g.ask(ctx, r, a)
	if err != nil {
		g.meter.Count(metricRefused, 1)
		return nil, err
	}
	if caller == nil {
		caller = &host.Caller{}
	}
	return caller, nil
}

// ask calls Authorize, and returns of its error what a client is told. A panic refuses the request: it isn't that of a handler, which net/http would catch, where a socket asks for something.
func (g *guard) ask(ctx context.Context, r *http.Request, a *Access) (caller *host.Caller, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.Logger.Error("front: panic of Authorize", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			err = errAuthorize
		}
	}()
	if caller, err = g.Authorize(ctx, r, a); err != nil {
		return nil, forbidden(err)
	}
	return caller, nil
}

// withCaller returns a context for what a caller asks for; nil is one about which nothing is said.
func withCaller(ctx context.Context, c *host.Caller) context.Context {
	if c == nil {
		return ctx
	}
	return host.WithCaller(ctx, c)
}

// forbidden returns what a client is told that Options.Authorize has refused: nothing of the reason, unless that is a *host.Error.
func forbidden(err error) error {
	var told *host.Error
	switch {
	case errors.As(err, &told):
		return err
	case errors.Is(err, ErrUnauthenticated):
		return &host.Error{Code: "unauthorized", Message: "The request does not say from whom it is.", Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &host.Error{Code: "forbidden", Message: "This is not allowed.", Err: err}
}

// opens says whether a request has what opens everything. The time that it takes doesn't depend
// on how much of a token is right, nor on which one it is.
func (g *guard) opens(r *http.Request) bool {
	if g.WithoutToken {
		return cameToLoopback(r)
	}
	given := digestOf(Bearer(r))
	found := 0
	for i := range g.keys {
		found |= subtle.ConstantTimeCompare(given[:], g.keys[i][:])
	}
	return found == 1
}

// Bearer returns the bearer token of a request, "" for none: what follows Bearer in its Authorization, or else what a WebSocket has behind greenroom.bearer. in the
// name of a subprotocol that it offers, in base64url without padding. Nothing about it is verified.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	for _, protocol := range subprotocols(r) {
		if text, ok := strings.CutPrefix(protocol, bearerProtocol); ok {
			// Text that isn't base64 isn't a token either.
			token, _ := base64.RawURLEncoding.DecodeString(text)
			return string(token)
		}
	}
	return ""
}

// subprotocols returns those that a client offers for its WebSocket.
func subprotocols(r *http.Request) (all []string) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for _, p := range strings.Split(line, ",") {
			if p = strings.TrimSpace(p); p != "" {
				all = append(all, p)
			}
		}
	}
	return all
}

// cameToLoopback says whether a request came to a loopback address of this machine, so
// that its sender is on this machine.
func cameToLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	if addr.Network() == "unix" {
		return true
	}
	h, _, err := net.SplitHostPort(addr.String())
	return err == nil && isLoopback(h)
}

// isLoopback says whether a host's name or address can only mean this machine.
func isLoopback(name string) bool {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// checkHost refuses requests to another name. A page of the web whose own name leads to
// this machine is of the same origin as what it asks for here, and is told by the name.
func (g *guard) checkHost(r *http.Request) error {
	name := r.Host
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	ok := true
	switch {
	case len(g.Hosts) > 0:
		ok = slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
	case g.WithoutToken:
		ok = isLoopback(name)
	}
	if !ok {
		g.meter.Count(metricRefused, 1)
		return errHost
	}
	return nil
}

// checkOrigin refuses pages of other origins, and tells browsers which ones may read the
// answer. done says that the request is answered.
func (g *guard) checkOrigin(w http.ResponseWriter, r *http.Request) (done bool, err error) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false, nil
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return false, nil
	}
	if !slices.Contains(g.Origins, origin) {
		g.meter.Count(metricRefused, 1)
		return false, errOrigin
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", replayedHeader+", Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false, nil
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Traceparent, "+keyHeader)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true, nil
}
