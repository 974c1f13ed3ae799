package engine

import (
	"log/slog"
	"net/http"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// An arrival is a program that comes to the engine, as a runner or, of RivetKit 2.3, as an envoy: a runner that introduces itself by the address to which it connects, and not by its
// first message, that counts its actors' commands from 1, and that opens the sockets that outlive a sleep by itself before it takes messages over them. Its actors keep all in a
// database (pages.go).
type arrival struct {
	*gateway
	w http.ResponseWriter
	r *http.Request
}

// runner is GET /runners/connect.
func (a arrival) runner() {
	q := a.r.URL.Query()
	at := runnerKey{namespace: namespaceOf(a.r), key: q.Get("runner_key")}
	version, err := rp.ParseVersion(q.Get("protocol_version"))
	if err != nil {
		a.refuse("runner", "The runner's version isn't 5, 6 or 7: programs of RivetKit 2.1 and 2.2 are served here, and those of 2.3 at /envoys/connect.")
		return
	}
	a.connect(at, version)
}

// envoy is GET /envoys/connect.
func (a arrival) envoy() {
	q := a.r.URL.Query()
	at := runnerKey{namespace: namespaceOf(a.r), name: q.Get("pool_name"), key: q.Get("envoy_key")}
	version, err := rp.ParseEnvoyVersion(q.Get("protocol_version"))
	if err != nil || at.name == "" {
		a.refuse("envoy", "The envoy's pool is missing, or its version isn't 6 or 8: programs of RivetKit 2.3.5 to 2.3.19 are served, but for 2.3.9.")
		return
	}
	a.connect(at, version)
}

// refuse tells a program, and the log, that it can't be served.
func (a arrival) refuse(protocol, why string) {
	a.log.Warn("engine: a program is refused", slog.String("protocol", protocol), slog.String("version", a.r.URL.Query().Get("protocol_version")), slog.String("reason", why))
	writeError(a.w, newError(http.StatusBadRequest, "ws", "invalid_request", why))
}

// connect takes the connection of a runner.
func (a arrival) connect(at runnerKey, version rp.Version) {
	err := a.tokens.allow(tokenOf(a.r), true)
	if err == nil {
		err = knownNamespace(a.r.Context(), a.core, at.namespace)
	}
	switch {
	case err != nil:
	case at.key == "" || len(at.key) > 1024:
		err = newError(http.StatusBadRequest, "ws", "invalid_request", "The runner's key is missing.")
	case !isWebSocket(a.r):
		err = errNoRoute
	}
	if err != nil {
		writeError(a.w, err)
		return
	}
	ws, err := acceptSocket(a.w, a.r)
	if err != nil {
		return // it is answered
	}
	ws.SetReadLimit(maxMessage)
	e := a.core
	c := &runnerConn{outbox: outbox{ws: ws, log: e.log}, e: e, version: version, heard: e.now()}
	ctx, done, err := e.begin()
	if err != nil {
		_ = ws.CloseNow()
		return
	}
	defer done()
	go c.ping(ctx)
	c.serve(ctx, at)
}

// runners is GET /runners.
func (a arrival) runners() {
	ns, name := namespaceOf(a.r), a.r.URL.Query().Get("name")
	list := []any{}
	a.mu.Lock()
	for k, ru := range a.core.runners {
		if k.namespace == ns && (name == "" || k.name == name) && ru.conn != nil && !ru.stopping {
			list = append(list, map[string]any{"runner_id": ru.id, "name": k.name, "key": k.key, "namespace_id": ns})
		}
	}
	a.mu.Unlock()
	writeJSON(a.w, http.StatusOK, map[string]any{"runners": list, "pagination": map[string]any{"cursor": nil}})
}

// envoys is GET /envoys.
func (a arrival) envoys() {
	ns, name := namespaceOf(a.r), a.r.URL.Query().Get("name")
	list := []any{}
	a.mu.Lock()
	for k, ru := range a.core.runners {
		if ru.conn == nil || !ru.conn.isEnvoy() || ru.stopping || k.namespace != ns || name != "" && k.name != name {
			continue
		}
		since, heard := ru.since.UnixMilli(), ru.conn.heard.UnixMilli()
		list = append(list, map[string]any{
			"envoy_key": k.key, "namespace_id": ns, "datacenter": datacenter, "pool_name": k.name, "version": 1, "slots": len(ru.actors), "create_ts": since, "stop_ts": nil,
			"last_ping_ts": heard, "last_connected_ts": since, "last_rtt": 0, "metadata": nil,
		})
	}
	a.mu.Unlock()
	writeJSON(a.w, http.StatusOK, map[string]any{"envoys": list, "pagination": map[string]any{"cursor": nil}})
}

// datacenter is the name of the one that there is.
const datacenter = "default"

// datacenters is GET /datacenters.
func (a arrival) datacenters() {
	scheme := "http"
	if a.r.TLS != nil {
		scheme = "https"
	}
	one := map[string]any{"label": 1, "name": datacenter, "url": scheme + "://" + a.r.Host + "/"}
	writeJSON(a.w, http.StatusOK, map[string]any{"datacenters": []any{one}, "pagination": map[string]any{"cursor": nil}})
}

// config is PUT /runner-configs/{pool}: a program says how its pool is run, which isn't the engine's to decide.
func (a arrival) config() {
	writeJSON(a.w, http.StatusOK, map[string]any{"endpoint_config_changed": false})
}
