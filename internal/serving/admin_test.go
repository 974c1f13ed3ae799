package serving

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestAdminConns: the API has a number of connections at most; one more ends the one that has been idle for longest. That one is the first, which asks
// for nothing: when a server has a connection for idle again, its client may already have the answer.
func TestAdminConns(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("read graphs 0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := &AdminFlags{address: "127.0.0.1:0", tokenFile: tokens}
	server, err := flags.Server(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	store, err := storeurl.Open(t.Context(), "mem:", greenroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end, err := server.Listen(t.Context(), store, "mem:")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(end(), store.Close()); err != nil {
			t.Error(err)
		}
	}()
	_, at, _ := strings.Cut(server.At, "http://")
	at, _, _ = strings.Cut(at, "/")
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", at)
		if err == nil {
			err = c.SetDeadline(time.Now().Add(testkit.Patience(20 * time.Second)))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c, bufio.NewReader(c)
	}
	ask := func(c net.Conn, in *bufio.Reader) {
		t.Helper()
		if _, err := io.WriteString(c, "GET /v1/process HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	_, in := dial()
	var last net.Conn
	var lastIn *bufio.Reader
	for range maxAdminConns {
		last, lastIn = dial()
		ask(last, lastIn)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("the first connection, which was idle for longest: %v, want %v", err, io.EOF)
	}
	ask(last, lastIn)
}
