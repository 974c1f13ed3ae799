package workflowtest

import (
	"context"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// restore stores a history that was saved in an actor that has none.
func restore(ctx context.Context, a *actorstore.Actor, saved []byte) error {
	var s history.Snapshot
	if err := s.UnmarshalJSON(saved); err != nil {
		return err
	}
	h, err := history.Open(ctx, a, nil)
	if err != nil {
		return err
	}
	defer h.Close()
	tx := h.Begin()
	if err := tx.Restore(&s); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
