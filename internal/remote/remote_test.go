package remote_test

import (
	"net/http"
	"testing"

	"github.com/greenroomdb/greenroom/internal/remote"
)

// TestAddr: the clients of one network of IPv6 are one.
func TestAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1", "[::ffff:127.0.0.1]:80": "127.0.0.1", "[2001:db8::1:2:3:4%eth0]:80": "2001:db8::", "pipe": "invalid IP",
	} {
		if got := remote.Addr(&http.Request{RemoteAddr: addr}).String(); got != want {
			t.Errorf("%s: %s, not %s", addr, got, want)
		}
	}
}
