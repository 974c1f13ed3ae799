package adminsock

import (
	"net"

	"golang.org/x/sys/unix"
)

// hasPeers: the system says whose the other end is.
const hasPeers = true

// peer returns the user id of the process at the other end of a socket, as it was when that was connected.
//
// https://man7.org/linux/man-pages/man7/unix.7.html, SO_PEERCRED
func peer(c net.Conn) (uid int, err error) {
	err = onSocket(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}
