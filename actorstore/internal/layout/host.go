package layout

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/kv"
)

// A Host is a host's lease as others see it. The host rewrites the row to renew the
// lease, and checks what it was: if another host removes the row, or changes it, the
// very next renewal notices.
type Host struct {
	Expires int64  // when the lease ends, in ms by the host's clock
	TTL     uint64 // ms that each renewal lasts, from 1 to MaxTTL
	Count   uint64 // of renewals: while it stands still, nothing was renewed
	Name    string
	// The process, by which a later one on the machine finds out that it is gone.
	// Machine is "" where that can't be told.
	Machine      string
	PID, Started uint64
	Announcement
	// Wanted are the actors that other hosts want, at most MaxWanted. The host fences
	// them, and says so by renewing without them.
	Wanted []ID
}

// Bounds of a Host.
const (
	MaxTTL      = time.Hour
	MaxWanted   = 4096
	MaxAddress  = 256 // bytes
	MaxTypes    = 1024
	MaxTypeName = 256 // bytes
)

// An Announcement is what a host tells the others of itself.
type Announcement struct {
	// Address is where the host's API listens, as CheckAddress says; "" for nowhere that others know of.
	Address string
	Offer   Offer
}

// An Offer is what a host does for the others.
type Offer struct {
	// Address is where the host takes calls of other hosts, as CheckAddress says; "" if it takes none.
	Address string
	// Leaving says that the host is about to end: it takes no more actors.
	Leaving bool
	// Types are the types of actors that the host runs, at most MaxTypes, in the order of their names.
	Types []OfferedType
}

// An OfferedType is a type of actors that a host runs.
type OfferedType struct {
	Name   string // 1 to MaxTypeName bytes
	Schema uint32 // the newest version of its database that the host knows, 0 for none
}

// none says whether a host does nothing for the others.
func (o *Offer) none() bool { return o.Address == "" && !o.Leaving && len(o.Types) == 0 }

// Check returns an error if others can't be told of an offer.
func (o *Offer) Check() error {
	if o.Address != "" {
		if err := CheckAddress(o.Address); err != nil {
			return err
		}
	}
	if len(o.Types) > MaxTypes {
		return fmt.Errorf("%d types, limit %d", len(o.Types), MaxTypes)
	}
	for i := range o.Types {
		switch name := o.Types[i].Name; {
		case name == "" || len(name) > MaxTypeName:
			return fmt.Errorf("the name of a type has %d bytes, 1 to %d are allowed", len(name), MaxTypeName)
		case i > 0 && o.Types[i-1].Name >= name:
			return fmt.Errorf("the type %q is not in its place", name)
		}
	}
	return nil
}

// Equal reports whether two announcements say the same.
func (a *Announcement) Equal(b *Announcement) bool {
	return a.Address == b.Address && a.Offer.Address == b.Offer.Address && a.Offer.Leaving == b.Offer.Leaving && slices.Equal(a.Offer.Types, b.Offer.Types)
}

// CheckAddress returns an error if others can't be told that address: it is HOST:PORT, or https://HOST:PORT behind a proxy that
// speaks TLS, with a number for the port and at most MaxAddress bytes.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "https://"))
	if err != nil {
		return fmt.Errorf("%.80q is not HOST:PORT", address)
	}
	plain := func(r rune) bool {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune(".-_:", r)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case len(address) > MaxAddress:
		return fmt.Errorf("an address of %d bytes, limit %d", len(address), MaxAddress)
	case host == "" || strings.ContainsFunc(host, func(r rune) bool { return !plain(r) }):
		return fmt.Errorf("%q has no host that others can dial", address)
	case err != nil || n == 0:
		return fmt.Errorf("%q has no port from 1 to 65535", address)
	}
	return nil
}

// Lease returns TTL as a duration.
func (h *Host) Lease() time.Duration { return time.Duration(h.TTL) * time.Millisecond }

// Wants reports whether another host wants the actor.
func (h *Host) Wants(id ID) bool { return slices.Contains(h.Wanted, id) }

