package conn

import (
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// Info is what a connection begins with.
type Info struct {
	// Ephemeral: the connection is never stored. It then needs nothing of what follows.
	Ephemeral bool
	// Gateway and Request are how Find finds it.
	Gateway GatewayID
	Request RequestID
	// Path and Headers are those of the request that made it. A connection that hibernates
	// has a path; no two headers have one name.
	Path    string
	Headers []Header
	// Parameters and State are one value in CBOR each; nil means undefined. Encode makes
	// them of Go's values.
	Parameters, State []byte
}

// A Conn is a connection, as the batches that have landed left it; a Tx changes it. What
// its methods return stays readable when it is gone.
type Conn struct {
	set *Set

	// All else is guarded by set.mu, but for what never changes: ephemeral, and of rec the
	// id, parameters, gateway, request, path and headers. State and the list of
	// subscriptions are replaced, and never changed in place.
	ephemeral bool
	rec       Record
	transport any
	attached  uint64 // counts what was attached

	gone  bool        // disconnected, or never made
	prior batch.Prior // what is stored under its key
}

func (c *Conn) request() request { return request{c.rec.Gateway, c.rec.Request} }

func orUndefined(value []byte) []byte {
	if value == nil {
		return undefined
	}
	return slices.Clone(value)
}

func exists(c *Conn) error {
	return fmt.Errorf("%w: %s has gateway %s, request %s", ErrExists, c.rec.ID, c.rec.Gateway, c.rec.Request)
}

// fits returns a *SizeError if rec, which c is to become, has no room under one key. It is
// asked when a change is staged, so that the caller is told, and again in the
// commit, when the changes of other batches are known.
func (c *Conn) fits(rec *Record) error {
	if n := rec.Size(); n > c.set.limit && !c.ephemeral {
		return &SizeError{rec.ID, n, c.set.limit}
	}
	return nil
}

// Attach gives the connection a transport, in place of what it had; a client that is there
// again needs nothing else. The func that it returns takes it away again, unless another
// was attached since. Errors: ErrGone, ErrClosed, and the actor's.
func (c *Conn) Attach(transport any) (detach func(), err error) {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(); err != nil {
		return nil, err
	}
	if c.gone {
		return nil, fmt.Errorf("%w: %s", ErrGone, c.rec.ID)
	}
	c.attached++
	c.transport = transport
	n := c.attached
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.attached == n {
			c.transport = nil
		}
	}, nil
}

// Transport returns what was attached, nil if the client isn't there.
func (c *Conn) Transport() any {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.transport
}

// ID returns the connection's id.
func (c *Conn) ID() ID { return c.rec.ID }

// Ephemeral reports whether the connection is never stored.
func (c *Conn) Ephemeral() bool { return c.ephemeral }

// Gateway returns the id of the gateway that the client is connected to.
func (c *Conn) Gateway() GatewayID { return c.rec.Gateway }

// Request returns the id of the connection at its gateway.
func (c *Conn) Request() RequestID { return c.rec.Request }

// Path returns the path of the request that made the connection.
func (c *Conn) Path() string { return c.rec.Path }

// Headers returns the headers of that request. The slice must not be changed.
func (c *Conn) Headers() []Header { return c.rec.Headers }

// Gone reports whether the connection was disconnected, or the batch that was to make it
// has failed.
func (c *Conn) Gone() bool {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.gone
}

// Record returns the connection as it would be stored now. The slices in it must not be
// changed, and don't change.
func (c *Conn) Record() Record {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	return c.rec
}
