//go:build linux || darwin || freebsd

package adminsock

import (
	"errors"
	"net"
)

// onSocket calls fn with the descriptor of a connection.
func onSocket(c net.Conn, fn func(fd int) error) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return errNoPeer
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = raw.Control(func(fd uintptr) { ferr = fn(int(fd)) })
	return errors.Join(err, ferr)
}
