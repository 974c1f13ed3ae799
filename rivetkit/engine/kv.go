package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// The limits of a Rivet engine for the keys of actors.
const (
	maxKeys    = 128
	maxKey     = 2046
	maxValue   = 128 << 10
	maxPayload = 976 << 10

	defaultList = 16384    // keys of a list without a limit
	maxList     = 1 << 16  // keys of any list
	maxAnswer   = 32 << 20 // bytes of its keys and values

	maxJobBytes = 64 << 20 // of an actor's requests that wait
	maxJobs     = 4096

	maxAnswers = 64 << 20 // bytes that wait to be sent to a runner when the next request is done
)

// errKeys is what a runner is told that asks for what it may not.
type errKeys string

func (e errKeys) Error() string { return string(e) }

// asked has a runner's request for keys answered.
//
// +checklocks:e.mu
func asked(e *core, r *runner, q rp.KVRequest, size int) {
	refuse := func(why string) { r.send(rp.KVResponse{ID: q.ID, Body: rp.KVError{Message: why}}) }
	id, err := actorstore.ParseID(q.Actor)
	a := e.actors[id]
	switch {
	case err != nil || a == nil || a.runner != r || !a.told || a.phase == asleep || a.phase == gone:
		refuse("actor does not belong to runner")
		return
	case len(a.jobs) >= maxJobs || a.jobBytes+size > maxJobBytes:
		refuse("too many requests of the actor wait")
		return
	}
	conn, of := r.conn, keysOf(r.envoy)
	a.do(size, func() {
		if conn != nil {
			conn.drain(e.ctx, maxAnswers)
		}
		body, err := of.do(e.ctx, a.handle, q.Body, e.now())
		var own errKeys
		switch {
		case errors.As(err, &own):
			body = rp.KVError{Message: own.Error()}
		case errors.Is(err, batch.ErrTooLarge):
			body = rp.KVError{Message: err.Error()}
		case errors.Is(err, errkind.ErrNoSpace):
			body = rp.KVError{Message: "the store has no room; try again later"}
		case errors.Is(err, errkind.ErrQuota):
			body = rp.KVError{Message: "the actor may not store more"}
		case err != nil:
			e.log.Error("engine: keys of an actor", a.attr(), slog.Any("error", err))
			body = rp.KVError{Message: "internal error"}
		}
		if conn != nil {
			conn.send(rp.KVResponse{ID: q.ID, Body: body})
		}
	})
}

// actorKeys are the keys of an actor that its program may see and write: all but those that begin with one of these, which are in order.
type actorKeys []string

// keysOf returns those of the actors of a runner, or of an envoy, whose actors have their database in pages: the keys of those aren't the program's.
func keysOf(envoy bool) actorKeys {
	if envoy {
		return actorKeys{actorstore.LayoutRivetKit.Prefix(actorstore.NamespaceSQLite), string(rivetstore.OwnPrefix)}
	}
	return actorKeys{string(rivetstore.OwnPrefix)}
}

// hides says whether a key isn't the program's.
func (a actorKeys) hides(key []byte) bool {
	return slices.ContainsFunc(a, func(prefix string) bool { return strings.HasPrefix(string(key), prefix) })
}

// do does what a request asks for.
func (a actorKeys) do(ctx context.Context, h *actorstore.Actor, q rp.KVRequestBody, now time.Time) (rp.KVResponseBody, error) {
	switch q := q.(type) {
	case rp.KVGet:
		return a.get(ctx, h, q.Keys, now)
	case rp.KVList:
		return a.list(ctx, h, q)
	case rp.KVPut:
		return rp.KVPutDone{}, a.put(ctx, h, q.Pairs)
	case rp.KVDelete:
		if err := a.check(len(q.Keys), func(i int) []byte { return q.Keys[i] }); err != nil {
			return nil, err
		}
		var b batch.Batch
		for _, k := range q.Keys {
			b.Delete(k)
		}
		return rp.KVDeleted{}, h.Commit(ctx, &b)
	case rp.KVDeleteRange:
		var b batch.Batch
		a.deleteRange(&b, q.Start, q.End)
		return rp.KVDeleted{}, h.Commit(ctx, &b)
	case rp.KVDrop:
		var b batch.Batch
		a.deleteRange(&b, nil, nil)
		return rp.KVDropped{}, h.Commit(ctx, &b)
	default:
		return nil, fmt.Errorf("engine: request for keys of type %T", q)
	}
}

// checkKeys returns an error unless a runner may name n keys.
func (a actorKeys) check(n int, key func(i int) []byte) error {
	if n > maxKeys {
		return errKeys("a maximum of 128 keys is allowed")
	}
	for i := range n {
		switch k := key(i); {
		case len(k) > maxKey:
			return errKeys("key is too long (max 2048 bytes)")
		case a.hides(k):
			return errKeys("key is reserved")
		}
	}
	return nil
}

