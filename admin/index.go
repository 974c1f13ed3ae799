package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// RepairIndex makes the index by which actors are found what the actors store; see greenroom.Store.RepairIndex.
var RepairIndex = &IndexVerb{}

// An IndexVerb is something that a tool does to a store as a whole.
type IndexVerb struct{}

// Repaired is the answer of RepairIndex.
type Repaired struct {
	Actors int `json:"actors"` // that were found by what they don't store
	Rows   int `json:"rows"`   // of the index, that were missing or nothing's
}

// Do does the verb to a store that this process has open.
func (*IndexVerb) Do(ctx context.Context, on On, _ *None) (*Repaired, error) {
	actors, rows, err := on.Store.RepairIndex(ctx)
	return &Repaired{actors, rows}, err
}

// Ask has the process that has the store do the verb. The error is an *Error if the process answers.
func (v *IndexVerb) Ask(ctx context.Context, c *Client, in *None) (*Repaired, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	out := new(Repaired)
	return out, c.do(ctx, http.MethodPost, v.route().path, "application/json", bytes.NewReader(body), out)
}

func (v *IndexVerb) route() route {
	return route{
		method: http.MethodPost, path: "/v1/index/repair", what: "Make the index by which actors are found what the actors store.", in: None{}, out: Repaired{},
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
			serve(s, w, r, "index/repair", func(ctx context.Context, _ string, in *None) (*Repaired, error) {
				return v.Do(ctx, On{Store: s.store, Actors: s.actors}, in)
			})
		},
	}
}
