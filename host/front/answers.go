package front

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom/host"
)

// A problem is an error as clients get it.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// refuse answers a request with an error, in JSON.
func (f *Front) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f.answerError(w, r, mediaJSON, err)
}

// answerError answers a request with an error.
func (f *Front) answerError(w http.ResponseWriter, r *http.Request, as media, err error) {
	s := status(err)
	f.note(r.Context(), "request", r.URL.Path, err)
	if f.leaving.Load() {
		swallow(w, r)
	}
	advise(w.Header(), s, err)
	body, encodeErr := as.encode(problem{host.Code(err), host.Message(err)})
	if encodeErr != nil { // an actor's sentence can't be one
		body, s = nil, http.StatusInternalServerError
	}
	f.write(w, as, s, body)
}

// advise sets the header fields that go with an error (RFC 9110, section 15.5).
func advise(h http.Header, status int, err error) {
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="greenroom"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	case http.StatusUpgradeRequired:
		h.Set("Upgrade", "websocket")
		h.Set("Connection", "Upgrade")
	}
	switch err {
	case errMedia:
		h.Set("Accept", mediaJSON.String()+", "+mediaCBOR.String())
	case errCoding:
		h.Set("Accept-Encoding", "identity")
	}
}

// note logs an error that the client isn't told in full.
func (f *Front) note(ctx context.Context, what, where string, err error) {
	level := slog.LevelDebug
	switch host.Code(err) {
	case "internal", "actor_failed", "unknown_outcome", "unavailable":
		level = slog.LevelError
	}
	f.log.Log(ctx, level, "front: "+what, slog.String("path", where), slog.Any("error", err))
}

// write answers a request. A client that doesn't take the answer is gone.
func (f *Front) write(w http.ResponseWriter, as media, status int, body []byte) {
	writeHead(w, as, status, len(body))
	_, _ = w.Write(body)
}

func writeHead(w http.ResponseWriter, as media, status, length int) {
	h := w.Header()
	h.Set("Content-Type", as.String())
	h.Set("Content-Length", strconv.Itoa(length))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
}

const (
	// mostSwallowed bounds the body that swallow reads, in bytes, and swallowTime how long it waits for it.
	mostSwallowed, swallowTime = 64 << 10, 250 * time.Millisecond
)

// swallow reads a small body that isn't wanted. If the connection were closed before, the client could lose the answer, which says that it may try again.
func swallow(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength <= 0 || r.ContentLength > mostSwallowed {
		return
	}
	if http.NewResponseController(w).SetReadDeadline(time.Now().Add(swallowTime)) == nil {
		_, _ = io.Copy(io.Discard, r.Body) // what isn't there by then is not waited for
	}
}
