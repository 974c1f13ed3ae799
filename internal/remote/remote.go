// Package remote says from where an HTTP request comes, for servers that give each remote address a share.
package remote

import (
	"net/http"
	"net/netip"
)

// Addr returns the address that a request comes from; in IPv6 the first one of the network of 64 bits that a customer has.
// That of a Unix socket is the zero netip.Addr. Addr doesn't believe what a header says of other addresses.
func Addr(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr
}
