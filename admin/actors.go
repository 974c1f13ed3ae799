package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

// An ActorList is a page of actors.
type ActorList struct {
	Actors []Actor `json:"actors"`
	Next   string  `json:"next,omitempty"` // after of the next page; "" on the last one
}

// An Actor is what the store has recorded about an actor.
type Actor struct {
	Name    *string `json:"name"` // null if it has none
	ID      string  `json:"id"`
	Size    int64   `json:"size"` // of all that it stores, in bytes
	Created Time    `json:"created"`
	Owner   *string `json:"owner"`  // the name or the id of the host that has it open, or null
	Seq     uint64  `json:"seq"`    // the number of its newest commit
	Epoch   uint64  `json:"epoch"`  // how often it was taken over, from 1
	Layout  string  `json:"layout"` // of its keys: greenroom or rivetkit

	Workflow string            `json:"workflow,omitempty"` // the state of its workflow
	Since    Time              `json:"since,omitempty"`    // when the workflow entered that
	Stuck    bool              `json:"stuck,omitempty"`    // nothing that comes by itself wakes the workflow
	Schema   uint64            `json:"schema,omitempty"`   // the user_version of its database
	Slept    Time              `json:"slept,omitempty"`    // when it fell asleep last
	Labels   map[string]string `json:"labels,omitempty"`
	Wake     Time              `json:"wake,omitempty"`  // when it must be woken
	Usage    *Usage            `json:"usage,omitempty"` // what it has used, as far as it is stored: see /v1/usage for the rest
	Tried    []string          `json:"tried,omitempty"` // the versions of its code that could not do what there was to do then
}

// orders are the names of the orders of actors, by actorstore.Order.
var orders = []string{"any", "name", "since", "schema", "wake", "slept"}

// ActorOrders returns the orders in which actors are listed. The slice is the caller's.
func ActorOrders() []string { return slices.Clone(orders) }

// WorkflowStates returns the words of the states of a workflow, in their order.
func WorkflowStates() (words []string) {
	for s := workflow.Pending; s <= workflow.RollingBack; s++ {
		words = append(words, s.String())
	}
	return words
}

func actorReads() []route {
	return []route{
		read("actors", "List the actors that all parameters select.", []param{
			{name: "prefix", kind: "string", what: "Actors whose names begin with it."},
			{name: "label", kind: "string", repeated: true, what: "Actors that have the label KEY=VALUE."},
			{name: "state", kind: "string", repeated: true, of: WorkflowStates(), what: "Actors whose workflow is in this state, or in one of these."},
			{name: "stuck", kind: "boolean", what: "Actors with a workflow that nothing that comes by itself wakes."},
			{name: "schema_below", kind: "integer", what: "Actors whose database has a schema with a lower version."},
			{name: "wakes_before", kind: "date-time", what: "Actors that must be woken before it."},
			{name: "slept_before", kind: "date-time", what: "Actors that last fell asleep before it."},
			{name: "order", kind: "string", of: orders, what: "The order of the actors; any is what costs least."},
			afterParam, limitParam,
		}, listActors),
		read("actors/{actor}", "What is recorded about an actor.", nil, func(ctx context.Context, s *greenroom.Store, q *query) (out *Actor, err error) {
			err = viewActor(ctx, s, q.actor, func(v *greenroom.View) error {
				a, err := newActor(ctx, &owners{store: s}, v.Info())
				out = &a
				return err
			})
			return out, err
		}),
	}
}

// listActors answers a page of actors.
func listActors(ctx context.Context, s *greenroom.Store, q *query) (*ActorList, error) {
	o, err := actorsOptions(q)
	if err != nil {
		return nil, err
	}
	limit := o.Limit
	o.Limit++ // to know whether there is a next page
	out := &ActorList{Actors: []Actor{}}
	hosts := &owners{store: s}
	position := ""
	for info, err := range s.Actors(ctx, o) {
		switch {
		case errors.Is(err, actorstore.ErrPosition):
			return nil, invalid("after is not the next of a list with the same parameters")
		case errors.Is(err, actorstore.ErrNotIndexed):
			return nil, &Error{Code: "conflict", Message: "the index by which actors are found isn't built yet: list all, or those with a prefix"}
		case err != nil:
			return nil, err
		}
		if len(out.Actors) == limit {
			out.Next = position
			break
		}
		a, err := newActor(ctx, hosts, info)
		if err != nil {
			return nil, err
		}
		out.Actors = append(out.Actors, a)
		position = info.Position
	}
	return out, nil
}

// actorsOptions returns what a query selects.
func actorsOptions(q *query) (*greenroom.ActorsOptions, error) {
	o := &greenroom.ActorsOptions{Prefix: q.text("prefix"), Workflow: q.values["state"], After: q.text("after")}
	var errs [5]error
	o.Limit, errs[0] = q.limit()
	o.Stuck, errs[1] = q.flag("stuck")
	o.SchemaBelow, errs[2] = q.number("schema_below")
	o.WakesBefore, errs[3] = q.time("wakes_before")
	o.SleptBefore, errs[4] = q.time("slept_before")
	for _, text := range q.values["label"] {
		key, value, ok := strings.Cut(text, "=")
		if before, is := o.Labels[key]; !ok || key == "" || is && before != value {
			return nil, invalid("label is KEY=VALUE, with a key once, not %q", text)
		}
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[key] = value
	}
	for i, name := range orders {
		if q.text("order") == name {
			o.Order = actorstore.Order(i)
		}
	}
	return o, cmp.Or(errs[:]...)
}

// newActor returns what an info says.
func newActor(ctx context.Context, hosts *owners, info greenroom.ActorInfo) (Actor, error) {
	at := info.Attributes
	a := Actor{
		Name: optional(info.Name), ID: info.ID.String(), Size: info.Used, Created: NewTime(info.Created),
		Seq: info.Seq, Epoch: info.Epoch, Layout: info.Layout.String(),
		Workflow: at.Workflow, Since: NewTime(at.Since), Stuck: at.Stuck, Schema: at.Schema, Slept: NewTime(at.Slept), Labels: at.Labels,
		Wake: NewTime(info.Wake.At), Usage: newUsage(&info.Usage),
	}
	for _, version := range info.Wake.Tried {
		a.Tried = append(a.Tried, strconv.FormatUint(version, 10))
	}
	var err error
	if !info.Host.IsZero() {
		a.Owner, err = hosts.name(ctx, info.Host)
	}
	return a, err
}

// An owners knows the names of the hosts that there are, once it is asked.
type owners struct {
	store *greenroom.Store
	names map[actorstore.HostID]string
}

// name returns the name of a host, or its id if it has none; nil if it is gone.
func (o *owners) name(ctx context.Context, id actorstore.HostID) (*string, error) {
	if o.names == nil {
		o.names = map[actorstore.HostID]string{}
		for host, err := range o.store.Lower().Hosts(ctx) {
			if err != nil {
				return nil, err
			}
			o.names[host.ID] = cmp.Or(host.Name, host.ID.String())
		}
	}
	return optional(o.names[id]), nil
}
