package inspector

import (
	"context"

	"github.com/greenroomdb/greenroom/admin"
)

// connectionsPage is a list of connections.
type connectionsPage struct {
	Connections []admin.Connection
	Next        string
}

// listConnections shows the connections that an actor has stored.
func listConnections(ctx context.Context, v *visit) (*shown, error) {
	list, err := get[admin.ConnectionList](ctx, v, "/connections", v.only("after"))
	if err != nil {
		return nil, err
	}
	return &shown{Title: "Connections", Template: "connections", Data: &connectionsPage{list.Connections, v.next(list.Next)}, Live: "actor"}, nil
}
