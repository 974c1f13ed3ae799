package adminsock

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
)

// Dial connects to the process that has the store in the directory dir open. The caller closes the connection.
//
// Errors: ErrNoSocket; ErrUser; those of the network.
func Dial(ctx context.Context, dir string) (net.Conn, error) {
	dir, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	p, err := readPlace(dir)
	if err != nil {
		return nil, err
	}
	c, err := new(net.Dialer).DialContext(ctx, p.Network, p.Address)
	if err != nil {
		return nil, notThere(err)
	}
	if err = p.greet(c, dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// greet looks whose the other end is, or says the token.
func (p place) greet(c net.Conn, dir string) error {
	if p.Token != "" {
		_, err := io.WriteString(c, p.Token)
		return err
	}
	uid, err := peer(c)
	if err != nil {
		return err
	}
	return allowed(uid, owner(dir))
}

// refused says whether err is that nothing listens.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
