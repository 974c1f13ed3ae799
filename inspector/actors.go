package inspector

import (
	"context"
	"errors"
	"net/url"

	"github.com/greenroomdb/greenroom/admin"
)

// actorsPage is a list of actors.
type actorsPage struct {
	Actors  []admin.Actor
	Next    string // URL of the next page; "" on the last one
	Params  url.Values
	Choices []string // of states
	Orders  []string
	Unbuilt bool // the index by which actors are found isn't built
}

// listActors shows the actors that the parameters select.
func listActors(ctx context.Context, v *visit) (*shown, error) {
	out := &actorsPage{Params: v.only("prefix", "label", "state", "stuck", "order", "after"), Choices: admin.WorkflowStates(), Orders: admin.ActorOrders()}
	list, err := admin.Get[admin.ActorList](ctx, v.client, "actors", out.Params)
	if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "conflict" {
		out.Unbuilt, list = true, &admin.ActorList{}
	} else if err != nil {
		return nil, err
	}
	out.Actors, out.Next = list.Actors, v.next(list.Next)
	return &shown{Title: "Actors", Template: "actors", Data: out}, nil
}
