package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// Protocol is the subprotocol that is chosen if a client offers it.
const Protocol = "rivet"

// IsWebSocket reports whether a request wants to become a WebSocket.
func IsWebSocket(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Upgrade"), func(v string) bool { return strings.EqualFold(v, "websocket") })
}

// Accept takes the WebSocket of a request, whose origin the Gateway has looked at. If it fails the request is answered.
func Accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{Protocol}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
}
