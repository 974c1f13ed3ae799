package queue

import (
	"context"
	"slices"
	"time"
)

// A gathering waits until there are as many messages as a receiver wants at once, or until one has waited for long enough.
type gathering struct {
	of *contents
	o  *ReceiveOptions
}

// wait returns when the receiver is to take what is visible. It ends with errOver at the end, unless that is zero.
func (g gathering) wait(ctx context.Context, end time.Time) error {
	for {
		var over <-chan time.Time
		if !end.IsZero() {
			over = time.After(time.Until(end))
		}
		var left time.Duration
		err := g.of.watch(ctx, g.o.Names, over, func() (found bool, err error) {
			found, left, err = g.look(ctx)
			return found, err
		})
		if err != nil || left <= 0 {
			return err
		}
		if !end.IsZero() {
			left = min(left, time.Until(end))
		}
		found := false
		err = g.of.watch(ctx, g.o.Names, time.After(left), func() (done bool, err error) {
			found, left, err = g.look(ctx)
			return !found || left <= 0, err
		})
		if err == errOver {
			return nil
		}
		if err != nil || found {
			return err
		}
		// Another receiver was faster.
	}
}

// look reports whether there is a visible message, and how long to wait for more.
func (g gathering) look(ctx context.Context) (found bool, left time.Duration, err error) {
	c, o := g.of, g.o
	if err := c.check(ctx); err != nil {
		return false, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due()
	first := c.index.first(o.Names)
	if first == nil {
		return false, 0, nil
	}
	n, since := c.index.gathered(o.Names, o.Count)
	if n >= o.Count || o.Apart && first.deliveries > 0 {
		return true, 0, nil
	}
	waited := time.Duration(min(max(c.index.seen-since, 0), after(0, o.Linger))) * time.Millisecond
	return true, o.Linger - waited, nil
}

// gathered counts the visible messages of the names, of all if there are none. If there are fewer than enough, since is when the first of
// them became visible, Unix ms.
func (x *index) gathered(names []string, enough int) (n int, since int64) {
	orders := []*order{&x.all}
	if len(names) > 0 {
		orders = orders[:0]
		for i, name := range names {
			if l := x.lines[name]; l != nil && !slices.Contains(names[:i], name) {
				orders = append(orders, &l.ready)
			}
		}
	}
	for _, o := range orders {
		n += o.len()
	}
	if n >= enough {
		return n, 0
	}
	since = x.seen
	for _, o := range orders {
		o.each(func(it *item) { since = min(since, max(it.created, it.at)) })
	}
	return n, since
}
