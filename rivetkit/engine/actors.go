package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// An actorSpec says of which actor a client speaks, and how it is made.
type actorSpec struct {
	Namespace string
	Name      string
	Key       string // as rivetstore.Key.String returns it
	NoKey     bool   // a new actor without a key
	Runner    string // the name of the runners that run it
	Input     []byte // CBOR; nil for none
}

// json returns what clients are told of a, as they expect it.
func (a *actorInfo) json() any {
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
		"actor_id": a.ID.String(), "name": a.Name, "key": key, "namespace_id": a.Namespace, "runner_name_selector": a.Runner, "crash_policy": "sleep",
		"create_ts": ms(a.Created), "connectable_ts": ms(a.Connectable), "destroy_ts": nil, "sleep_ts": ms(a.Slept), "start_ts": ms(a.Started),
	}
}

// listed is GET /actors.
func (g *gateway) listed(w http.ResponseWriter, r *http.Request) {
	list, cursor, err := g.list(r)
	if err != nil {
		writeError(w, err)
		return
	}
	all := make([]any, len(list))
	for i, a := range list {
		all[i] = a.json()
	}
	writeJSON(w, http.StatusOK, map[string]any{"actors": all, "pagination": map[string]any{"cursor": cursor}})
}

// maxListed bounds the actors of an answer.
const maxListed = 1000

func (g *gateway) list(r *http.Request) (list []actorInfo, cursor any, err error) {
	q, ns, ctx := r.URL.Query(), namespaceOf(r), r.Context()
	if err := g.authorize(r, ns, tokenOf(r)); err != nil {
		return nil, nil, err
	}
	ids := append(q["actor_id"], q["actor_ids"]...)
	switch {
	case len(ids) > 0:
		list, err = g.byIDs(ctx, ns, strings.Split(strings.Join(ids, ","), ","))
		return list, nil, err
	case q.Get("name") == "":
		return nil, nil, invalid("a name of actors is missing")
	case q.Has("key"):
		key, err := rivetstore.ParseKey(q.Get("key"))
		if err != nil {
			return nil, nil, invalid(err.Error())
		}
		a, err := g.find(ctx, actorSpec{Namespace: ns, Name: q.Get("name"), Key: key.String()})
		if errors.Is(err, errNotFound) {
			return nil, nil, nil
		}
		return []actorInfo{a}, nil, err
	}
	limit := maxListed
	if text := q.Get("limit"); text != "" {
		if _, err := fmt.Sscan(text, &limit); err != nil || limit < 1 {
			return nil, nil, invalid("the limit is no number of actors")
		}
		limit = min(limit, maxListed)
	}
	list, err = g.inOrder(ctx, ns, q.Get("name"), q.Get("cursor"), limit)
	if err == nil && len(list) == limit {
		cursor = list[limit-1].Key
	}
	return list, cursor, err
}

// made is PUT and POST /actors.
func (g *gateway) made(w http.ResponseWriter, r *http.Request, anew bool) {
	a, created, err := g.make(w, r, anew)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"actor": a.json(), "created": created})
}

func (g *gateway) make(w http.ResponseWriter, r *http.Request, anew bool) (a actorInfo, created bool, err error) {
	ns := namespaceOf(r)
	if err := g.authorize(r, ns, tokenOf(r)); err != nil {
		return a, false, err
	}
	x := newExchange(g.core, w, r, actorstore.ID{})
	defer x.close()
	s, err := readSpec(x)
	if err != nil {
		return a, false, err
	}
	s.Namespace = ns
	if s.NoKey && !anew {
		return a, false, invalid("a key is missing")
	}
	a, created, err = create(r.Context(), g.core, s)
	if err == nil && anew && !created {
		return a, false, &apiError{
			Group: "actor", Code: "duplicate_key", Message: fmt.Sprintf("Actor key '%s' already in use.", s.Key), Status: http.StatusBadRequest,
			Metadata: map[string]any{"key": s.Key, "existing_actor_id": a.ID.String()},
		}
	}
	return a, created, err
}

// maxBody bounds the bodies of calls of /actors, in bytes.
const maxBody = 1 << 20

// readSpec reads which actor is to be made, but for its namespace.
func readSpec(x *exchange) (s actorSpec, err error) {
	var body struct {
		Name   string  `json:"name"`
		Key    *string `json:"key"`
		Runner string  `json:"runner_name_selector"`
		Input  *string `json:"input"`
	}
	b, err := x.body(maxBody)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &body); err != nil {
		return s, invalid("the body is no description of an actor")
	}
	s = actorSpec{Name: body.Name, Runner: body.Runner, NoKey: body.Key == nil}
	if body.Input != nil {
		if s.Input, err = base64.StdEncoding.DecodeString(*body.Input); err != nil {
			return s, invalid("the input isn't base64")
		}
	}
	if body.Key != nil {
		key, err := rivetstore.ParseKey(*body.Key)
		if err != nil {
			return s, invalid(err.Error())
		}
		s.Key = key.String()
	}
	if s.Name == "" {
		return s, invalid("a name of actors is missing")
	}
	return s, nil
}

// destroyed is DELETE /actors/{id}.
func (g *gateway) destroyed(w http.ResponseWriter, r *http.Request) {
	ns := namespaceOf(r)
	err := g.authorize(r, ns, tokenOf(r))
	var a actorInfo
	if err == nil {
		a, err = g.byID(r.Context(), ns, r.PathValue("id"))
	}
	if err == nil {
		err = serveDestroy(g.core, w, r, &a)
	}
	if err != nil {
		writeError(w, err)
	}
}

// find returns the actor of a namespace, a name and a key, or errNotFound.
func (g *gateway) find(ctx context.Context, s actorSpec) (actorInfo, error) {
	id, err := g.store.Lookup(ctx, rivetstore.ActorName(s.Namespace, s.Name, s.Key))
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return actorInfo{}, errNotFound
	}
	if err != nil {
		return actorInfo{}, err
	}
	return look(ctx, g.core, id)
}

// byID returns the actor with an id, or errNotFound. The namespace "" is every namespace.
func (g *gateway) byID(ctx context.Context, namespace, id string) (actorInfo, error) {
	parsed, err := actorstore.ParseID(id)
	if err != nil {
		return actorInfo{}, errNotFound
	}
	a, err := look(ctx, g.core, parsed)
	if err == nil && namespace != "" && a.Namespace != namespace {
		return actorInfo{}, errNotFound
	}
	return a, err
}

// byIDs returns the actors with ids, up to maxListed, without those that don't exist.
func (g *gateway) byIDs(ctx context.Context, namespace string, ids []string) (list []actorInfo, err error) {
	for _, id := range ids {
		a, err := g.byID(ctx, namespace, id)
		if errors.Is(err, errNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if list = append(list, a); len(list) == maxListed {
			break
		}
	}
	return list, nil
}

// inOrder returns the actors of a type, up to limit, in the order of their keys from the first one after the key after.
func (g *gateway) inOrder(ctx context.Context, namespace, name, after string, limit int) (list []actorInfo, err error) {
	prefix := rivetstore.ActorName(namespace, name, "")
	for n, err := range g.store.Names(ctx) {
		if err != nil {
			return nil, err
		}
		if len(list) == limit {
			break
		}
		if !strings.HasPrefix(n.Name, prefix) || after != "" && n.Name[len(prefix):] <= after {
			continue
		}
		a, err := look(ctx, g.core, n.ID)
		if errors.Is(err, errNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}
