package actorstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
)

// HostOptions say what a Store is to the other hosts of an engine that several may
// use at once (one that isn't a kv.Sharer). The zero value is fine. On other engines,
// and for a Store that only reads, they mean nothing, and nothing is written.
type HostOptions struct {
	// Name is what others are told about the owner of an actor; "" means os.Hostname.
	//
	// One that is given must belong to this machine alone. It is then a proof, too:
	// a process that starts under the name of one that was killed looks whether that
	// still runs, and takes its actors at once if it doesn't.
	Name string
	// Sole promises that no two processes run under Name at the same time, because
	// something outside makes sure of it. A process that starts under a name then
	// takes the actors of the one before at once, on any machine. If the promise is
	// broken data stays whole, but the process before may answer reads from its
	// memory until its lease is over.
	Sole bool
	// TTL is how long a lease lasts that is not renewed; 0 means 10 seconds, the
	// least is 10 milliseconds and the most an hour. It is how long the actors of a
	// host that died are out of reach, and how long an owner answers reads from
	// memory when it can't reach the engine. A renewal is one small commit of the
	// Store, three times in a TTL.
	TTL time.Duration
	// MaxClockSkew bounds by how much the clocks of two hosts differ; 0 means one
	// minute. It lets a host that died long ago be told from its row alone; one that
	// died just now is given up when its row hasn't changed for a TTL, whatever the
	// clocks say. Below 0 no clock of another host is believed.
	MaxClockSkew time.Duration
}

const (
	defaultTTL  = 10 * time.Second
	defaultSkew = time.Minute
	leastTTL    = 10 * time.Millisecond
)

// orDefault returns o with its zero fields replaced.
func (o HostOptions) orDefault() (HostOptions, error) {
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.MaxClockSkew == 0 {
		o.MaxClockSkew = defaultSkew
	}
	switch {
	case o.TTL < leastTTL || o.TTL > layout.MaxTTL:
		return o, fmt.Errorf("a lease of %v: it lasts from %v to %v", o.TTL, leastTTL, layout.MaxTTL)
	case o.Sole && o.Name == "":
		return o, errors.New("HostOptions.Sole is about a Name, and there is none")
	case o.Name == "":
	default:
		return o, checkHostName(o.Name)
	}
	return o, nil
}

func checkHostName(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	return nil
}

// shownName is the name that others are told.
func (o *HostOptions) shownName() string {
	if o.Name != "" {
		return o.Name
	}
	if name, err := os.Hostname(); err == nil && checkName(name) == nil {
		return name
	}
	return "unknown"
}

// A HostInfo is what the store has recorded about a host that may own actors.
type HostInfo struct {
	ID   HostID
	Name string
	// Expires is when the lease ends unless it is renewed, by the host's own clock,
	// and TTL how long each renewal lasts.
	Expires time.Time
	TTL     time.Duration
	// Address is where others reach the API of the host, as Store.Advertise says; "" if it hasn't told them one.
	Address string
	Offer   Offer
	// Here says that the host is a process of this machine; false also where that can't be told.
	Here bool
}

// An Offer is what a host does for the other hosts of its store, as Store.Offer says.
type Offer struct {
	// Address is where the host takes calls of other hosts, as CheckAddress says; "" if it takes none.
	Address string
	// Leaving says that the host is about to end: it takes no more actors.
	Leaving bool
	// Types are the types of actors that the host runs, at most 1,024, in the order of their names.
	Types []OfferedType
}

// An OfferedType is a type of actors that a host runs.
type OfferedType struct {
	Name   string // 1 to 256 bytes
	Schema uint32 // the newest version of its database that the host knows, 0 for none
}

// Runs returns the type of that name, nil if the host doesn't run it.
func (o *Offer) Runs(name string) *OfferedType {
	if i, ok := slices.BinarySearchFunc(o.Types, name, func(t OfferedType, name string) int { return strings.Compare(t.Name, name) }); ok {
		return &o.Types[i]
	}
	return nil
}

// CheckAddress returns an error if Store.Advertise can't tell others that address.
func CheckAddress(address string) error { return layout.CheckAddress(address) }

