package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A Usage is what an actor used since its creation.
type Usage struct {
	Turns    int64     `json:"turns"`         // that were run, those that failed included
	Failed   int64     `json:"failed"`        // of these
	Awake    int64     `json:"awake_ms"`      // how long it was in memory, in milliseconds
	Written  int64     `json:"written_bytes"` // of keys and values that went to the engine
	Rows     int64     `json:"rows_read"`     // that statements of SQL returned, or went through in full scans
	Failures []Failure `json:"failures,omitempty"`
}

// A Failure is turns that have failed in the same way.
type Failure struct {
	Code  string `json:"code"`
	Place string `json:"place,omitempty"` // actor.action.NAME for an action; "" for all kinds that found no room
	Count int64  `json:"count"`
	Last  Time   `json:"last"`
}

// A UsageList is a page of actors that are awake, in the order of their names.
type UsageList struct {
	Actors []ActorUsage `json:"actors"`
	Next   string       `json:"next,omitempty"` // after of the next page; "" on the last one
}

// An ActorUsage is what one actor has used since the store was last told.
type ActorUsage struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Usage Usage  `json:"usage"`
}

// newUsage returns what u says, nil if nothing was used.
func newUsage(u *actorstore.Usage) *Usage {
	if u.IsZero() {
		return nil
	}
	out := &Usage{Turns: u.Turns, Failed: u.Failed(), Awake: u.Awake.Milliseconds(), Written: u.Written, Rows: u.Rows}
	for _, f := range u.Failures {
		out.Failures = append(out.Failures, Failure{f.Code, f.Place, f.Count, NewTime(f.Last)})
	}
	return out
}

func usageReads() []route {
	params := []param{{name: "after", kind: "string", what: "Begin behind the actor of this name, the next of an earlier answer."}, limitParam}
	return []route{{
		method: http.MethodGet, path: "/v1/usage", what: "What actors that are awake in the process have used, and the store doesn't say yet.",
		params: params, out: UsageList{}, reads: true,
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
			out, err := usagePage(s.actors, r, params)
			if err != nil {
				refuse(w, err)
				return
			}
			reply(w, out)
		},
	}}
}

// usagePage answers a page of what isn't stored of actors. A process that runs none has nothing.
func usagePage(actors Actors, r *http.Request, params []param) (*UsageList, error) {
	q, err := newQuery(r, params)
	if err != nil {
		return nil, err
	}
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	out := &UsageList{Actors: []ActorUsage{}}
	awake, ok := actors.(Metered)
	if !ok {
		return out, nil
	}
	all := awake.Usage()
	if after := q.text("after"); after != "" {
		i, found := slices.BinarySearchFunc(all, after, func(a actorstore.ActorUsage, name string) int { return strings.Compare(a.Name, name) })
		if found {
			i++
		}
		all = all[i:]
	}
	if len(all) > limit {
		all = all[:limit]
		out.Next = all[limit-1].Name
	}
	for i := range all {
		a := &all[i]
		used := newUsage(&a.Usage)
		if used == nil {
			used = &Usage{}
		}
		out.Actors = append(out.Actors, ActorUsage{a.Name, a.ID.String(), *used})
	}
	return out, nil
}
