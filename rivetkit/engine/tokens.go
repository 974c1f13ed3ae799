package engine

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// tokens are digests, so that all have the same length where they are compared.
type tokens struct{ runner, client [][sha256.Size]byte }

func newTokens(o *Options) (t tokens) {
	for _, s := range o.RunnerTokens {
		t.runner = append(t.runner, sha256.Sum256([]byte(s)))
	}
	for _, s := range o.ClientTokens {
		t.client = append(t.client, sha256.Sum256([]byte(s)))
	}
	return t
}

// guarded reports whether anybody needs a token.
func (o *Options) guarded() bool { return len(o.RunnerTokens)+len(o.ClientTokens) > 0 }

// allow returns an error unless a token is one of a runner, or of a client if that will do. The time that it takes doesn't depend
// on how much of a token is right.
func (t *tokens) allow(token string, runner bool) error {
	if len(t.runner)+len(t.client) == 0 {
		return nil
	}
	given, found := sha256.Sum256([]byte(token)), 0
	for i := range t.runner {
		found |= subtle.ConstantTimeCompare(given[:], t.runner[i][:])
	}
	if !runner {
		for i := range t.client {
			found |= subtle.ConstantTimeCompare(given[:], t.client[i][:])
		}
	}
	if found == 0 {
		return errForbidden
	}
	return nil
}

// allowHost says whether a request names the engine as it may be named. A page of the web whose own name leads to this machine is
// told by that name.
func (o *Options) allowHost(r *http.Request) bool {
	name := hostName(r.Host)
	if len(o.Hosts) > 0 {
		return slices.ContainsFunc(o.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
	}
	return o.guarded() || isLoopback(name)
}

// allowOrigin says whether pages of an origin, "" for one that the browser doesn't name, may reach the engine.
func (o *Options) allowOrigin(origin string) bool {
	if len(o.Origins) > 0 {
		return slices.Contains(o.Origins, origin)
	}
	if o.guarded() {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && isLoopback(u.Hostname())
}

func hostName(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// isLoopback says whether a host's name or address can only mean this machine.
func isLoopback(name string) bool {
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// namespaceOf returns the namespace that a request's query names.
func namespaceOf(r *http.Request) string {
	if ns := r.URL.Query().Get("namespace"); ns != "" {
		return ns
	}
	return "default"
}

// tokenOf returns the token that a request has in its headers, or among the subprotocols of a WebSocket, "" for none.
func tokenOf(r *http.Request) string {
	if t := r.Header.Get("X-Rivet-Token"); t != "" {
		return t
	}
	if scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(t)
	}
	for _, p := range subprotocols(r) {
		if t, ok := strings.CutPrefix(p, "rivet_token."); ok {
			return t
		}
	}
	return ""
}

// subprotocols returns those that a client offers for its WebSocket.
func subprotocols(r *http.Request) (all []string) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if p = strings.TrimSpace(p); p != "" {
				all = append(all, p)
			}
		}
	}
	return all
}
