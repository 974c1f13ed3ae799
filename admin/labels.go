package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
)

// SetLabels sets labels of the actor, by which it is found, all or none of them: see greenroom.Tx.Label.
var SetLabels = &Verb[SetLabelsIn, None]{"labels", "Set labels of an actor, all or none of them.", setLabels}

// SetLabelsIn is the request of SetLabels.
type SetLabelsIn struct {
	Labels map[string]string `json:"labels"` // values by key; "" removes a label
}

func setLabels(ctx context.Context, a *greenroom.Actor, _ string, in *SetLabelsIn) (*None, error) {
	err := a.Update(ctx, func(tx *greenroom.Tx) error {
		for key, value := range in.Labels {
			if err := tx.Label(key, value); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, actorstore.ErrLabel) {
		_, text, _ := strings.Cut(err.Error(), "actorstore: ")
		return nil, &Error{Code: "invalid", Message: text}
	}
	return &None{}, err
}
