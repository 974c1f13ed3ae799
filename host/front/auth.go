package front

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A digest stands for a token where it is compared: all have the same length.
type digest [sha256.Size]byte

func digestOf(token string) digest { return sha256.Sum256([]byte(token)) }

// bearerProtocol begins the subprotocol in which a browser sends its bearer token, in
// base64url without padding, as it can set no header of a WebSocket. It is never chosen.
const bearerProtocol = "greenroom.bearer."

// authorized serves with next the requests that bear a token, or don't need one.
func (f *Front) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !f.allows(r) {
			f.meter.Count(metricRefused, 1)
			f.refuse(w, r, errToken)
			return
		}
		next(w, r)
	}
}

// allows says whether a request has what it needs. The time that it takes doesn't depend
// on how much of a token is right, nor on which one it is.
func (f *Front) allows(r *http.Request) bool {
	if len(f.keys) == 0 {
		return cameToLoopback(r)
	}
	given := digestOf(bearer(r))
	found := 0
	for i := range f.keys {
		found |= subtle.ConstantTimeCompare(given[:], f.keys[i][:])
	}
	return found == 1
}

// bearer returns the token of a request, "" for none.
func bearer(r *http.Request) string {
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
func (f *Front) checkHost(r *http.Request) error {
	name := r.Host
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	ok := true
	switch {
	case len(f.opts.Hosts) > 0:
		ok = slices.ContainsFunc(f.opts.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
	case f.opts.WithoutToken:
		ok = isLoopback(name)
	}
	if !ok {
		f.meter.Count(metricRefused, 1)
		return errHost
	}
	return nil
}

// checkOrigin refuses pages of other origins, and tells browsers which ones may read the
// answer. done says that the request is answered.
func (f *Front) checkOrigin(w http.ResponseWriter, r *http.Request) (done bool) {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return false
	}
	if !slices.Contains(f.opts.Origins, origin) {
		f.meter.Count(metricRefused, 1)
		f.refuse(w, r, errOrigin)
		return true
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Traceparent")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
