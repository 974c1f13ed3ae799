package tuple

import (
	"encoding/binary"
	"math"
)

// A Versionstamp is a place in the order of commits. Transaction is set by the
// store: 8 bytes of commit version and 2 bytes of order within it, both
// big-endian. User orders what one transaction writes.
type Versionstamp struct {
	Transaction [10]byte
	User        uint16
}

// incompleteTransaction stands for a transaction part that isn't known before
// the commit.
var incompleteTransaction = [10]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// IncompleteVersionstamp returns a versionstamp whose transaction part the store
// fills in at commit, see PackWithVersionstamp.
func IncompleteVersionstamp(user uint16) Versionstamp {
	return Versionstamp{incompleteTransaction, user}
}

// Incomplete reports whether the store has yet to fill in v's transaction part.
func (v Versionstamp) Incomplete() bool { return v.Transaction == incompleteTransaction }

// PackWithVersionstamp returns prefix and the encoding of t behind it, followed by
// the offset of t's incomplete versionstamp in that key as 4 bytes little-endian.
// It is the form in which FoundationDB takes a versionstamped key; the store cuts
// the offset off and fills in 10 bytes there. A tuple with no incomplete
// versionstamp, or with several, is ErrUnsupported.
func PackWithVersionstamp(prefix []byte, t Tuple) ([]byte, error) {
	p := packer{dst: append(make([]byte, 0, len(prefix)+64), prefix...)}
	if err := p.tuple(t, 0); err != nil {
		return nil, err
	}
	if p.stamps != 1 {
		return nil, unsupported("tuple with %d incomplete versionstamps, want 1", p.stamps)
	}
	if uint64(p.stampAt) > math.MaxUint32 {
		return nil, unsupported("versionstamp at offset %d", p.stampAt)
	}
	return binary.LittleEndian.AppendUint32(p.dst, uint32(p.stampAt)), nil
}
