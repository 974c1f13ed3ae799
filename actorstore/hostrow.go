package actorstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// A hostRow is a host's lease as others see it. The host rewrites it to renew the
// lease, and checks what it was: who removes the row, or changes it, is noticed by the
// very next renewal.
type hostRow struct {
	Expires int64  // when the lease ends, Unix ms by the host's clock
	TTL     uint64 // ms that each renewal lasts
	Count   uint64 // of renewals: while it stands still, nothing was renewed
	Name    string
	// The process, by which a later one on the machine finds out that it is gone.
	// Machine is "" where that can't be told.
	Machine      string
	PID, Started uint64
	// Wanted are the actors that somebody else wants. The host fences them, and
	// says so by renewing without them.
	Wanted []ID
}

// maxWanted bounds how many actors of one host others may want at a time.
const maxWanted = 4096

func (h *hostRow) ttl() time.Duration { return time.Duration(h.TTL) * time.Millisecond }

// margin is what is kept from either end of a lease of the length ttl: clocks of
// different machines run at speeds that differ by far less.
func margin(ttl time.Duration) time.Duration { return ttl / 10 }

// wants says whether somebody else wants the actor.
func (h *hostRow) wants(id ID) bool { return slices.Contains(h.Wanted, id) }

func (h *hostRow) append(dst []byte) []byte {
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

func parseHostRow(id HostID, row []byte) (h hostRow, err error) {
	r, err := open(row, hostVersion, "host "+id.String())
	if err != nil {
		return hostRow{}, err
	}
	h.Expires, h.TTL, h.Count = r.I64(), r.U64(), r.U64()
	h.Name, h.Machine = r.String(), r.String()
	h.PID, h.Started = r.U64(), r.U64()
	if h.TTL == 0 || h.TTL > uint64(mostTTL.Milliseconds()) {
		r.Fail("a lease of %d ms", h.TTL)
	}
	if n := r.Len(maxWanted); n > 0 {
		h.Wanted = make([]ID, n)
		for i := range h.Wanted {
			copy(h.Wanted[i].UUID[:], r.Fixed(len(h.Wanted[i].UUID)))
			h.Wanted[i].Label = r.U16()
		}
	}
	if err := r.Done(); err != nil {
		return hostRow{}, fmt.Errorf("actorstore: host %s: %w: %w", id, err, ErrCorrupt)
	}
	return h, nil
}

// An owner is who has claimed an actor: a handle of a host.
type owner struct {
	Host  HostID
	Nonce [8]byte // the handle's, as in the ids of its commits
}

func (o *owner) append(dst []byte) []byte {
	dst = bare.AppendFixed(bare.AppendVersion(dst, ownerVersion), o.Host[:])
	return bare.AppendFixed(dst, o.Nonce[:])
}

func parseOwner(id ID, row []byte) (o owner, err error) {
	r, err := open(row, ownerVersion, "owner of actor "+id.String())
	if err != nil {
		return owner{}, err
	}
	copy(o.Host[:], r.Fixed(len(o.Host)))
	copy(o.Nonce[:], r.Fixed(len(o.Nonce)))
	if err := r.Done(); err != nil {
		return owner{}, fmt.Errorf("actorstore: owner of actor %s: %w: %w", id, err, ErrCorrupt)
	}
	return o, nil
}
