package admin

import (
	"context"
	"encoding/hex"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/limits"
)

// A LimitList is a page of the limits of actors together, in the order of their names and values.
type LimitList struct {
	Limits []Limit `json:"limits"`
	Next   string  `json:"next,omitempty"` // after of the next page; "" on the last one
}

// A Limit is what a limit has given, for one value of the label by which it tells actors apart. Its bounds are those of the programs whose types name it.
type Limit struct {
	Name    string        `json:"name"`
	Value   string        `json:"value,omitempty"`   // "" where it doesn't tell actors apart
	Held    int           `json:"held"`              // permits
	Waiting int           `json:"waiting"`           // claims in its line; 10000 means so many or more
	Full    Time          `json:"full,omitempty"`    // when its tokens are all there, of a rate
	Permits []LimitPermit `json:"permits,omitempty"` // that are held, at most 100, if one value of one limit was asked for
	Line    []LimitClaim  `json:"line,omitempty"`    // the first 100 claims, likewise: by what fair says, and those of one in their order
}

// A LimitPermit is one that is held.
type LimitPermit struct {
	Actor string `json:"actor"`
	Part  string `json:"part"`            // message, batch, work or workflow
	Until Time   `json:"until,omitempty"` // when it ends unless it is renewed; left out for that of a workflow
}

// A LimitClaim waits for a permit.
type LimitClaim struct {
	Actor string `json:"actor"`
	Part  string `json:"part"`
	Fair  string `json:"fair,omitempty"` // the values of this take turns
}

// mostOfLimit bounds the permits, and the claims, of one limit.
const mostOfLimit = 100

func limitReads() []route {
	return []route{read("limits", "List the limits of actors together: what they have given, and how many wait.", []param{
		{name: "name", kind: "string", what: "The limit of this name alone."},
		{name: "value", kind: "string", what: "With name: this value of its label alone, with the actors that hold permits and wait. An empty one is the limit that has no label."},
		afterParam, limitParam,
	}, listLimits)}
}

func listLimits(ctx context.Context, s *greenroom.Store, q *query) (*LimitList, error) {
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	one := q.values.Has("value")
	if one && q.text("name") == "" {
		return nil, invalid("value goes with name")
	}
	var behind []byte
	if after := q.text("after"); after != "" {
		if behind, err = hex.DecodeString(after); err != nil || !limits.IsKey(behind) {
			return nil, invalid("after is not the next of a list of limits")
		}
	}
	out := &LimitList{Limits: []Limit{}}
	var last []byte
	for info, err := range limits.List(ctx, s.Engine(), q.text("name"), behind) {
		switch {
		case err != nil:
			return nil, err
		case one && info.Value != q.text("value"):
			continue
		case len(out.Limits) == limit:
			out.Next = hex.EncodeToString(last)
			return out, nil
		}
		l := Limit{Name: info.Name, Value: info.Value, Held: info.Held, Waiting: info.Waiting, Full: NewTime(info.Full)}
		if one {
			if err := l.read(ctx, s); err != nil {
				return nil, err
			}
		}
		out.Limits = append(out.Limits, l)
		last = info.Key
	}
	return out, nil
}

// read reads which actors hold permits, and wait.
func (l *Limit) read(ctx context.Context, s *greenroom.Store) error {
	for p, err := range limits.Permits(ctx, s.Engine(), l.Name, l.Value) {
		if err != nil {
			return err
		}
		if len(l.Permits) == mostOfLimit {
			break
		}
		l.Permits = append(l.Permits, LimitPermit{p.Actor, p.Part, NewTime(p.Until)})
	}
	for h, err := range limits.Line(ctx, s.Engine(), l.Name, l.Value) {
		if err != nil {
			return err
		}
		if len(l.Line) == mostOfLimit {
			break
		}
		l.Line = append(l.Line, LimitClaim{h.Actor, h.Part, h.Fair})
	}
	return nil
}
