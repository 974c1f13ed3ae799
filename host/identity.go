package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/conn"
)

// A Caller is a party that calls actors: a user, a tenant, a service. The program that lets it in says which one it is, with WithCaller, or
// Options.Authorize of package front; this package believes it.
type Caller struct {
	// ID names the caller, "" for one that isn't known.
	ID string `json:"id,omitempty"`
	// Claims are what else is known about it: one value in JSON, which must not be changed; nil for nothing.
	Claims json.RawMessage `json:"claims,omitempty"`
}

// Decode decodes the claims into what v points to, as encoding/json does. Without claims v stays as it is.
// It is package encoding/json that decodes: a claim fills a field whose name differs in case, so claims whose names callers choose are decoded into a map.
func (c *Caller) Decode(v any) error {
	if len(c.Claims) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.Claims, v); err != nil {
		return fmt.Errorf("host: claims: %w", err)
	}
	return nil
}

// callerKey is the key of a context's Caller.
type callerKey struct{}

// WithCaller returns a context for what a caller asks for: the turns of calls, connections and subscriptions with it have c as their Context.Caller.
// The Context of a turn isn't such a context, so an actor that calls another one doesn't speak for its caller, unless it says so with this function.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller that WithCaller has said, nil without.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// callerHeader is the name of the header of a connection that has its caller, in JSON. No request brings it here.
const callerHeader = "greenroom-caller"

// withCaller returns the headers of a connection with those of its caller.
func withCaller(headers []conn.Header, c *Caller) ([]conn.Header, error) {
	headers = slices.DeleteFunc(slices.Clone(headers), func(h conn.Header) bool { return h.Name == callerHeader })
	if c == nil {
		return headers, nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("%w: the caller: %w", ErrArgs, err)
	}
	return append(headers, conn.Header{Name: callerHeader, Value: string(text)}), nil
}

// callerOfConn returns the caller that has made a connection, nil if nothing was said about it. One that can't be read is one that isn't known.
func callerOfConn(n *conn.Conn) *Caller {
	for _, h := range n.Headers() {
		if h.Name == callerHeader {
			c := &Caller{}
			if json.Unmarshal([]byte(h.Value), c) != nil {
				return &Caller{}
			}
			return c
		}
	}
	return nil
}

// mayTake reports whether a caller may take up a connection: one about which nothing is said may take any.
func (c *Caller) mayTake(n *conn.Conn) bool {
	if c == nil {
		return true
	}
	is := callerOfConn(n)
	return is != nil && is.ID == c.ID
}
