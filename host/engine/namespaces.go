package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/gateway"
	"github.com/greenroomdb/greenroom/host/internal/rivetstore"
	"github.com/greenroomdb/greenroom/kv"
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
var errNoNamespace = &gateway.Error{
	Group: "namespace", Code: "not_found", Message: "There is no such namespace.", Status: http.StatusBadRequest,
}

// known returns an error unless there is the namespace. Another process may have made it.
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
	if err != nil && err != error(errNoNamespace) {
		return time.Time{}, err
	}
	if err != nil {
		now := e.now()
		err := e.kv.Commit(ctx, &kv.Commit{
			Ops: []kv.Op{kv.Set(rivetstore.NamespaceKey(name), rivetstore.AppendTime(nil, now.UnixMilli()))}, Durability: kv.Durable,
		})
		if err != nil {
			return time.Time{}, err
		}
		e.mu.Lock()
		e.namespaces[name] = now
		e.mu.Unlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.namespaces[name], nil
}
