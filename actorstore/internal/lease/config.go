package lease

import (
	"context"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// Options are what a user says of a host: actorstore.HostOptions, with no zero field but Name and Sole.
type Options struct {
	Name         string
	Sole         bool
	TTL          time.Duration
	MaxClockSkew time.Duration
}

// Config is what a Hosts needs of its store. Its functions are safe for concurrent use.
type Config struct {
	Options
	Shown  string // the name that others are told
	Engine kv.Engine
	// Now is the wall clock, in milliseconds since the Unix epoch.
	Now func() int64
	// Closing is closed when the store is, and Closed is the error of what is asked after that.
	Closing <-chan struct{}
	Closed  error
	// InUse returns the error that another host has the actor.
	InUse func(host [16]byte, row *layout.Host) error
	// Yield returns what lands with the removal of the owner row of an actor that the host doesn't have
	// open, as the store says.
	Yield func(ctx context.Context, id layout.ID) ([]kv.Op, error)
}

// check says why no call may go on.
func (c *Config) check() error {
	select {
	case <-c.Closing:
		return c.Closed
	default:
		return nil
	}
}

// every is how often a lease is renewed.
func (c *Config) every() time.Duration { return c.TTL / 3 }

// A base is what the parts of a Hosts have in common.
type base struct {
	Config
	clock steady
}
