package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A Context is how the code of a workflow does anything that lasts: one for the code
// itself, and others for each iteration of a loop and each branch, which must use their
// own. It is used by one goroutine at a time, and by none after the function that got it
// has returned.
//
// Its methods, and the functions that take it, don't return if the run is over: they end
// the goroutine (runtime.Goexit), so that deferred functions run, and nothing else. It isn't
// a context.Context on purpose: only steps deal with the world outside.
type Context struct {
	r      *run
	parent *Context
	scope  history.Location
	life   context.Context // over when nothing may be done any more
	lost   atomic.Bool     // a race, so that nothing may be written either
	busy   atomic.Bool     // a method is being called
	seen   names
	// pruning is of the loop of which this is an iteration; nil for none.
	pruning *pruning
}

// names are those of a scope that the code has passed.
type names struct {
	first [4]history.NameIndex // usually all
	n     int                  // how many of them are set
	more  map[history.NameIndex]struct{}
}

func (s *names) has(i history.NameIndex) bool {
	if slices.Contains(s.first[:s.n], i) {
		return true
	}
	_, ok := s.more[i]
	return ok
}

// add adds i, which isn't there.
func (s *names) add(i history.NameIndex) {
	if s.n < len(s.first) {
		s.first[s.n] = i
		s.n++
		return
	}
	if s.more == nil {
		s.more = map[history.NameIndex]struct{}{}
	}
	s.more[i] = struct{}{}
}

// remove removes i, if it is there.
func (s *names) remove(i history.NameIndex) {
	if at := slices.Index(s.first[:s.n], i); at >= 0 {
		s.n--
		s.first[at] = s.first[s.n]
	}
	delete(s.more, i)
}

// child returns the context of a scope inside.
func (c *Context) child(scope history.Location, life context.Context) *Context {
	return &Context{r: c.r, parent: c, scope: scope, life: life}
}

// leaveIfOver ends the goroutine if the run, or the branch, is over.
func (c *Context) leaveIfOver() {
	if c.life.Err() != nil {
		leave()
	}
}

// A place is where in the code something is called: that what is recorded there is known.
type place struct {
	c     *Context
	name  string
	at    history.Location
	index history.NameIndex
	entry history.Entry
	found bool // entry is what is recorded there
}

// enter begins a call. Every call of a scope has a name of its own. The call ends with
// c.end.
func (c *Context) enter(name string) *place {
	c.leaveIfOver()
	if !c.busy.CompareAndSwap(false, true) {
		c.misuse(name, "it is called while another call of this Context is under way: iterations and branches must use their own")
	}
	return c.mark(name)
}

func (c *Context) end() { c.busy.Store(false) }

// mark finds the place of a name, which is part of a call.
func (c *Context) mark(name string) *place {
	h := c.r.wf.h
	i, err := h.Name(name)
	switch {
	case name == "":
		c.misuse(name, "the name is empty")
	case err != nil:
		c.misuse(name[:min(len(name), 100)], "the name can't be used: "+err.Error())
	}
	if c.seen.has(i) {
		c.misuse(name, "the name is used twice in this scope")
	}
	c.seen.add(i)
	c.storeNames()
	p := &place{c: c, name: name, at: c.scope.Name(i), index: i}
	p.entry, p.found = h.Get(p.at)
	c.leaveIfOver() // of a branch that lost its race meanwhile, a part of the history may be gone already
	return p
}

// kind returns what is recorded at p, which must be a K; ok is false if nothing is.
func kind[K history.Kind](p *place) (k K, ok bool) {
	if !p.found {
		return k, false
	}
	if k, ok = p.entry.Kind.(K); !ok {
		p.diverged("the history has a %s there, and the code a %s", p.entry.Type(), history.Entry{Kind: k}.Type())
	}
	return k, ok
}

// path returns p in words.
func (p *place) path() string { return p.c.r.wf.h.Path(p.at) }

// diverged ends the run.
func (p *place) diverged(format string, args ...any) {
	p.c.r.halt(diverged(p.path(), fmt.Sprintf(format, args...)))
	leave()
}

// misuse ends the run.
func (c *Context) misuse(name, why string) {
	path := name
	if scope := c.r.wf.h.Path(c.scope); c.scope != "" {
		path = scope + "/" + name
	}
	c.r.halt(misused(path, why))
	leave()
}

