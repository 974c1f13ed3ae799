package admin

import (
	"context"

	"github.com/greenroomdb/greenroom"
)

// A HostList is the hosts that use the store.
type HostList struct {
	Hosts []Host `json:"hosts"`
	More  bool   `json:"more,omitempty"` // there are more than are answered
}

// A Host is a process that uses the store.
type Host struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Expires Time   `json:"expires,omitempty"` // when its lease ends unless it renews it, by its own clock
	TTL     string `json:"ttl,omitempty"`     // how long each renewal lasts, as 15s
	Address string `json:"address,omitempty"` // of its API, if it tells others one
}

func hostReads() []route {
	return []route{read("hosts", "List the hosts that use the store.", nil, func(ctx context.Context, s *greenroom.Store, _ *query) (*HostList, error) {
		out := &HostList{Hosts: []Host{}}
		for h, err := range s.Lower().Hosts(ctx) {
			if err != nil {
				return nil, err
			}
			if len(out.Hosts) == maxLimit {
				out.More = true
				break
			}
			out.Hosts = append(out.Hosts, Host{h.ID.String(), h.Name, NewTime(h.Expires), h.TTL.String(), h.Address})
		}
		return out, nil
	})}
}
