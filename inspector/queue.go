package inspector

import (
	"context"
	"strconv"

	"github.com/greenroomdb/greenroom/admin"
)

// queuePage is a list of messages.
type queuePage struct {
	Name     string // the name of those that are shown; "" for all
	Messages []admin.StoredMessage
	Next     string
}

// listMessages shows the queue of an actor.
func listMessages(ctx context.Context, v *visit) (*shown, error) {
	list, err := get[admin.MessageList](ctx, v, "/queue", v.only("name", "after"))
	if err != nil {
		return nil, err
	}
	p := &queuePage{Name: v.param("name"), Messages: list.Messages}
	if list.Next > 0 {
		p.Next = v.next(strconv.FormatUint(uint64(list.Next), 10))
	}
	return &shown{Title: "Queue", Template: "queue", Data: p, Live: "actor"}, nil
}
