package chunked

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A Source is what a database reads: an actor that this process owns, or a
// read-only view of one. As a Reader it is the newest state.
type Source interface {
	actorstore.Reader
	// Snapshot pins the newest state, for reading its pages.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// A Snapshot is a pinned state of a Source.
type Snapshot interface {
	actorstore.Reader
	// Close lets go of it. It isn't called while a read is under way.
	Close() error
}

// OfActor returns the Source that is a. The caller keeps a open.
func OfActor(a *actorstore.Actor) Source { return actorSource{a} }

type actorSource struct{ *actorstore.Actor }

func (s actorSource) Snapshot(ctx context.Context) (Snapshot, error) {
	return s.PageSnapshot(ctx)
}

// OfReader returns the Source that r is, which must not change.
func OfReader(r actorstore.Reader) Source { return still{r} }

// still is a Source that doesn't change, and its only Snapshot.
type still struct{ actorstore.Reader }

func (s still) Snapshot(context.Context) (Snapshot, error) { return s, nil }

func (still) Close() error { return nil }

// CollectRange stages the removal of the keys in [start, end), if r has any.
func CollectRange(ctx context.Context, b *batch.Batch, r actorstore.Reader, start, end []byte) error {
	for _, err := range r.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: 1, KeysOnly: true}) {
		if err != nil {
			return err
		}
		b.DeleteRange(start, end)
	}
	return nil
}

// Collect stages the removal of the chunks of f from number from on, if r has any.
func (f *File) Collect(ctx context.Context, b *batch.Batch, r actorstore.Reader, from int64) error {
	if from >= MaxChunks {
		return nil
	}
	start, end := f.Layout.FileChunks(f.Tag, uint32(from))
	return CollectRange(ctx, b, r, start, end)
}
