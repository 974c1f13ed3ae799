package inspector

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/greenroomdb/greenroom/admin"
)

// overviewPage is the state of the process, and of the store.
type overviewPage struct {
	Process *admin.Process
	Hosts   []admin.Host
	Charts  []chart
	Types   []typeRow
	Awake   []admin.ActorUsage // those with the most turns
	More    bool               // there are more actors awake than were looked at
	Stuck   []admin.Actor
	Failed  []admin.Actor
	Empty   bool // the store has no actors
	Unbuilt bool // the index by which actors are found isn't built
}

// shownAwake bounds the actors on the overview.
const shownAwake = 20

// overview shows the process and the store.
func overview(ctx context.Context, v *visit) (*shown, error) {
	o := &overviewPage{}
	process, err := v.client.Process(ctx)
	if err != nil {
		return nil, err
	}
	o.Process = process
	hosts, err := admin.Get[admin.HostList](ctx, v.client, "hosts", nil)
	if err != nil {
		return nil, err
	}
	o.Hosts = hosts.Hosts
	usage, err := admin.Get[admin.UsageList](ctx, v.client, "usage", url.Values{"limit": {"1000"}})
	if err != nil {
		return nil, err
	}
	o.Awake, o.More = usage.Actors, usage.Next != ""
	slices.SortStableFunc(o.Awake, func(a, b admin.ActorUsage) int { return cmp.Compare(b.Usage.Turns, a.Usage.Turns) })
	o.Awake = o.Awake[:min(len(o.Awake), shownAwake)]
	if o.Charts, o.Types, err = v.page.samples.take(ctx, v.client); err != nil {
		return nil, err
	}
	for _, find := range []struct {
		to     *[]admin.Actor
		params url.Values
	}{{&o.Stuck, url.Values{"stuck": {"true"}}}, {&o.Failed, url.Values{"state": {"failed"}}}} {
		find.params.Set("limit", "10")
		list, err := admin.Get[admin.ActorList](ctx, v.client, "actors", find.params)
		if e := (*admin.Error)(nil); errors.As(err, &e) && e.Code == "conflict" {
			o.Unbuilt = true
			break
		}
		if err != nil {
			return nil, err
		}
		*find.to = list.Actors
	}
	any, err := admin.Get[admin.ActorList](ctx, v.client, "actors", url.Values{"limit": {"1"}})
	if err != nil {
		return nil, err
	}
	o.Empty = len(any.Actors) == 0
	return &shown{Title: "Overview", Template: "overview", Data: o, Live: "clock"}, nil
}
