package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host/internal/gateway"
	"github.com/greenroomdb/greenroom/host/internal/rivetstore"
)

// backend is the engine as the gateway sees it.
type backend struct{ *Engine }

var _ gateway.Backend = backend{}

// Describe implements gateway.Backend: the types that the runners have.
func (b backend) Describe(_ context.Context, namespace string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for k, r := range b.runners {
		if k.namespace == namespace {
			names = append(names, r.types...)
		}
	}
	return names, nil
}

// Authorize implements gateway.Backend.
func (b backend) Authorize(r *http.Request, namespace, token string) error {
	if err := b.tokens.allow(token, false); err != nil {
		return err
	}
	if namespace == "" {
		return nil
	}
	return knownNamespace(r.Context(), &b.core, namespace)
}

// Find implements gateway.Backend.
func (b backend) Find(ctx context.Context, s gateway.Spec) (gateway.Actor, error) {
	id, err := b.store.Lookup(ctx, rivetstore.ActorName(s.Namespace, s.Name, s.Key))
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return gateway.Actor{}, gateway.ErrNotFound
	}
	if err != nil {
		return gateway.Actor{}, err
	}
	return look(ctx, &b.core, id)
}

// ByID implements gateway.Backend.
func (b backend) ByID(ctx context.Context, namespace, id string) (gateway.Actor, error) {
	parsed, err := actorstore.ParseID(id)
	if err != nil {
		return gateway.Actor{}, gateway.ErrNotFound
	}
	a, err := look(ctx, &b.core, parsed)
	if err == nil && namespace != "" && a.Namespace != namespace {
		return gateway.Actor{}, gateway.ErrNotFound
	}
	return a, err
}

// List implements gateway.Backend.
func (b backend) List(ctx context.Context, namespace, name, after string, limit int) (list []gateway.Actor, err error) {
	prefix := rivetstore.ActorName(namespace, name, "")
	for n, err := range b.store.Names(ctx) {
		if err != nil {
			return nil, err
		}
		if len(list) == limit {
			break
		}
		if !strings.HasPrefix(n.Name, prefix) || after != "" && n.Name[len(prefix):] <= after {
			continue
		}
		a, err := look(ctx, &b.core, n.ID)
		if errors.Is(err, gateway.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// Create implements gateway.Backend. A new actor is started at once.
func (b backend) Create(ctx context.Context, s gateway.Spec) (gateway.Actor, bool, error) {
	id, created, err := create(ctx, &b.core, s)
	if err != nil {
		return gateway.Actor{}, false, err
	}
	if created {
		b.alarms.ring(id)
	}
	a, err := look(ctx, &b.core, id)
	return a, created, err
}

// Destroy implements gateway.Backend.
func (b backend) Destroy(ctx context.Context, namespace, id string) error {
	found, err := b.ByID(ctx, namespace, id)
	if err != nil {
		return err
	}
	parsed, err := actorstore.ParseID(found.ID)
	if err != nil {
		return err
	}
	return destroy(ctx, &b.core, parsed)
}

// Serve implements gateway.Backend.
func (b backend) Serve(w http.ResponseWriter, r *http.Request, a gateway.Actor, target string) {
	id, err := actorstore.ParseID(a.ID)
	if err != nil {
		gateway.WriteError(w, err)
		return
	}
	if gateway.IsWebSocket(r) {
		serveSocket(&b.core, w, r, id, target)
		return
	}
	serveRequest(&b.core, w, r, id, target)
}

// routes serves what only an engine has.
func routes(e *Engine) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /runners/connect", func(w http.ResponseWriter, r *http.Request) { serveRunner(e, w, r) })
	mux.HandleFunc("GET /runners", func(w http.ResponseWriter, r *http.Request) {
		if err := e.tokens.allow(gateway.Token(r), false); err != nil {
			gateway.WriteError(w, err)
			return
		}
		listRunners(&e.core, w, r)
	})
	mux.HandleFunc("POST /namespaces", func(w http.ResponseWriter, r *http.Request) {
		if err := e.tokens.allow(gateway.Token(r), true); err != nil {
			gateway.WriteError(w, err)
			return
		}
		postNamespace(&e.core, w, r)
	})
	mux.HandleFunc("GET /datacenters", func(w http.ResponseWriter, _ *http.Request) {
		gateway.WriteJSON(w, http.StatusOK, map[string]any{"datacenters": []any{map[string]any{"label": 1, "name": "default"}}})
	})
	mux.HandleFunc("GET /actors/{id}/kv/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		if err := e.tokens.allow(gateway.Token(r), false); err != nil {
			gateway.WriteError(w, err)
			return
		}
		getKey(&e.core, w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { gateway.WriteError(w, gateway.ErrNoRoute) })
	return mux
}

func listRunners(e *core, w http.ResponseWriter, r *http.Request) {
	ns, name := gateway.Namespace(r), r.URL.Query().Get("name")
	list := []any{}
	e.mu.Lock()
	for k, ru := range e.runners {
		if k.namespace == ns && (name == "" || k.name == name) && ru.conn != nil && !ru.stopping {
			list = append(list, map[string]any{"runner_id": ru.id, "name": k.name, "key": k.key, "namespace_id": ns})
		}
	}
	e.mu.Unlock()
	gateway.WriteJSON(w, http.StatusOK, map[string]any{"runners": list, "pagination": map[string]any{"cursor": nil}})
}

func postNamespace(e *core, w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name        string `json:"name"`
		DisplayName string `json:"display_name"`
	}
	err := json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&body)
	if err != nil || body.Name == "" || len(body.Name) > 256 {
		err = &gateway.Error{Group: "api", Code: "invalid_request", Message: "Invalid request: a name of at most 256 bytes is missing.", Status: http.StatusBadRequest}
	}
	var made time.Time
	if err == nil {
		made, err = makeNamespace(r.Context(), e, body.Name)
	}
	if err != nil {
		gateway.WriteError(w, err)
		return
	}
	gateway.WriteJSON(w, http.StatusOK, map[string]any{"namespace": map[string]any{
		"namespace_id": body.Name, "name": body.Name, "display_name": body.DisplayName, "create_ts": max(made.UnixMilli(), 0),
	}})
}

// startUnasked has an actor started for which nobody waits.
func startUnasked(e *core, id actorstore.ID) error {
	a, err := enter(e.ctx, e, id)
	if err != nil {
		return err
	}
	defer a.leave()
	e.mu.Lock()
	defer e.mu.Unlock()
	a.wake()
	return nil
}
