package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/host"
)

// A Feed is how an actor announces messages that it keeps.
type Feed[M any] struct {
	// Event brings each new message.
	Event string
	// Action gets a number, and returns the next messages behind it in their order, none if there are none.
	Action string
	// Number returns the number of a message. Numbers grow, by one as a rule.
	Number func(M) int64
	// Since is the last message that is known, 0 for none.
	Since int64
	// Subscribed says that the actor's Connect subscribes the connection.
	Subscribed bool
}

// Follow tells each message of a feed once and in their order, also what was sent while the connection was away, until ctx ends, the connection is over or each returns an error, which it returns.
func Follow[M any](ctx context.Context, c *Conn, f *Feed[M], each func(M) error) error {
	l := c.listen(f.Event)
	defer c.unlisten(l)
	if !f.Subscribed {
		if err := c.Subscribe(ctx, f.Event); err != nil {
			return err
		}
	}
	seen := f.Since
	tell := func(m M) error {
		n := f.Number(m)
		if n <= seen {
			return nil
		}
		seen = n
		return each(m)
	}
	for behind := true; ; {
		for behind {
			before := seen
			var list []M
			if err := c.Do(ctx, f.Action, seen, &list, &CallOptions{Idempotent: true}); err != nil {
				return err
			}
			for _, m := range list {
				if err := tell(m); err != nil {
					return err
				}
			}
			behind = seen > before
		}
		select {
		case body := <-l.events:
			var m M
			if err := body.Decode(&m); err != nil {
				return fmt.Errorf("client: the event %.80q: %w", f.Event, err)
			}
			if behind = f.Number(m) > seen+1; behind {
				continue // some are missing
			}
			if err := tell(m); err != nil {
				return err
			}
		case <-l.missed:
			behind = true
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return c.Err()
		}
	}
}

// listen returns a listener for events of a name. The caller calls unlisten.
func (c *Conn) listen(name string) *listener {
	l := &listener{name, make(chan host.Raw, window), make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
	return l
}

func (c *Conn) unlisten(l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = slices.DeleteFunc(c.listeners, func(is *listener) bool { return is == l })
}
