//go:build !linux && !darwin && !freebsd

package adminsock

import "net"

// hasPeers: connections on this system say a token.
const hasPeers = false

// peer returns errNoPeer.
func peer(net.Conn) (int, error) { return 0, errNoPeer }
