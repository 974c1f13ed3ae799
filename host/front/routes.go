package front

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/fleet"
)

// routes are what the Front answers to. What is below /actors is its own, whatever
// Options.Pages serve, so that programs never get a page for an answer.
func (f *Front) routes() *http.ServeMux {
	get, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	mux := http.NewServeMux()
	handle := func(path string, methods []string, h http.HandlerFunc) {
		mux.HandleFunc(path, f.only(methods, h))
	}
	handle("/actors/{type}/{key}/actions/{action}", post, f.admitted(AccessCall, f.serveCall))
	handle("/actors/{type}/{key}/connect", get[:1], f.admitted(AccessConnect, f.serveConnect))
	handle("/types", get, f.opened(typesOf(f.host)))
	handle("/healthz", get, f.serveHealth)
	handle("/readyz", get, f.serveReady)
	if f.opts.MetricsPage != nil {
		handle("/metrics", get, f.opened(f.opts.MetricsPage.ServeHTTP))
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

// typesOf serves what may be called of a host.
func typesOf(h *host.Host) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(map[string]any{"types": h.Describe()})
		if err != nil {
			panic(err) // of texts and maps of them
		}
		writeHead(w, mediaJSON, http.StatusOK, len(body))
		_, _ = w.Write(body)
	}
}

// routes are what the Front answers to for other hosts.
func (f linkServer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/fleet/", f.opts.Fleet.Handler(f.host))
	mux.HandleFunc("GET "+fleet.PathSocket, f.serve)
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

// opened serves with next the requests that bear a token, or don't need one.
func (f *Front) opened(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !f.guard.opens(r) {
			f.meter.Count(metricRefused, 1)
			f.refuse(w, r, errToken)
			return
		}
		next(w, r)
	}
}

// admitted serves with next the requests that may do what they want.
func (f *Front) admitted(kind AccessKind, next func(w http.ResponseWriter, r *http.Request, from *host.Caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := &Access{Kind: kind, Actor: host.Address{Type: r.PathValue("type"), Key: r.PathValue("key")}, Action: r.PathValue("action")}
		from, err := f.guard.admit(r.Context(), r, a)
		if err != nil {
			f.refuse(w, r, err)
			return
		}
		next(w, r, from)
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
