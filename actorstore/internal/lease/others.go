package lease

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
)

// others are the other hosts of an engine, as far as this one has looked at them.
type others struct {
	*base
	seen sightings
}

// A visit is what was found of another host.
type visit struct {
	host   [16]byte
	row    layout.Host
	stored []byte
	same   time.Duration // for how long it was surely not renewed
	gone   bool          // the host is gone
	dead   bool          // it answers nothing any more, and its row says that it might
}

// look reads another host's row, with one Get, unless it is known to be gone.
func (o *others) look(ctx context.Context, host [16]byte) (*visit, error) {
	v := &visit{host: host}
	if v.gone = o.seen.isGone(host); v.gone {
		return v, nil
	}
	// What is read is not older than this.
	before := monotonic()
	var err error
	v.row, v.stored, err = Read(ctx, o.Engine, host)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		o.seen.bury(host)
		v.gone = true
		return v, nil
	case err != nil && v.stored == nil:
		// Where no row can be read none can be renewed: that it was not is not a sign.
		o.seen.forget(host)
		return nil, err
	case err != nil:
		return nil, err
	}
	v.same = o.seen.sight(host, v.row.Count, before)
	ttl := v.row.Lease()
	v.dead = v.same > ttl+margin(ttl) || o.left(&v.row) < 0 || o.replaced(&v.row)
	return v, nil
}

// replaced says whether the host is one that this store stands in for: it had the same
// name, and its process has ended.
func (o *others) replaced(row *layout.Host) bool {
	if o.Name == "" || row.Name != o.Name {
		return false
	}
	return o.Sole || row.Machine != "" && hasEnded(row)
}

// left returns for how long a lease may hold, going by the clocks of both hosts: below
// 0 when it is over. Where no clock is believed it is never over.
func (o *others) left(row *layout.Host) time.Duration {
	skew := o.MaxClockSkew
	if skew < 0 {
		return layout.MaxTTL
	}
	const bound = 1 << 40 // ms: no row makes the sum run over
	left := min(max(row.Expires-o.clock.earliest(), -bound), bound) + min(skew.Milliseconds(), bound)
	return time.Duration(left) * time.Millisecond
}

// sweepEvery is how many renewals lie between two sweeps, sweepRows how many rows one
// looks at.
const (
	sweepEvery = 256
	sweepRows  = 256
)

// sweep removes the rows of hosts that died long ago, and whose actors no host has
// opened since. It is a courtesy: what fails of it is left to the next one.
func (o *others) sweep(ctx context.Context) {
	if o.MaxClockSkew < 0 || o.Check() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	var dead []visit
	start, end := layout.RowsRange(layout.KindHost)
	for e, err := range o.Engine.Scan(ctx, kv.Range{Start: start, End: end, Limit: sweepRows}) {
		if err != nil {
			return
		}
		id, ok := layout.ParseHostKey(e.Key)
		if !ok {
			continue // a check tells
		}
		if row, err := layout.ParseHost(id, e.Value); err == nil && o.left(&row) < 0 {
			dead = append(dead, visit{host: id, stored: bytes.Clone(e.Value)})
		}
	}
	for _, v := range dead {
		// It conflicts if the lease was renewed meanwhile.
		if err := swap(ctx, o.Engine, v.host, v.stored, nil); err != nil && !errors.Is(err, kv.ErrConflict) {
			return
		}
	}
}
