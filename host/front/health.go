package front

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/greenroomdb/greenroom/host"
)

// serveHealth says that the process answers, and whether it should be started again as
// its store has failed for good. It asks the store nothing, so that a store that is slow
// doesn't get a process restarted.
func (f *Front) serveHealth(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-f.host.Failed():
		f.write(w, mediaJSON, http.StatusServiceUnavailable, []byte(`{"status":"failed","reason":"the store has failed"}`))
	default:
		f.write(w, mediaJSON, http.StatusOK, []byte(`{"status":"ok"}`))
	}
}

// serveReady says whether calls are taken and the store answers.
func (f *Front) serveReady(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	draining := f.draining || f.leaving.Load()
	f.mu.Unlock()
	err := host.ErrClosed
	if !draining {
		ctx, cancel := context.WithTimeout(r.Context(), f.opts.HeaderTimeout)
		defer cancel()
		err = f.host.Ready(ctx)
	}
	if err != nil {
		f.note(r.Context(), "not ready", r.URL.Path, err)
		f.write(w, mediaJSON, http.StatusServiceUnavailable, []byte(`{"status":"not ready"}`))
		return
	}
	if f.opts.Degraded != nil {
		if what := f.opts.Degraded(); what != "" {
			body, err := json.Marshal(map[string]string{"status": "ready", "degraded": what})
			if err == nil {
				f.write(w, mediaJSON, http.StatusOK, body)
				return
			}
		}
	}
	f.write(w, mediaJSON, http.StatusOK, []byte(`{"status":"ready"}`))
}
