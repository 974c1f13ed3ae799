package workflow

import (
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// Version returns which version of the code goes on at this place, from 1 to latest: the
// version that the code had when the workflow first came here. Where the workflow was
// beyond this place already, since its history goes on in the same scope, that is 1, the
// code before there was a Version:
//
//	if workflow.Version(c, "faster shipping", 2) == 1 {
//		… // as it was
//	} else {
//		… // as it is
//	}
//
// Code for a version can go when no workflow is under way that has it.
func Version(c *Context, name string, latest int) int {
	// Before the place is entered: it would be among what isn't passed.
	p := c.enter(name)
	defer c.end()
	if latest < 1 || int64(latest) > math.MaxUint32 {
		c.misuse(name, fmt.Sprintf("version %d", latest))
	}
	k, ok := kind[history.Version](p)
	if ok {
		if int64(k.Resolved) > int64(latest) {
			p.diverged("the workflow goes on with version %d, and the code has %d", k.Resolved, latest)
		}
		return int(k.Resolved)
	}
	if c.r.undoing != nil {
		if c.unvisited() != nil {
			return 1
		}
		c.stopCollecting()
	}
	k = history.Version{Resolved: uint32(latest), Latest: uint32(latest)}
	if c.unvisited() != nil {
		k.Resolved = 1
	}
	p.must(p.record(k, p.completed(), withNext))
	c.r.draw() // code of another version would decide otherwise
	return int(k.Resolved)
}

// Removed stands in the place of a call that the code had before, of that name, so that a
// workflow which has passed it finds it there. K is what the call has recorded: a StepEntry
// for Send and the functions that draw values, too, a MessageEntry for Receive and
// ReceiveAll. It stays, with all that is inside.
func Removed[K StepEntry | LoopEntry | SleepEntry | MessageEntry | CheckpointEntry | JoinEntry | RaceEntry | VersionEntry](c *Context, name string) {
	c.removed(name, any(*new(K)).(Kind).stored())
}

func (c *Context) removed(name string, was history.Kind) {
	sub, kind := name, history.Entry{Kind: was}.Type()
	_, message := was.(history.Message)
	if message {
		sub = subName(name, "count")
	}
	p := c.enter(sub)
	defer c.end()
	if message {
		c.markSubs(name)
	}
	if p.found {
		if have, ok := p.entry.Kind.(history.Removed); ok && have.Original == kind || p.entry.Type() == kind {
			return
		}
		p.diverged("the history has a %s there, and the code says that a %s was removed", p.entry.Type(), kind)
	}
	if c.r.undoing != nil {
		return // it does nothing
	}
	p.must(p.record(history.Removed{Original: kind, Name: &name}, p.completed(), withNext))
}

// markSubs marks what a receive call of that name has recorded beside its number.
func (c *Context) markSubs(name string) {
	h := c.r.wf.h
	for _, e := range h.In(c.scope) {
		if parent, last, ok := e.Location.Parent(); ok && parent == c.scope && !last.Loop && isSub(name, h.NameOf(last.Name)) {
			if !c.seen.has(last.Name) {
				c.seen.add(last.Name)
			}
		}
	}
}
