package conn

import (
	"fmt"
	"slices"
	"sync"

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

// A Conn is a connection. What its methods return stays readable when it is gone; to
// change it then is ErrGone.
type Conn struct {
	set *Set

	// stating is held by who changes the state. It is taken before set.mu.
	stating sync.Mutex

	// All else is guarded by set.mu, but for what never changes: ephemeral, and of rec the
	// id, parameters, gateway, request, path and headers. State and the list of
	// subscriptions are replaced, and never changed in place.
	ephemeral bool
	rec       Record
	transport any
	attached  uint64 // counts what was attached

	gone     bool // disconnected
	leaving  bool // a batch that isn't settled disconnects it
	deleting bool // that batch is being committed

	prior batch.Prior // what is stored under its key

	// received counts the messages that came in, missing ones too: what rec.Server is,
	// since the connection is in memory, without wrapping around. acked is the count that
	// OnAck was told, or will be; with unacked it must be told again.
	received, acked uint64
	unacked         bool
	// buffered is what came in and no save has.
	buffered buffered

	tries     int   // failed deletes
	deleteErr error // the last one's
}

func (c *Conn) request() request { return request{c.rec.Gateway, c.rec.Request} }

// Create makes a connection with a new id and indices of 0. It is saved soon, unless it
// is ephemeral. Info's slices are not retained.
//
// Errors: ErrInfo, ErrValue, ErrTooLarge; ErrExists if a connection that hibernates has
// the gateway and request; ErrClosed, and the actor's.
func (s *Set) Create(info Info) (*Conn, error) {
	c := &Conn{set: s, ephemeral: info.Ephemeral, prior: batch.Absent, rec: Record{
		Gateway: info.Gateway, Request: info.Request, Path: info.Path,
		Headers: slices.Clone(info.Headers), Parameters: orUndefined(info.Parameters), State: orUndefined(info.State),
	}}
	if info.Path == "" && !info.Ephemeral {
		return nil, fmt.Errorf("%w: a connection that hibernates needs a path", ErrInfo)
	}
	if err := c.rec.Validate(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, ErrClosed
	}
	if err := s.checkLocked(); err != nil {
		return nil, err
	}
	if other := s.requests[c.request()]; len(other) > 0 && !info.Ephemeral {
		return nil, fmt.Errorf("%w: %s has gateway %s, request %s", ErrExists, other[0].rec.ID, info.Gateway, info.Request)
	}
	c.rec.ID = s.unusedID()
	if err := c.fits(&c.rec); err != nil {
		return nil, err
	}
	s.enter(c)
	s.count(metricCreated, 1)
	c.mark(s.opts.Interval)
	return c, nil
}

func orUndefined(value []byte) []byte {
	if value == nil {
		return undefined
	}
	return slices.Clone(value)
}

// unusedID returns an id under which nothing is stored.
//
// +checklocks:s.mu
func (s *Set) unusedID() ID {
	for {
		id := newID()
		_, there := s.findQuarantinedLocked(id)
		if s.conns[id] == nil && s.deletes[id] == nil && !there {
			return id
		}
	}
}

// fits says whether rec, which c is to become, can be stored: one record that can't would
// keep all others from being saved with it.
func (c *Conn) fits(rec *Record) error {
	if n := rec.Size(); n > c.set.limit && !c.ephemeral {
		return &SizeError{rec.ID, n, c.set.limit}
	}
	return nil
}

// change runs fn, which changes c, under the lock, unless nothing may change any more.
func (c *Conn) change(fn func() error) error {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkLocked(); err != nil {
		return err
	}
	if c.gone {
		return fmt.Errorf("%w: %s", ErrGone, c.rec.ID)
	}
	return fn()
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

// Gone reports whether the connection was disconnected.
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