// join returns the place of a store with these options among the hosts of its engine. c has all
// that the options don't say.
func (o HostOptions) join(c lease.Config) (*lease.Hosts, error) {
	o, err := o.orDefault()
	if err != nil {
		return nil, err
	}
	c.Name, c.Shown, c.Sole, c.TTL, c.MaxClockSkew = o.Name, o.shownName(), o.Sole, o.TTL, o.MaxClockSkew
	c.InUse = func(host [16]byte, row *layout.Host) error { return &InUseError{Host: hostInfo(host, row)} }
	return lease.New(c), nil
}

// An InUseError says which host has the actor. It wraps ErrInUse.
type InUseError struct {
	Host HostInfo
}

// Error names the host, and until when its lease is good.
func (e *InUseError) Error() string {
	return fmt.Sprintf("%v: host %q (%s) has it, by a lease that ends at %s unless it is renewed",
		ErrInUse, e.Host.Name, e.Host.ID, e.Host.Expires.UTC().Format("15:04:05.000 MST"))
}

// Unwrap returns ErrInUse.
func (e *InUseError) Unwrap() error { return ErrInUse }

func hostInfo(id HostID, h *layout.Host) HostInfo {
	return HostInfo{ID: id, Name: h.Name, Expires: time.UnixMilli(h.Expires), TTL: h.Lease(), Address: h.Address, Offer: offer(&h.Offer), Here: lease.Here(h)}
}

func offer(o *layout.Offer) Offer {
	r := Offer{Address: o.Address, Leaving: o.Leaving}
	for _, t := range o.Types {
		r.Types = append(r.Types, OfferedType(t))
	}
	return r
}

// row returns the offer as it is stored.
func (o *Offer) row() layout.Offer {
	r := layout.Offer{Address: o.Address, Leaving: o.Leaving}
	for _, t := range o.Types {
		r.Types = append(r.Types, layout.OfferedType(t))
	}
	return r
}

// Hosts yields all hosts that have a lease, and those that died and are yet to be
// cleared away, in no useful order. Else as Actors.
func (r *registry) Hosts(ctx context.Context) iter.Seq2[HostInfo, error] {
	return func(yield func(HostInfo, error) bool) {
		start, end := layout.RowsRange(layout.KindHost)
		for e, err := range r.pages(ctx, start, end) {
			var info HostInfo
			if err == nil {
				info, err = parseHost(e.Key, e.Value)
			}
			if err != nil {
				yield(HostInfo{}, fmt.Errorf("actorstore: list hosts: %w", err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// parseHost decodes key and value of a host's row.
func parseHost(key, value []byte) (HostInfo, error) {
	id, ok := layout.ParseHostKey(key)
	if !ok {
		return HostInfo{}, fmt.Errorf("row %x is no host: %w", key, ErrCorrupt)
	}
	row, err := layout.ParseHost(id, value)
	return hostInfo(id, &row), err
}

// Owner returns the host that has the actor open, as far as the store knows, the zero
// HostInfo when none has: the actor was closed, its host has gone, or it is unknown
// in the first place; also on an engine that one process has open. A host is alive until
// Expires and may be after that. It reads the actor's record and the host's row.
func (r *registry) Owner(ctx context.Context, id ID) (HostInfo, error) {
	if err := r.check(); err != nil {
		return HostInfo{}, err
	}
	info, err := r.loadOwner(ctx, id)
	if err != nil {
		return HostInfo{}, fmt.Errorf("actorstore: owner of actor %s: %w", id, err)
	}
	return info, nil
}

func (r *registry) loadOwner(ctx context.Context, id ID) (HostInfo, error) {
	rec, err := loadRecord(ctx, r.eng, id)
	if err != nil || rec.owner == nil {
		return HostInfo{}, err
	}
	o, err := layout.ParseOwner(layout.ID(id), rec.owner)
	if err != nil {
		return HostInfo{}, err
	}
	h, _, err := lease.Read(ctx, r.eng, o.Host)
	switch {
	case errors.Is(err, ErrNotFound):
		return HostInfo{}, nil
	case err != nil:
		return HostInfo{}, err
	}
	return hostInfo(o.Host, &h), nil
}
