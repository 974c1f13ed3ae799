package serving

import (
	"net"
	"syscall"
)

// A quickAcks is a listener whose connections acknowledge at once what they read. Linux waits 40 ms for something to send with an acknowledgement,
// and a program of RivetKit 2.3, which leaves Nagle's algorithm on, sends the second of two small messages only when the first is acknowledged.
// See tcp(7), TCP_QUICKACK: it doesn't last, so it is set again with each read.
type quickAcks struct{ net.Listener }

// Accept implements net.Listener.
func (l quickAcks) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c, nil
	}
	return &quickConn{tcp, raw}, nil
}

// A quickConn is a connection of quickAcks.
type quickConn struct {
	*net.TCPConn
	raw syscall.RawConn
}

// Read implements net.Conn.
func (c *quickConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if n > 0 { // an error costs 40 ms, and the next read tells of what is wrong with the connection
		_ = c.raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
		})
	}
	return n, err
}
