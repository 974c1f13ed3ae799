package layout

import (
	"fmt"
	"slices"
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
	// Wanted are the actors that other hosts want, at most MaxWanted. The host fences
	// them, and says so by renewing without them.
	Wanted []ID
}

// Bounds of a Host.
const (
	MaxTTL    = time.Hour
	MaxWanted = 4096
)

// Lease returns TTL as a duration.
func (h *Host) Lease() time.Duration { return time.Duration(h.TTL) * time.Millisecond }

// Wants reports whether another host wants the actor.
func (h *Host) Wants(id ID) bool { return slices.Contains(h.Wanted, id) }

// Append appends the row.
func (h *Host) Append(dst []byte) []byte {
	dst = bare.AppendI64(bare.AppendVersion(dst, hostVersion), h.Expires)
	dst = bare.AppendU64(bare.AppendU64(dst, h.TTL), h.Count)
	dst = bare.AppendString(bare.AppendString(dst, h.Name), h.Machine)
	dst = bare.AppendU64(bare.AppendU64(dst, h.PID), h.Started)
	dst = bare.AppendUint(dst, uint64(len(h.Wanted)))
	for _, id := range h.Wanted {
		dst = bare.AppendU16(bare.AppendFixed(dst, id.UUID[:]), id.Label)
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
	if err := r.Done(); err != nil {
		return Host{}, fmt.Errorf("actorstore: %s: %w: %w", what, err, kv.ErrCorrupt)
	}
	return h, nil
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
