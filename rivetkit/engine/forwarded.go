package engine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/peers"
	"github.com/greenroomdb/greenroom/internal/signed"
)

// A forwarded serves what other engines pass on to this one.
type forwarded struct{ *fleet }

// serve serves a request of another engine, or refuses it.
func (f forwarded) serve(w http.ResponseWriter, r *http.Request) {
	s, ok := f.peers.Verify(w, r, f.e.store.Self())
	if !ok {
		return
	}
	id, err := actorstore.ParseID(string(s.Rest))
	if err != nil {
		f.peers.Refuse(w, r, http.StatusBadRequest, peers.ReasonRequest, err)
		return
	}
	if r.ContentLength == 0 { // it isn't read otherwise
		if _, err := r.Body.Read(make([]byte, 1)); err != io.EOF {
			f.peers.Refuse(w, r, http.StatusUnauthorized, peers.ReasonSignature, err)
			return
		}
	}
	r.Header.Del(signed.Header)
	r.RemoteAddr = string(s.Caller)
	r = r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true))
	w.Header().Set(peers.ReasonHeader, reasonAnswer)
	err = f.do(w, r, id)
	switch {
	case err == nil:
	case errors.Is(err, actorstore.ErrInUse), errors.Is(err, errElsewhere), errors.Is(err, errLeaving):
		f.peers.Refuse(w, r, http.StatusServiceUnavailable, reasonMoved, err)
	default:
		writeError(w, err)
	}
}

// do does what a request asks of an actor. If it returns an error nothing was answered.
func (f forwarded) do(w http.ResponseWriter, r *http.Request, id actorstore.ID) error {
	path := r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, "/gateway/"); ok {
		_, target, _, err := splitAddress(r, rest)
		if err != nil {
			return err
		}
		if isWebSocket(r) {
			return serveSocket(f.e, w, r, &actorInfo{ID: id}, target)
		}
		return serveRequest(f.e, w, r, &actorInfo{ID: id}, target)
	}
	if r.Method == http.MethodDelete && strings.HasPrefix(path, "/actors/") {
		return serveDestroy(f.e, w, r, &actorInfo{ID: id})
	}
	return errNoRoute
}
