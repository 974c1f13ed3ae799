package peers

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/greenroomdb/greenroom/internal/signed"
)

// ReasonHeader is the header of an answer that says why nothing was done.
const ReasonHeader = "Greenroom-Reason"

// Reasons for which nothing was done.
const (
	ReasonSignature = "signature"
	ReasonNotMine   = "another-host"
	ReasonSkew      = "clock"
	ReasonReplayed  = "replayed"
	ReasonBusy      = "busy"
	ReasonTooLarge  = "too-large"
	ReasonRequest   = "request"
)

// Verify verifies a request for the process self, which is the id of its actorstore.Store, or refuses it. The body is verified as it is read, as signed.Keys.Verify says.
func (p *Peers) Verify(w http.ResponseWriter, r *http.Request, self [16]byte) (*signed.Statement, bool) {
	s, err := p.keys.Verify(r.Context(), r, self)
	switch {
	case err == nil && s.Hop == 1:
		return s, true
	case err == nil:
		p.Refuse(w, r, http.StatusBadRequest, ReasonRequest, errors.New("a host forwards once"))
	case errors.Is(err, signed.ErrNotMine):
		p.Refuse(w, r, http.StatusMisdirectedRequest, ReasonNotMine, err)
	case errors.Is(err, signed.ErrSkew):
		p.Refuse(w, r, http.StatusUnauthorized, ReasonSkew, err)
	case errors.Is(err, signed.ErrReplayed):
		p.Refuse(w, r, http.StatusUnauthorized, ReasonReplayed, err)
	case errors.Is(err, signed.ErrSignature):
		p.Refuse(w, r, http.StatusUnauthorized, ReasonSignature, err)
	default:
		p.Refuse(w, r, http.StatusServiceUnavailable, ReasonBusy, err)
	}
	return nil, false
}

// Refuse answers a request, of which nothing was done, with a reason for its sender. err is for the log.
func (p *Peers) Refuse(w http.ResponseWriter, r *http.Request, status int, reason string, err error) {
	p.opts.Logger.Warn("peers: a request is refused", slog.String("from", r.RemoteAddr), slog.String("reason", reason), slog.Any("error", err))
	w.Header().Set(ReasonHeader, reason)
	w.Header().Set("Connection", "close")
	w.WriteHeader(status)
}