func (a actorKeys) get(ctx context.Context, h *actorstore.Actor, keys [][]byte, now time.Time) (rp.KVResponseBody, error) {
	if err := a.check(len(keys), func(i int) []byte { return keys[i] }); err != nil {
		return nil, err
	}
	var got rp.KVGot
	for _, k := range keys {
		v, err := h.Get(ctx, k, nil)
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		got.Entries = append(got.Entries, entry(k, v, now))
	}
	return got, nil
}

// entry is an entry of an answer. Its version means nothing to RivetKit.
func entry(key, value []byte, updated time.Time) rp.KVEntry {
	return rp.KVEntry{Key: key, Value: value, Version: []byte("0"), UpdatedAt: updated.UnixMilli()}
}

func (a actorKeys) list(ctx context.Context, h *actorstore.Actor, q rp.KVList) (rp.KVResponseBody, error) {
	opts := actorstore.ListOptions{Reverse: q.Reverse.Value}
	switch query := q.Query.(type) {
	case rp.KVPrefix:
		opts.Prefix = query.Prefix
	case rp.KVRange:
		opts.Start, opts.End = query.Start, query.End
		if !query.Exclusive {
			opts.End = append(append(make([]byte, 0, len(query.End)+1), query.End...), 0)
		}
	}
	if max(len(opts.Prefix), len(opts.Start), len(opts.End)-1) > maxKey {
		return nil, errKeys("key is too long (max 2048 bytes)")
	}
	limit := uint64(defaultList)
	if q.Limit.Set {
		limit = min(q.Limit.Value, maxList)
	}
	var listed rp.KVListed
	size := 0
	for e, err := range h.List(ctx, opts) {
		if err != nil {
			return nil, err
		}
		if a.hides(e.Key) {
			continue
		}
		size += len(e.Key) + len(e.Value) + 32
		if uint64(len(listed.Entries)) >= limit || size > maxAnswer {
			break
		}
		listed.Entries = append(listed.Entries, entry(append([]byte(nil), e.Key...), append([]byte(nil), e.Value...), e.Updated))
	}
	return listed, nil
}

func (a actorKeys) put(ctx context.Context, h *actorstore.Actor, pairs []rp.KVPair) error {
	if err := a.check(len(pairs), func(i int) []byte { return pairs[i].Key }); err != nil {
		return err
	}
	var b batch.Batch
	size := 0
	for _, p := range pairs {
		if len(p.Value) > maxValue {
			return errKeys("value is too large (max 128 KiB)")
		}
		size += len(p.Key) + len(p.Value)
		b.Put(p.Key, p.Value)
	}
	if size > maxPayload {
		return errKeys("total payload is too large (max 976 KiB)")
	}
	return h.Commit(ctx, &b)
}

// deleteRange deletes the keys in [start, end), nil for no bound.
func (a actorKeys) deleteRange(b *batch.Batch, start, end []byte) {
	for _, prefix := range a {
		until := []byte(prefix)
		if end != nil && string(end) < prefix {
			until = end
		}
		if string(start) < string(until) {
			b.DeleteRange(start, until)
		}
		if after := kv.PrefixEnd([]byte(prefix)); string(start) < string(after) {
			start = after
		}
	}
	if end == nil || string(start) < string(end) {
		b.DeleteRange(start, end)
	}
}

// getKey is GET /actors/{id}/kv/keys/{key}, with the key in base64.
func getKey(e *core, w http.ResponseWriter, r *http.Request) {
	value, err := readKey(r.Context(), e.store, r.PathValue("id"), r.PathValue("key"))
	if err != nil {
		writeError(w, err)
		return
	}
	var text any
	if value != nil {
		text = base64.StdEncoding.EncodeToString(value)
	}
	writeJSON(w, http.StatusOK, map[string]any{"value": text, "update_ts": e.now().UnixMilli()})
}

// readKey returns the value of a key in base64, or nil.
func readKey(ctx context.Context, store *actorstore.Store, id, text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key, err = base64.URLEncoding.DecodeString(text)
	}
	at, bad := actorstore.ParseID(id)
	if err != nil || bad != nil || rivetstore.Own(key) {
		return nil, errNotFound
	}
	v, err := store.View(ctx, at)
	if errors.Is(err, actorstore.ErrUnknownActor) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, err
	}
	value, err := v.Get(ctx, key, []byte{})
	if errors.Is(err, kv.ErrNotFound) {
		value, err = nil, nil
	}
	return value, errors.Join(err, v.Close())
}
