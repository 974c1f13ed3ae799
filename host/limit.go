package host

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/limits"
)

// A Limit bounds how much actors do at a time, or how often, together: all actors of the types that name it, on all hosts of a store. A limit in
// Type.Limits bounds the messages that are worked on, one in Type.WorkflowLimits the workflows that run.
//
// The store has what a limit has given, under its name, so that a crash doesn't give more. An actor that must wait has a place in a line, which is in the store, too, and may
// sleep meanwhile. The line is served in the order in which the actors came, one message of each at a time, so that an actor with many messages doesn't hold up
// the others.
//
// After a crash the actor has its permit of Concurrency still, on any host, and does the work again under it. A permit for a message is free when it
// hasn't been renewed for 30 seconds, as another host sees it; that of a workflow lasts until the workflow is over, also while it sleeps. A token of Rate that was taken is spent, even if
// the work wasn't begun, and a message that is worked on again takes another one. So a limit never gives more than it may, as long as the clocks of the hosts agree: by as much as they differ a token may come early.
//
// An actor that has several limits claims their permits one after the other, those with a Label first, and keeps what it has while it waits for the next one.
//
// Hosts that know other bounds for a name go by their own.
type Limit struct {
	// Name is that of the limit in the store: 1 to 255 bytes of UTF-8. Types may share a limit; then all its fields are the same.
	Name string
	// Label, unless it is "", makes a limit for each value of that label of the actors (greenroom.Tx.Label), instead of one for all. Actors without the label have one
	// together.
	Label string
	// Fair, unless it is "", has the line serve the values of that label of the actors in turn, one permit each: so that a tenant with many actors doesn't hold up one with few.
	Fair string
	// Concurrency is how many permits are held at a time; 0 means that this isn't bounded.
	Concurrency int
	// Rate is how many permits are given in each Per; 0 means that this isn't bounded. A Per of 0 is a second.
	Rate int
	Per  time.Duration
	// Burst is how many permits may be given at once after a pause: the size of the token bucket. 0 means 1: permits are evenly spaced.
	Burst int
}

// check says what is wrong with a limit.
func (m *Limit) check() error {
	switch {
	case m.Name == "" || len(m.Name) > 255 || !utf8.ValidString(m.Name):
		return fmt.Errorf("%w: a limit has the name %.80q", ErrTypes, m.Name)
	case m.Concurrency < 0 || m.Rate < 0 || m.Per < 0 || m.Burst < 0:
		return fmt.Errorf("%w: the limit %q has a bound below 0", ErrTypes, m.Name)
	case m.Concurrency == 0 && m.Rate == 0:
		return fmt.Errorf("%w: the limit %q bounds nothing", ErrTypes, m.Name)
	case m.Concurrency > math.MaxInt32:
		return fmt.Errorf("%w: the limit %q has a Concurrency of more than %d", ErrTypes, m.Name, math.MaxInt32)
	case m.Rate == 0 && (m.Per != 0 || m.Burst != 0):
		return fmt.Errorf("%w: the limit %q has a Per or a Burst without a Rate", ErrTypes, m.Name)
	case int64(m.Rate) > int64(orTime(m.Per, time.Second)):
		return fmt.Errorf("%w: the limit %q has a Rate beyond one a nanosecond", ErrTypes, m.Name)
	case m.Rate > 0 && int64(m.rule().Burst) > int64(longestFill/m.rule().Every):
		return fmt.Errorf("%w: the bucket of the limit %q takes more than %s to fill", ErrTypes, m.Name, longestFill)
	}
	return nil
}

// longestFill bounds how long the bucket of a limit may take to fill.
const longestFill = 10 * 365 * 24 * time.Hour

// rule returns what the limit allows.
func (m *Limit) rule() limits.Rule {
	r := limits.Rule{Concurrency: m.Concurrency}
	if m.Rate > 0 {
		per, rate := orTime(m.Per, time.Second), time.Duration(m.Rate)
		r.Every, r.Burst = per/rate, max(m.Burst, 1)
		if per%rate != 0 {
			r.Every++ // rather too slow than too fast
		}
	}
	return r
}

// inOrder returns limits in the order in which permits of them are claimed, which is the same for all types, so that no two actors wait for each other's
// permits: first those of a label, so that an actor that waits for others of its tenant keeps nothing from other tenants; and then those without a Rate, so that a token that is
// taken is used soon.
func inOrder(all []*Limit) []*Limit {
	return slices.SortedFunc(slices.Values(all), func(a, b *Limit) int {
		return cmp.Or(-cmp.Compare(min(len(a.Label), 1), min(len(b.Label), 1)), cmp.Compare(min(a.Rate, 1), min(b.Rate, 1)), cmp.Compare(a.Name, b.Name))
	})
}

// checkLimits says what is wrong with the limits of a type.
func (t *Type) checkLimits() error {
	for _, all := range [][]*Limit{t.Limits, t.WorkflowLimits} {
		for i, m := range all {
			if m == nil {
				return fmt.Errorf("%w: there is a nil among the limits of %s", ErrTypes, t.Name)
			}
			if err := m.check(); err != nil {
				return err
			}
			for _, other := range all[:i] {
				if other.Name == m.Name {
					return fmt.Errorf("%w: %s has the limit %q twice", ErrTypes, t.Name, m.Name)
				}
			}
		}
	}
	switch {
	case len(t.Limits) > 0 && len(t.takers()) == 0:
		return fmt.Errorf("%w: %s has limits, and takes no messages", ErrTypes, t.Name)
	case len(t.WorkflowLimits) > 0 && t.Workflow == nil:
		return fmt.Errorf("%w: %s has limits for workflows, and no workflow", ErrTypes, t.Name)
	}
	return nil
}

// A part is one of an actor that claims permits.
type part int

const (
	partMessage part = iota
	partBatch
	partWork
	partWorkflow
)

// partNames are the names of the parts in the store.
var partNames = [...]string{"message", "batch", "work", "workflow"}

// inLine says which parts of an actor wait for permits: also those that did when the actor fell asleep, whose places in the lines stay. What they wait for isn't due.
type inLine [len(partNames)]atomic.Bool
