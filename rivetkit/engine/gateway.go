package engine

import (
	"net/http"
	"strings"
)

// A gateway serves what RivetKit's clients and runners ask of an engine over HTTP: the addresses by which they find
// actors and reach them.
type gateway struct {
	*core
	tokens tokens
	mux    *http.ServeMux
}

// runtime is what /metadata says. /health says "engine": programs of RivetKit 2.3 take nothing else for one.
const runtime = "greenroom"

func newGateway(e *core) *gateway {
	g := &gateway{core: e, tokens: newTokens(&e.opts), mux: http.NewServeMux()}
	client := func(serve func(*core, http.ResponseWriter, *http.Request)) http.HandlerFunc {
		return g.guarded(false, serve)
	}
	g.mux.HandleFunc("GET /health", g.health)
	g.mux.HandleFunc("GET /metadata", g.metadata)
	g.mux.HandleFunc("GET /actors", g.listed)
	g.mux.HandleFunc("PUT /actors", func(w http.ResponseWriter, r *http.Request) { g.made(w, r, false) })
	g.mux.HandleFunc("POST /actors", func(w http.ResponseWriter, r *http.Request) { g.made(w, r, true) })
	g.mux.HandleFunc("DELETE /actors/{id}", g.destroyed)
	g.mux.HandleFunc("GET /actors/{id}/kv/keys/{key}", g.guarded(true, getKey))
	g.mux.HandleFunc("GET /runners/connect", func(w http.ResponseWriter, r *http.Request) { arrival{g, w, r}.runner() })
	g.mux.HandleFunc("GET /runners", client(func(_ *core, w http.ResponseWriter, r *http.Request) { arrival{g, w, r}.runners() }))
	g.mux.HandleFunc("POST /namespaces", g.guarded(true, postNamespace))
	g.mux.HandleFunc("GET /datacenters", func(w http.ResponseWriter, r *http.Request) { arrival{g, w, r}.datacenters() })
	g.mux.HandleFunc("GET /envoys/connect", func(w http.ResponseWriter, r *http.Request) { arrival{g, w, r}.envoy() })
	g.mux.HandleFunc("GET /envoys", client(func(_ *core, w http.ResponseWriter, r *http.Request) { arrival{g, w, r}.envoys() }))
	g.mux.HandleFunc("PUT /runner-configs/{pool}", g.guarded(true, func(_ *core, w http.ResponseWriter, r *http.Request) { arrival{g, w, r}.config() }))
	g.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { writeError(w, errNoRoute) })
	return g
}

// guarded returns a handler that calls serve if the request has a token of a runner, or of a client if that will do.
func (g *gateway) guarded(runner bool, serve func(*core, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := g.tokens.allow(tokenOf(r), runner); err != nil {
			writeError(w, err)
			return
		}
		serve(g.core, w, r)
	}
}

// authorize returns an error for a token that isn't good, and for a namespace that there isn't; "" is every namespace.
func (g *gateway) authorize(r *http.Request, namespace, token string) error {
	if err := g.tokens.allow(token, false); err != nil {
		return err
	}
	if namespace == "" {
		return nil
	}
	return knownNamespace(r.Context(), g.core, namespace)
}

// ServeHTTP implements http.Handler.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.allowOrigin(w, r) {
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/gateway/"); ok {
		g.reach(w, r, rest)
		return
	}
	g.mux.ServeHTTP(w, r)
}

// allowOrigin writes the headers that pages of other origins need, and answers their questions beforehand.
//
// https://fetch.spec.whatwg.org/#http-cors-protocol
func (g *gateway) allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	h, origin := w.Header(), r.Header.Get("Origin")
	h.Add("Vary", "Origin")
	// A browser names the origin of scripts, and not that of images and links.
	asked := origin != "" || r.Header.Get("Sec-Fetch-Site") == "cross-site"
	if asked && !g.opts.allowOrigin(origin) {
		writeError(w, newError(http.StatusForbidden, "auth", "forbidden", "Pages of this origin aren't allowed."))
		return false
	}
	if origin == "" {
		origin = "*"
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "*")
	if r.Method != http.MethodOptions {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS, PATCH")
	headers := r.Header.Get("Access-Control-Request-Headers")
	if headers == "" {
		headers = "*"
	}
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return false
}

func (g *gateway) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "runtime": "engine", "version": g.opts.Version})
}

func (g *gateway) metadata(w http.ResponseWriter, r *http.Request) {
	out := map[string]any{
		"runtime": runtime, "version": g.opts.Version, "envoy_protocol_version": 8,
		"runner": map[string]any{"kind": map[string]any{"normal": map[string]any{}}},
	}
	names := map[string]any{}
	g.mu.Lock()
	for k, ru := range g.runners {
		if k.namespace == namespaceOf(r) {
			for _, name := range ru.types {
				names[name] = map[string]any{"metadata": map[string]any{}}
			}
		}
	}
	g.mu.Unlock()
	out["actorNames"] = names
	writeJSON(w, http.StatusOK, out)
}