// status returns the metadata of the entry at p, those of a pending one if there are none.
func (p *place) status() history.Metadata {
	if p.found && p.entry.Metadata != nil {
		return *p.entry.Metadata
	}
	w := p.c.r.wf
	return history.Metadata{CreatedAt: w.ages.created(w.h, w.now(), p.at)}
}

// put has tx record k at p with metadata; what tx lands with is p's entry then.
func (p *place) put(tx *history.Tx, k history.Kind, m history.Metadata) error {
	if !p.found {
		p.c.guard(p, 1)
	}
	err := tx.Put(history.Entry{Location: p.at, Kind: k})
	if err == nil {
		err = tx.PutMetadata(p.at, m)
	}
	if err == nil {
		return nil
	}
	if large := tooLarge(err); large != nil {
		return large
	}
	p.c.r.halt(storageError(err))
	leave()
	return nil
}

// must ends the run for an error that the code isn't told: a value of its own is too
// large, such as the state of a loop.
func (p *place) must(err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, ErrTooLarge):
		p.c.r.halt(misused(p.path(), err.Error()))
	default:
		p.c.r.halt(storageError(fmt.Errorf("%s: %w", p.path(), err)))
	}
	leave()
}

// record lands one entry.
func (p *place) record(k history.Kind, m history.Metadata, w when) error {
	if w == withNext && !p.found && p.c.r.owing.any() {
		if err := p.c.flush(); err != nil {
			return err
		}
	}
	tx := p.c.r.wf.h.Begin()
	if err := p.put(tx, k, m); err != nil {
		return err
	}
	var err error
	if w == atOnce {
		err = p.c.commit(tx, nil)
	} else if err = p.c.deferred(tx); err == nil {
		if w == soon {
			p.c.r.owing.add()
		}
		if p.c.r.fallBehind(k) {
			err = p.c.flush()
		}
	}
	if err == nil {
		p.entry, p.found = p.c.r.wf.h.Get(p.at)
		tx.Free()
	}
	return err
}

// completed are the metadata of an entry that has just come to its end.
func (p *place) completed() history.Metadata {
	m, now := p.status(), p.c.r.wf.now()
	m.Status, m.CompletedAt, m.Error = history.StatusCompleted, &now, nil
	return m
}

// unvisited returns what is recorded in the scope of c and was not passed, nil if there is
// nothing. What is inside of it was passed, or belongs to what wasn't.
func (c *Context) unvisited() error {
	if at, found := c.r.wf.h.FirstIn(c.scope, c.seen.has); found {
		return diverged(c.r.wf.h.Path(at), "it is in the history, and the code has not passed it")
	}
	return nil
}

// passed ends the run if something is recorded in the scope that was not passed.
func (c *Context) passed() {
	if err := c.unvisited(); err != nil {
		c.r.halt(err)
		leave()
	}
}

// guard ends the run when the history has no room for n more entries, the last one at p.
func (c *Context) guard(p *place, n int) {
	r := c.r
	o := &r.wf.opts
	entries, bytes := r.wf.h.Usage()
	if entries += n; o.MaxEntries > 0 && entries > o.MaxEntries {
		r.halt(fmt.Errorf("%w: %s would be entry %d", ErrHistoryFull, p.path(), entries))
		leave()
	}
	if o.MaxEntries > 0 && entries > o.MaxEntries/4*3 || o.MaxBytes > 0 && bytes >= o.MaxBytes/4*3 {
		r.mu.Lock()
		first := !r.warned
		r.warned = true
		r.mu.Unlock()
		if first {
			o.Logger.Warn("workflow: the history is three quarters full; loops forget their iterations, ContinueAsNew everything",
				"entries", entries, "max_entries", o.MaxEntries, "bytes", bytes, "max_bytes", o.MaxBytes)
		}
	}
}

// Path returns where in the code c is, in words, for logs; "." at the top.
func (c *Context) Path() string { return c.r.wf.h.Path(c.scope) }

// child names of a call are its own, and no name of the user's is taken for one.
func subName(name, part string) string { return name + ":" + part }

// isSub says whether a name is one that a call of that name made for itself.
func isSub(name, sub string) bool {
	part, ok := strings.CutPrefix(sub, name+":")
	if !ok {
		return false
	}
	return part == "deadline" || part == "count" || strings.Trim(part, "0123456789") == ""
}
