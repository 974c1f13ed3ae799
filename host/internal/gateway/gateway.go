// Package gateway serves the addresses by which RivetKit's clients find actors and reach them: /metadata, /health,
// /actors and /gateway. What an actor is, and what is done with a request for one, is up to a Backend: the
// engine for RivetKit's programs, or a host of actors that are written in Go.
package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/clientproto"
)

// An Actor is what clients are told of an actor. A zero time isn't known.
type Actor struct {
	ID        string
	Name      string // its type
	Key       string // as clientproto.Key.String returns it
	NoKey     bool   // it has none
	Namespace string
	Runner    string // the name of the runners that run it

	Created, Started, Connectable, Slept time.Time
}

// A Spec says of which actor a client speaks, and how it is made.
type Spec struct {
	Namespace string
	Name      string
	Key       string // as clientproto.Key.String returns it
	NoKey     bool   // a new actor without a key
	Runner    string // the name of the runners that run it
	Input     []byte // CBOR; nil for none
}

// A Backend has actors. It is safe for concurrent use. Its errors are answered as they are if they are an *Error, and
// as an internal error if they aren't.
type Backend interface {
	// Describe returns the types of actors that there are, for /metadata; nil if it doesn't know.
	Describe(ctx context.Context, namespace string) (names []string, err error)
	// Authorize returns an error for a token that isn't good. It is called for everything but /health and
	// /metadata.
	Authorize(r *http.Request, namespace, token string) error
	// Find returns the actor of a Spec's namespace, name and key, or ErrNotFound.
	Find(ctx context.Context, s Spec) (Actor, error)
	// ByID returns the actor with an id, or ErrNotFound.
	ByID(ctx context.Context, namespace, id string) (Actor, error)
	// List returns the actors of a type, up to limit, in the order of their keys from the first one after the key after.
	List(ctx context.Context, namespace, name, after string, limit int) ([]Actor, error)
	// Create makes the actor unless there is one, and says whether it has.
	Create(ctx context.Context, s Spec) (a Actor, created bool, err error)
	// Destroy ends an actor with all that it has.
	Destroy(ctx context.Context, namespace, id string) error
	// Serve answers a request for an actor. target is what follows the actor in the address: a path, which begins
	// with a slash, and the query, both as they came, but for the parameters of the gateway.
	Serve(w http.ResponseWriter, r *http.Request, a Actor, target string)
}

// Options change what New does.
type Options struct {
	Backend Backend
	// Runtime and Version are what /metadata and /health say.
	Runtime, Version string
	// AllowOrigin says whether a page of an origin may read answers; nil means every page.
	AllowOrigin func(r *http.Request, origin string) bool
	// MaxBody bounds the bodies of calls of /actors, in bytes.
	MaxBody int64
	// Extra serves what isn't the package's own, nil for nothing. Its answers have the headers for pages of other origins.
	Extra http.Handler
}

// A Gateway is an http.Handler. It is safe for concurrent use.
type Gateway struct {
	opts Options
	mux  *http.ServeMux
}

// New returns a Gateway.
func New(opts *Options) *Gateway {
	g := &Gateway{opts: *opts, mux: http.NewServeMux()}
	if g.opts.MaxBody == 0 {
		g.opts.MaxBody = 1 << 20
	}
	if g.opts.AllowOrigin == nil {
		g.opts.AllowOrigin = func(*http.Request, string) bool { return true }
	}
	g.mux.HandleFunc("GET /health", g.health)
	g.mux.HandleFunc("GET /metadata", g.metadata)
	g.mux.HandleFunc("GET /actors", g.listed)
	g.mux.HandleFunc("PUT /actors", func(w http.ResponseWriter, r *http.Request) { g.made(w, r, false) })
	g.mux.HandleFunc("POST /actors", func(w http.ResponseWriter, r *http.Request) { g.made(w, r, true) })
	g.mux.HandleFunc("DELETE /actors/{id}", g.destroyed)
	g.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if g.opts.Extra == nil {
			WriteError(w, ErrNoRoute)
			return
		}
		g.opts.Extra.ServeHTTP(w, r)
	})
	return g
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
func (g *Gateway) allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	h, origin := w.Header(), r.Header.Get("Origin")
	h.Add("Vary", "Origin")
	if origin != "" && !g.opts.AllowOrigin(r, origin) {
		WriteError(w, &Error{Group: "auth", Code: "forbidden", Message: "Pages of this origin aren't allowed.", Status: http.StatusForbidden})
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
	asked := r.Header.Get("Access-Control-Request-Headers")
	if asked == "" {
		asked = "*"
	}
	h.Set("Access-Control-Allow-Headers", asked)
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
	return false
}

func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, map[string]any{"status": "ok", "runtime": g.opts.Runtime, "version": g.opts.Version})
}

