package serving

import (
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestQuickAck: behind each read the kernel acknowledges at once, also behind a write, after which it would wait for the next one.
func TestQuickAck(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { testkit.Must(t, ln.Close()) }()
	client, err := net.Dial("tcp", ln.Addr().String())
	testkit.Must(t, err)
	defer func() { testkit.Must(t, client.Close()) }()
	server, err := quickAcks{ln}.Accept()
	testkit.Must(t, err)
	defer func() { testkit.Must(t, server.Close()) }()
	quick := func() (on int) {
		raw, err := server.(syscall.Conn).SyscallConn()
		testkit.Must(t, err)
		testkit.Must(t, raw.Control(func(fd uintptr) { on, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK) }))
		testkit.Must(t, err)
		return on
	}
	b := make([]byte, 1)
	waits := false
	for range 20 {
		testkit.Must(t, testkit.Second(client.Write(b)))
		testkit.Must(t, testkit.Second(io.ReadFull(server, b)))
		if quick() != 1 {
			t.Error("it waits behind a read")
		}
		testkit.Must(t, testkit.Second(server.Write(b)))
		testkit.Must(t, testkit.Second(io.ReadFull(client, b)))
		waits = waits || quick() == 0
	}
	if !waits {
		t.Error("it doesn't wait behind a write either: this test shows nothing")
	}
}
