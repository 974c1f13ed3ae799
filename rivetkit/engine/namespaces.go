package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// loadNamespaces reads the namespaces that were made.
func loadNamespaces(ctx context.Context, e *core) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.namespaces[rivetstore.DefaultNamespace] = time.Time{}
	for row, err := range e.kv.Scan(ctx, rivetstore.NamespaceRange()) {
		if err != nil {
			return err
		}
		name, err := rivetstore.ParseNamespaceKey(row.Key)
		if err != nil {
			return err
		}
		ms, err := rivetstore.ParseTime(row.Value)
		if err != nil {
			return fmt.Errorf("%w, of namespace %q", err, name)
		}
		e.namespaces[name] = time.UnixMilli(ms)
	}
	return nil
}

// errNoNamespace says that a namespace wasn't made.
var errNoNamespace = newError(http.StatusBadRequest, "namespace", "not_found", "There is no such namespace.")

// knownNamespace returns an error unless there is the namespace. Another process may have made it.
func knownNamespace(ctx context.Context, e *core, namespace string) error {
	e.mu.Lock()
	_, ok := e.namespaces[namespace]
	e.mu.Unlock()
	if ok {
		return nil
	}
	value, err := e.kv.Get(ctx, rivetstore.NamespaceKey(namespace), nil)
	if errors.Is(err, kv.ErrNotFound) {
		return errNoNamespace
	}
	if err != nil {
		return err
	}
	ms, err := rivetstore.ParseTime(value)
	if err == nil {
		e.mu.Lock()
		e.namespaces[namespace] = time.UnixMilli(ms)
		e.mu.Unlock()
	}
	return err
}

// makeNamespace makes a namespace, unless it is there, and returns when it was made.
func makeNamespace(ctx context.Context, e *core, name string) (time.Time, error) {
	err := knownNamespace(ctx, e, name)
	if errors.Is(err, errNoNamespace) {
		row := kv.Set(rivetstore.NamespaceKey(name), rivetstore.AppendTime(nil, e.now().UnixMilli()))
		if err = e.kv.Commit(ctx, &kv.Commit{Ops: []kv.Op{row}, Durability: kv.Durable}); err == nil {
			err = knownNamespace(ctx, e, name)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.namespaces[name], err
}

// postNamespace is POST /namespaces.
func postNamespace(e *core, w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name        string `json:"name"`
		DisplayName string `json:"display_name"`
	}
	x := newExchange(e, w, r, actorstore.ID{})
	defer x.close()
	text, err := x.body(64 << 10)
	if err == nil && (json.Unmarshal(text, &body) != nil || body.Name == "" || len(body.Name) > 256) {
		err = invalid("a name of at most 256 bytes is missing")
	}
	var made time.Time
	if err == nil {
		made, err = makeNamespace(r.Context(), e, body.Name)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"namespace": map[string]any{
		"namespace_id": body.Name, "name": body.Name, "display_name": body.DisplayName, "create_ts": max(made.UnixMilli(), 0),
	}})
}
