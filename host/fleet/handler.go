package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/internal/peers"
	"github.com/greenroomdb/greenroom/internal/signed"
)

// Handler serves the requests of other hosts to h, below /fleet/, but for sockets. It must be reached at Options.Address.
func (f *Fleet) Handler(h *host.Host) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathRequest, func(w http.ResponseWriter, r *http.Request) { f.serveRequest(w, r, h) })
	return mux
}

// serveRequest answers a request of another host.
func (f *Fleet) serveRequest(w http.ResponseWriter, r *http.Request, h *host.Host) {
	if r.ContentLength < 0 || r.ContentLength > maxMessage {
		f.peers.Refuse(w, r, http.StatusRequestEntityTooLarge, peers.ReasonTooLarge, nil)
		return
	}
	s, ok := f.verify(w, r, h)
	if !ok {
		return
	}
	rc := http.NewResponseController(w)
	body := bytes.NewBuffer(make([]byte, 0, r.ContentLength+bytes.MinRead))
	if _, err := body.ReadFrom(r.Body); err != nil {
		f.peers.Refuse(w, r, http.StatusBadRequest, peers.ReasonRequest, err)
		return
	}
	// The sender has as long as its caller, and the time limits of the server are for clients.
	_ = rc.SetReadDeadline(time.Time{})
	ctx, end, err := f.context(r, s)
	if err != nil {
		f.peers.Refuse(w, r, http.StatusBadRequest, peers.ReasonRequest, err)
		return
	}
	defer end()
	answer := h.Answer(ctx, body.Bytes())
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_ = rc.SetWriteDeadline(time.Now().Add(answerTime))
	_, _ = w.Write(answer) // a sender that is gone doesn't hear it
}

// answerTime is how long a host may take to read an answer.
const answerTime = 30 * time.Second

// verify verifies a request, or refuses it.
func (f *Fleet) verify(w http.ResponseWriter, r *http.Request, h *host.Host) (*signed.Statement, bool) {
	return f.peers.Verify(w, r, h.Store().Lower().Self())
}

// context returns the context of what a request asks for.
func (f *Fleet) context(r *http.Request, s *signed.Statement) (context.Context, context.CancelFunc, error) {
	ctx, err := withCaller(r.Context(), s.Caller)
	if err != nil {
		return nil, nil, err
	}
	if len(s.Rest) == 0 {
		ctx, end := context.WithCancel(ctx)
		return ctx, end, nil
	}
	left, n := binary.Uvarint(s.Rest)
	if n != len(s.Rest) {
		return nil, nil, errors.New("the deadline can't be read")
	}
	ctx, end := context.WithTimeout(ctx, time.Duration(min(left, uint64(longest))))
	return ctx, end, nil
}

// longest bounds a deadline, which a host of another version may write as it likes.
const longest = 365 * 24 * time.Hour

// Accept verifies the beginning of a socket that another host has dialled to h, and returns its client, or answers the request. The context that is returned has
// the caller, and ends with r's.
func (f *Fleet) Accept(w http.ResponseWriter, r *http.Request, h *host.Host) (ctx context.Context, a host.Address, path string, ok bool) {
	query := r.URL.Query()
	a = host.Address{Type: query.Get("type"), Key: query.Get("key")}
	s, ok := f.verify(w, r, h)
	if !ok {
		return nil, a, "", false
	}
	ctx, err := withCaller(r.Context(), s.Caller)
	if err != nil {
		f.peers.Refuse(w, r, http.StatusBadRequest, peers.ReasonRequest, err)
		return nil, a, "", false
	}
	return ctx, a, query.Get("path"), true
}
