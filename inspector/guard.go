package inspector

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/greenroomdb/greenroom/admin"
)

// protect sets the headers of all answers: a browser loads what the page itself serves and runs no code that stands in a page, no other site embeds a page or learns
// where in the store its visitor is, and nothing is kept.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would have browsers send "null" as the origin of a form
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// A guard knows the names by which the page is reached, without ports.
type guard map[string]bool

// check refuses requests for another name, and those that pages of other origins make.
func (g guard) check(r *http.Request) error {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	if name = strings.Trim(name, "[]"); net.ParseIP(name) == nil && !g[strings.ToLower(name)] {
		return &admin.Error{Code: "forbidden", Message: "This page is not served under the name in your address bar. Use its IP address, or localhost."}
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return errOrigin
		}
	}
	// What a page of another origin embeds bears no Origin. A link in it leads here, as a document of its own. Another port of this machine is another origin, though
	// its pages have the browser send the cookie.
	if from := r.Header.Get("Sec-Fetch-Site"); (from == "cross-site" || from == "same-site") && r.Header.Get("Sec-Fetch-Dest") != "document" {
		return errOrigin
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	// Browsers send Origin with each POST, and other clients a token.
	if r.Header.Get("Origin") == "" && secretOf(r) == "" {
		return errOrigin
	}
	return nil
}

// errOrigin refuses what a page of another site asks for.
var errOrigin = &admin.Error{Code: "forbidden", Message: "Pages of other sites may not do this."}
