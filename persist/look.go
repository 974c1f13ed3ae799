package persist

import (
	"context"
	"log/slog"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Contents are what is stored in the record of an actor.
type Contents struct {
	Version     int    // of the record, 1 to 4
	Input       []byte // in CBOR, nil for none
	Initialized bool   // see Tx
	State       []byte // in CBOR
	Events      []Event
}

// Look returns what the record of the actor is in a snapshot or a view, without owning
// the actor: a running host is not disturbed.
// Events whose notes can't be used are parked. ErrNoRecord and the errors of decoding
// are those of Open.
func Look(ctx context.Context, snap *actorstore.Snapshot) (*Contents, error) {
	raw, err := snap.Get(ctx, recordKey(), nil)
	if err != nil {
		return nil, noRecord(snap.ID(), err)
	}
	rec, err := parseRecord(raw)
	if err != nil {
		return nil, err
	}
	events, err := loadEvents(ctx, snap, rec.events, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	c := &Contents{Version: int(rec.version), Input: rec.input, Initialized: rec.init, State: rec.state}
	for _, e := range events {
		c.Events = append(c.Events, e.export())
	}
	return c, nil
}