// Append appends the row, of the oldest version that can say it, which older hosts read, too.
func (h *Host) Append(dst []byte) []byte {
	version := uint16(hostVersion)
	switch {
	case h.Offer.none() && h.Address == "":
		version = hostVersionPlain
	case h.Offer.none():
		version = hostVersionAddress
	}
	dst = bare.AppendI64(bare.AppendVersion(dst, version), h.Expires)
	dst = bare.AppendU64(bare.AppendU64(dst, h.TTL), h.Count)
	dst = bare.AppendString(bare.AppendString(dst, h.Name), h.Machine)
	dst = bare.AppendU64(bare.AppendU64(dst, h.PID), h.Started)
	dst = bare.AppendUint(dst, uint64(len(h.Wanted)))
	for _, id := range h.Wanted {
		dst = bare.AppendU16(bare.AppendFixed(dst, id.UUID[:]), id.Label)
	}
	if version >= hostVersionAddress {
		dst = bare.AppendString(dst, h.Address)
	}
	if version < hostVersion {
		return dst
	}
	dst = bare.AppendBool(bare.AppendString(dst, h.Offer.Address), h.Offer.Leaving)
	dst = bare.AppendUint(dst, uint64(len(h.Offer.Types)))
	for _, t := range h.Offer.Types {
		dst = bare.AppendUint(bare.AppendString(dst, t.Name), uint64(t.Schema))
	}
	return dst
}

// ParseHost decodes the row of a host, whose id the errors name.
func ParseHost(host [16]byte, row []byte) (h Host, err error) {
	what := fmt.Sprintf("host %x", host)
	r, err := open(row, hostVersion, what)
	if err != nil {
		return Host{}, err
	}
	h.Expires, h.TTL, h.Count = r.I64(), r.U64(), r.U64()
	h.Name, h.Machine = r.String(), r.String()
	h.PID, h.Started = r.U64(), r.U64()
	if h.TTL == 0 || h.TTL > uint64(MaxTTL.Milliseconds()) {
		r.Fail("a lease of %d ms", h.TTL)
	}
	if n := r.Len(MaxWanted); n > 0 {
		h.Wanted = make([]ID, n)
		for i := range h.Wanted {
			copy(h.Wanted[i].UUID[:], r.Fixed(len(h.Wanted[i].UUID)))
			h.Wanted[i].Label = r.U16()
		}
	}
	version, _, _ := bare.Version(row) // open has looked at it
	if version >= hostVersionAddress {
		h.Address = r.String()
		if err := CheckAddress(h.Address); err != nil && (version == hostVersionAddress || h.Address != "") {
			r.Fail("%v", err)
		}
	}
	if version == hostVersion {
		h.Offer.read(r)
	}
	if err := r.Done(); err != nil {
		return Host{}, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	return h, nil
}

// read reads an offer, which isn't none.
func (o *Offer) read(r *bare.Reader) {
	o.Address, o.Leaving = r.String(), r.Bool()
	if n := r.Len(MaxTypes); n > 0 {
		o.Types = make([]OfferedType, n)
		for i := range o.Types {
			o.Types[i].Name = r.String()
			schema := r.Uint()
			if o.Types[i].Schema = uint32(schema); schema > math.MaxUint32 {
				r.Fail("a schema of version %d", schema)
			}
		}
	}
	if err := o.Check(); err != nil {
		r.Fail("%v", err)
	} else if o.none() {
		r.Fail("an offer of nothing")
	}
}

// An Owner is the claim of an actor: by a handle of a host.
type Owner struct {
	Host  [16]byte
	Nonce [8]byte // the handle's, as in the ids of its commits
}

// Append appends the row.
func (o *Owner) Append(dst []byte) []byte {
	dst = bare.AppendFixed(bare.AppendVersion(dst, ownerVersion), o.Host[:])
	return bare.AppendFixed(dst, o.Nonce[:])
}

// ParseOwner decodes the row of an actor's owner; id is the actor's, for the errors.
func ParseOwner(id ID, row []byte) (o Owner, err error) {
	r, err := open(row, ownerVersion, "owner of actor "+id.String())
	if err != nil {
		return Owner{}, err
	}
	copy(o.Host[:], r.Fixed(len(o.Host)))
	copy(o.Nonce[:], r.Fixed(len(o.Nonce)))
	if err := r.Done(); err != nil {
		return Owner{}, fmt.Errorf("actorstore: owner of actor %s: %w: %w", id, err, kv.ErrCorrupt)
	}
	return o, nil
}
