package front

import (
	"net/http"

	"github.com/greenroomdb/greenroom/host"
)

const (
	keyHeader      = "Idempotency-Key"      // of a request, for host.Call.IdempotencyKey
	replayedHeader = "Idempotency-Replayed" // of an answer that was stored by a call before
)

// idempotencyKey returns that of a request, "" for none. An empty key and a second one are refused, since the client relies on what it sent.
func idempotencyKey(r *http.Request) (string, error) {
	switch keys := r.Header.Values(keyHeader); {
	case len(keys) == 0:
		return "", nil
	case len(keys) == 1 && keys[0] != "":
		return keys[0], nil // Host.Do looks at its characters
	}
	return "", host.ErrIdempotencyKey
}
