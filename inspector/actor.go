package inspector

import "context"

// showActor shows what the store has recorded about an actor.
func showActor(context.Context, *visit) (*shown, error) {
	return &shown{Title: "Overview", Template: "actor", Live: "actor"}, nil
}
