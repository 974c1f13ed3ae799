//go:build !linux

package serving

import "net"

// A quickAcks is a listener: other systems than Linux wait less long with acknowledgements, or can't be told not to.
type quickAcks struct{ net.Listener }
