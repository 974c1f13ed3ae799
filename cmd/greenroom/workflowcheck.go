package main

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

// checkWorkflow yields what is wrong with the workflow of an actor. Rows that are damaged,
// and keys that nobody knows, are left out: the check of the store has found them.
func checkWorkflow(ctx context.Context, v *actorstore.View) iter.Seq2[actorstore.Finding, error] {
	return func(yield func(actorstore.Finding, error) bool) {
		_, damages, err := workflow.Read(ctx, v.Snapshot)
		if err != nil {
			yield(actorstore.Finding{}, err)
			return
		}
		for _, d := range damages {
			f := actorstore.Finding{Actor: v.Info().ID, Where: actorstore.Describe(d.Key), What: damageText(d.Err), Harmless: d.Harmless}
			if strings.HasPrefix(f.Where, "unknown/") || strings.Contains(f.What, "actorstore: ") {
				continue
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// damageText is what is wrong, without which kind of error it is.
func damageText(err error) string {
	text := err.Error()
	if errors.Is(err, actorstore.ErrCorrupt) {
		text = strings.TrimPrefix(text, actorstore.ErrCorrupt.Error()+": ")
	}
	return text
}