func (g *Gateway) metadata(w http.ResponseWriter, r *http.Request) {
	out := map[string]any{
		"runtime": g.opts.Runtime, "version": g.opts.Version,
		"runner": map[string]any{"kind": map[string]any{"normal": map[string]any{}}},
	}
	names, err := g.opts.Backend.Describe(r.Context(), Namespace(r))
	if err != nil {
		WriteError(w, err)
		return
	}
	of := map[string]any{}
	for _, name := range names {
		of[name] = map[string]any{"metadata": map[string]any{}}
	}
	out["actorNames"] = of
	WriteJSON(w, http.StatusOK, out)
}

// Namespace returns the namespace that a request's query names.
func Namespace(r *http.Request) string {
	if ns := r.URL.Query().Get("namespace"); ns != "" {
		return ns
	}
	return "default"
}

// Token returns the token that a request has in its headers, or among the subprotocols of a WebSocket, "" for none.
func Token(r *http.Request) string {
	if t := r.Header.Get("X-Rivet-Token"); t != "" {
		return t
	}
	if scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(t)
	}
	for _, p := range Subprotocols(r) {
		if t, ok := strings.CutPrefix(p, "rivet_token."); ok {
			return t
		}
	}
	return ""
}

// Subprotocols returns those that a client offers for its WebSocket.
func Subprotocols(r *http.Request) (all []string) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if p = strings.TrimSpace(p); p != "" {
				all = append(all, p)
			}
		}
	}
	return all
}

// listed is GET /actors.
func (g *Gateway) listed(w http.ResponseWriter, r *http.Request) {
	list, cursor, err := g.list(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	all := make([]any, len(list))
	for i, a := range list {
		all[i] = a.json()
	}
	WriteJSON(w, http.StatusOK, map[string]any{"actors": all, "pagination": map[string]any{"cursor": cursor}})
}

// maxListed bounds the actors of an answer.
const maxListed = 1000

func (g *Gateway) list(r *http.Request) (list []Actor, cursor any, err error) {
	q, ns, ctx := r.URL.Query(), Namespace(r), r.Context()
	if err := g.opts.Backend.Authorize(r, ns, Token(r)); err != nil {
		return nil, nil, err
	}
	found := func(a Actor, err error) error {
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err == nil {
			list = append(list, a)
		}
		return err
	}
	ids := append(q["actor_id"], q["actor_ids"]...)
	switch {
	case len(ids) > 0:
		for _, id := range strings.Split(strings.Join(ids, ","), ",") {
			if len(list) == maxListed {
				break
			}
			if err := found(g.opts.Backend.ByID(ctx, ns, id)); err != nil {
				return nil, nil, err
			}
		}
		return list, nil, nil
	case q.Get("name") == "":
		return nil, nil, invalid("a name of actors is missing")
	case q.Has("key"):
		key, err := clientproto.ParseKey(q.Get("key"))
		if err != nil {
			return nil, nil, invalid(err.Error())
		}
		err = found(g.opts.Backend.Find(ctx, Spec{Namespace: ns, Name: q.Get("name"), Key: key.String()}))
		return list, nil, err
	}
	limit := maxListed
	if text := q.Get("limit"); text != "" {
		if _, err := fmt.Sscan(text, &limit); err != nil || limit < 1 {
			return nil, nil, invalid("the limit is no number of actors")
		}
		limit = min(limit, maxListed)
	}
	list, err = g.opts.Backend.List(ctx, ns, q.Get("name"), q.Get("cursor"), limit)
	if err == nil && len(list) == limit {
		cursor = list[limit-1].Key
	}
	return list, cursor, err
}

// made is PUT and POST /actors.
func (g *Gateway) made(w http.ResponseWriter, r *http.Request, anew bool) {
	a, created, err := g.make(w, r, anew)
	if err != nil {
		WriteError(w, err)
		return
	}
	WriteJSON(w, http.StatusOK, map[string]any{"actor": a.json(), "created": created})
}

func (g *Gateway) make(w http.ResponseWriter, r *http.Request, anew bool) (a Actor, created bool, err error) {
	ns := Namespace(r)
	if err := g.opts.Backend.Authorize(r, ns, Token(r)); err != nil {
		return a, false, err
	}
	var body struct {
		Name   string  `json:"name"`
		Key    *string `json:"key"`
		Runner string  `json:"runner_name_selector"`
		Input  *string `json:"input"`
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.opts.MaxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return a, false, &Error{Group: "message", Code: "incoming_too_long", Message: "The body is too long.", Status: http.StatusBadRequest}
	}
	if err != nil {
		return a, false, invalid("the body is cut off")
	}
	if err := json.Unmarshal(b, &body); err != nil {
		return a, false, invalid("the body is no description of an actor")
	}
	s := Spec{Namespace: ns, Name: body.Name, Runner: body.Runner, NoKey: body.Key == nil}
	if body.Input != nil {
		if s.Input, err = base64.StdEncoding.DecodeString(*body.Input); err != nil {
			return a, false, invalid("the input isn't base64")
		}
	}
	if body.Key != nil {
		key, err := clientproto.ParseKey(*body.Key)
		if err != nil {
			return a, false, invalid(err.Error())
		}
		s.Key = key.String()
	}
	switch {
	case s.Name == "":
		return a, false, invalid("a name of actors is missing")
	case s.NoKey && !anew:
		return a, false, invalid("a key is missing")
	}
	a, created, err = g.opts.Backend.Create(r.Context(), s)
	if err == nil && anew && !created {
		return a, false, &Error{
			Group: "actor", Code: "duplicate_key", Message: fmt.Sprintf("Actor key '%s' already in use.", s.Key), Status: http.StatusBadRequest,
			Metadata: map[string]any{"key": s.Key, "existing_actor_id": a.ID},
		}
	}
	return a, created, err
}

// destroyed is DELETE /actors/{id}.
func (g *Gateway) destroyed(w http.ResponseWriter, r *http.Request) {
	ns := Namespace(r)
	err := g.opts.Backend.Authorize(r, ns, Token(r))
	if err == nil {
		err = g.opts.Backend.Destroy(r.Context(), ns, r.PathValue("id"))
	}
	if err != nil {
		WriteError(w, err)
		return
	}
	WriteJSON(w, http.StatusOK, map[string]any{})
}

// json returns what clients are told of a, as they expect it.
func (a *Actor) json() any {
	ms := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.UnixMilli()
	}
	var key any = a.Key
	if a.NoKey {
		key = nil
	}
	return map[string]any{
		"actor_id": a.ID, "name": a.Name, "key": key, "namespace_id": a.Namespace, "runner_name_selector": a.Runner, "crash_policy": "sleep",
		"create_ts": ms(a.Created), "connectable_ts": ms(a.Connectable), "destroy_ts": nil, "sleep_ts": ms(a.Slept), "start_ts": ms(a.Started),
	}
}

