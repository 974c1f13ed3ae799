package main

import (
	"context"
	"iter"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/traces"
)

// checkTraces yields where an actor's traces and their index don't agree. An index that is
// wrong loses no span; it keeps some from being found by their trace.
func checkTraces(ctx context.Context, v *actorstore.View) iter.Seq2[actorstore.Finding, error] {
	return func(yield func(actorstore.Finding, error) bool) {
		findings, err := traces.Check(ctx, v.Snapshot)
		if err != nil {
			yield(actorstore.Finding{}, err)
			return
		}
		for _, what := range findings {
			if !yield(actorstore.Finding{Actor: v.Info().ID, Where: "traces", What: what}, nil) {
				return
			}
		}
	}
}
