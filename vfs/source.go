package vfs

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A source is what a database reads: an actor that this process owns, or a
// read-only view of one. As a Reader it is the newest state.
type source interface {
	actorstore.Reader
	// Snapshot pins the newest state, for reading its pages.
	Snapshot(ctx context.Context) (snapshot, error)
}

// A snapshot is a pinned state of a source.
type snapshot interface {
	actorstore.Reader
	Close() error
}

type actorSource struct{ *actorstore.Actor }

func (s actorSource) Snapshot(ctx context.Context) (snapshot, error) {
	return s.Actor.PageSnapshot(ctx)
}

type viewSource struct{ *actorstore.View }

// Snapshot returns the view itself: it is pinned already, and its owner's to close.
func (s viewSource) Snapshot(context.Context) (snapshot, error) {
	return borrowed{s.View}, nil
}

type borrowed struct{ actorstore.Reader }

func (borrowed) Close() error { return nil }