// reach serves /gateway/…; rest is what follows.
func (g *Gateway) reach(w http.ResponseWriter, r *http.Request, rest string) {
	a, target, err := g.find(r, rest)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.opts.Backend.Serve(w, r, a, target)
}

// find returns for which actor a request is, and what follows it in the address.
func (g *Gateway) find(r *http.Request, rest string) (a Actor, target string, err error) {
	if strings.Contains(rest, "//") {
		return a, "", ErrNoRoute
	}
	who, target, _ := strings.Cut(rest, "/")
	target = "/" + target
	query, own, err := splitQuery(r.URL.RawQuery)
	if err != nil {
		return a, "", invalid("the query is malformed")
	}
	if query != "" {
		target += "?" + query
	}
	if len(own) > 0 {
		a, err = g.query(r, who, own)
		return a, target, err
	}
	id, token, _ := strings.Cut(who, "@")
	if id, err = url.PathUnescape(id); err == nil {
		token, err = url.PathUnescape(token)
	}
	if err != nil || id == "" {
		return a, "", ErrNoRoute
	}
	if token == "" {
		token = Token(r)
	}
	ns := "" // the id says which
	if err := g.opts.Backend.Authorize(r, ns, token); err != nil {
		return a, "", err
	}
	a, err = g.opts.Backend.ByID(r.Context(), ns, id)
	return a, target, err
}

// splitQuery takes the parameters of the gateway out of a query, and returns the others as they came.
func splitQuery(raw string) (rest string, own url.Values, err error) {
	var others []string
	for part := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(part, "=")
		if !strings.HasPrefix(name, "rvt-") {
			others = append(others, part)
			continue
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return "", nil, err
		}
		if own == nil {
			own = url.Values{}
		}
		own.Add(name, value)
	}
	return strings.Join(others, "&"), own, nil
}

// query finds the actor that the parameters of the gateway describe, and makes it if they say so.
func (g *Gateway) query(r *http.Request, who string, own url.Values) (a Actor, err error) {
	name, err := url.PathUnescape(who)
	if err != nil || name == "" {
		return a, ErrNoRoute
	}
	s := Spec{Namespace: own.Get("rvt-namespace"), Name: name, Runner: own.Get("rvt-runner")}
	if s.Runner == "" {
		s.Runner = own.Get("rvt-pool")
	}
	if s.Namespace == "" {
		s.Namespace = "default"
	}
	token := own.Get("rvt-token")
	if token == "" {
		token = Token(r)
	}
	if err := g.opts.Backend.Authorize(r, s.Namespace, token); err != nil {
		return a, err
	}
	key := clientproto.Key{}
	if own.Has("rvt-key") {
		key = strings.Split(own.Get("rvt-key"), ",")
	}
	s.Key = key.String()
	if text := own.Get("rvt-input"); text != "" {
		if s.Input, err = base64.RawURLEncoding.DecodeString(text); err != nil {
			return a, invalid("rvt-input isn't base64url")
		}
	}
	switch method := own.Get("rvt-method"); method {
	case "get":
		return g.opts.Backend.Find(r.Context(), s)
	case "getOrCreate":
		a, _, err = g.opts.Backend.Create(r.Context(), s)
		return a, err
	default:
		return a, invalid(fmt.Sprintf("rvt-method is %q, not get or getOrCreate", method))
	}
}
