// Package engines has what tests of several packages put under a store: an engine that seems far, one that other
// processes seem to use, and one that keeps each state, as a crash may leave it. Faults and counts are in package
// faultkv. It is for tests alone.
package engines

// Files, from the top down: engines.go tape.go

import (
	"context"
	"iter"
	"sync"

	"github.com/greenroomdb/greenroom/kv"
)

// Far returns an engine that says that its reads cross a network. It does all that e does, and is as safe for
// concurrent use.
func Far(e kv.Engine) kv.Engine { return far{e} }

type far struct{ kv.Engine }

func (f far) Limits() kv.Limits {
	l := f.Engine.Limits()
	l.Far = true
	return l
}

func (f far) Shared() *sync.Map { return kv.Shared(f.Engine) }

func (f far) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return kv.ScanRanges(ctx, f.Engine, ranges)
}

// Shared returns an engine that other processes may use, too, as far as a store can tell: it is not a kv.Sharer, so that
// owners need leases. It does all else that e does, and is as safe for concurrent use.
func Shared(e kv.Engine) kv.Engine { return shared{e} }

type shared struct{ kv.Engine }

func (s shared) ScanRanges(ctx context.Context, ranges []kv.Range) iter.Seq2[kv.Entry, error] {
	return kv.ScanRanges(ctx, s.Engine, ranges)
}

// OneRange returns an engine that can't read several ranges at once, nor can its snapshots. It does all else that e does,
// and is as safe for concurrent use.
func OneRange(e kv.Engine) kv.Engine { return oneRange{e} }

type oneRange struct{ kv.Engine }

func (o oneRange) Shared() *sync.Map { return kv.Shared(o.Engine) }

func (o oneRange) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := o.Engine.Snapshot(ctx)
	return struct{ kv.Snapshot }{s}, err
}
