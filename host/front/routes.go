package front

import (
	"net/http"
	"slices"
	"strings"
)

// routes are what the Front answers to. What is below /actors is its own, whatever
// Options.Pages serve, so that programs never get a page for an answer.
func (f *Front) routes() *http.ServeMux {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	mux := http.NewServeMux()
	handle := func(path string, methods []string, h http.HandlerFunc) {
		mux.HandleFunc(path, f.only(methods, h))
	}
	handle("/actors/{type}/{key}/actions/{action}", post, f.authorized(f.serveCall))
	handle("/actors/{type}/{key}/connect", get[:1], f.authorized(f.serveConnect))
	handle("/healthz", get, f.serveHealth)
	handle("/readyz", get, f.serveReady)
	if f.opts.MetricsPage != nil {
		handle("/metrics", get, f.authorized(f.opts.MetricsPage.ServeHTTP))
	}
	nothing := func(w http.ResponseWriter, r *http.Request) { f.refuse(w, r, errNoPage) }
	mux.HandleFunc("/actors", nothing)
	mux.HandleFunc("/actors/", nothing)
	if f.opts.Pages != nil {
		handle("/", get, f.opts.Pages.ServeHTTP)
	} else {
		mux.HandleFunc("/", nothing)
	}
	return mux
}

// only serves requests with one of the methods with h. It answers OPTIONS, and requests
// with other methods, with the list of methods.
func (f *Front) only(methods []string, h http.HandlerFunc) http.HandlerFunc {
	allow := strings.Join(append(slices.Clone(methods), http.MethodOptions), ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case slices.Contains(methods, r.Method):
			h(w, r)
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", allow)
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Allow", allow)
			f.refuse(w, r, refusal("method_not_allowed", "The methods for this are "+allow+"."))
		}
	}
}

// asksForSocket says whether a request is the beginning of a WebSocket.
func asksForSocket(r *http.Request) bool {
	for _, line := range r.Header.Values("Upgrade") {
		for _, protocol := range strings.Split(line, ",") {
			if strings.EqualFold(strings.TrimSpace(protocol), "websocket") {
				return true
			}
		}
	}
	return false
}
