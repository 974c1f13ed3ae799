package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Config is what a Hosts needs of its store. Its functions are safe for concurrent use.
type Config struct {
	// These are as in actorstore.HostOptions, without its defaults. Shown is the name that others
	// are told.
	Name, Shown       string
	Sole              bool
	TTL, MaxClockSkew time.Duration

	Engine kv.Engine
	// Now is the wall clock, in milliseconds since the Unix epoch.
	Now func() int64
	// Closing is closed when the store is, and Check returns an error from then on.
	Closing <-chan struct{}
	Check   func() error
	// InUse returns the error that another host has the actor.
	InUse func(host [16]byte, row *layout.Host) error
	// Yield returns what lands with the removal of the owner row of an actor that the host doesn't have
	// open, as the store says.
	Yield func(ctx context.Context, id layout.ID) (Index, error)
}

// An Index is what lands with the removal of an owner row, of the index of actors to be woken, and the checks on which that rests.
type Index struct {
	Checks []kv.Check
	Ops    []kv.Op
}

// every is how often a lease is renewed.
func (c *Config) every() time.Duration { return c.TTL / 3 }

// A base is what the parts of a Hosts have in common.
type base struct {
	Config
	clock steady
	said  atomic.Pointer[said] // see Hosts.Announce; it isn't nil
}

// said is what a store's hosts say of themselves.
type said struct {
	layout.Announcement
	n uint64 // counts the changes
}
