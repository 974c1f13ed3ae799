package front

import (
	"slices"

	"github.com/greenroomdb/greenroom/host/internal/wire"
)

// bearerProtocol begins the subprotocol in which a browser sends its bearer token, in
// base64url without padding, as it can set no header of a WebSocket. It is never chosen.
const bearerProtocol = "greenroom.bearer."

// chooseProtocol returns the form of a socket's messages, and what is chosen of what the client
// offers: nothing if it offers nothing.
func chooseProtocol(offered []string) (as media, chosen []string, err error) {
	offered = slices.DeleteFunc(offered, func(p string) bool {
		return len(p) > len(bearerProtocol) && p[:len(bearerProtocol)] == bearerProtocol
	})
	for _, p := range offered {
		switch p {
		case wire.ProtocolJSON:
			return mediaJSON, []string{p}, nil
		case wire.ProtocolCBOR:
			return mediaCBOR, []string{p}, nil
		}
	}
	if len(offered) > 0 {
		return 0, nil, errProtocol
	}
	return mediaJSON, nil, nil
}
