package engine_test

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// mostPages is how many pages a database has at most.
const mostPages = 6

// pageName, and headName, name a page and the head in a state.
func pageName(n uint32) string { return fmt.Sprint("page ", n) }

const headName = "head"

// lookAtPages adds the pages of an actor to what it has, and its head, which its program knows then. It returns false if it can't read them.
func (s *script) lookAtPages(a *known, has map[string]string) bool {
	s.Helper()
	q := rp.GetPages{Actor: a.id}
	for n := range uint32(mostPages + 1) {
		q.Numbers = append(q.Numbers, n+1)
	}
	got, err := ask[rp.Pages](s, func(n uint32) rp.ToEngine { q.ID = n; return q })
	switch {
	case err != nil && err.Code == "database_not_found":
		return true
	case err != nil:
		return false
	}
	for _, p := range got.Pages {
		if p.Data != nil {
			has[pageName(p.Number)] = textOf(p.Data)
		}
	}
	a.head = got.Head.Value
	has[headName] = fmt.Sprint(a.head)
	return true
}

// commit commits pages with a text to the database of the kept actor, which then has size pages. A commit may come in parts, of one page each. If it is refused the program takes it for one that
// wasn't made, and comes again with the head that it has.
func (s *script) commit(parts bool, size uint32, text string, numbers ...uint32) {
	s.Helper()
	if s.awake("kept"); s.dead.Load() {
		return
	}
	s.look("kept") // the program knows the head from then on
	s.changeBy("kept", func(a *known) bool {
		at, _ := s.last(a.id)
		f := rp.Fence{Generation: rp.Some(uint64(at.Generation)), Head: rp.Some(a.head)}
		var pages []rp.Page
		for _, n := range numbers {
			pages = append(pages, page(n, text))
		}
		for range 2 {
			err := s.commitOnce(a.id, f, parts, size, pages)
			if err == nil {
				return true
			}
			if err.Code == "head_fence_mismatch" { // the actor ends, and has the truth when it starts
				a.wakeBy = time.Time{}
				s.p.event(at, rp.Stopped{Code: 1})
				synctest.Wait()
				s.awake("kept")
				return true
			}
		}
		return false
	}, func(state map[string]string) {
		head := uint64(0)
		_, _ = fmt.Sscan(state[headName], &head) // of none at first
		state[headName] = fmt.Sprint(head + 1)
		for n := uint32(1); n <= mostPages; n++ {
			switch _, had := state[pageName(n)]; {
			case n > size:
				delete(state, pageName(n))
			case slices.Contains(numbers, n):
				state[pageName(n)] = text
			case !had:
				state[pageName(n)] = ""
			}
		}
	})
}

// commitOnce makes the commit.
func (s *script) commitOnce(id string, f rp.Fence, parts bool, size uint32, pages []rp.Page) *rp.SQLiteError {
	s.Helper()
	if !parts {
		_, err := ask[rp.Committed](s, func(n uint32) rp.ToEngine { return rp.Commit{ID: n, Actor: id, Fence: f, Size: size, Pages: pages} })
		return err
	}
	stage, err := ask[rp.StageBegun](s, func(n uint32) rp.ToEngine { return rp.BeginStage{ID: n, Actor: id, Fence: f} })
	end := rp.FinishStage{Actor: id, Generation: f.Generation, TxID: stage.TxID, Size: size}
	for i := 0; i < len(pages) && err == nil; i++ {
		first := pages[i].Number
		end.Segments = append(end.Segments, first)
		_, err = ask[rp.SegmentStaged](s, func(n uint32) rp.ToEngine {
			return rp.StageSegment{ID: n, Actor: id, Generation: f.Generation, TxID: stage.TxID, First: first, Pages: pages[i : i+1]}
		})
	}
	if err == nil {
		_, err = ask[rp.StageFinished](s, func(n uint32) rp.ToEngine { end.ID = n; return end })
	}
	return err
}

// pages writes pages of the kept actor, if it is one of RivetKit 2.3.
func (s *script) pages() {
	if !s.p.isEnvoy() {
		return
	}
	s.commit(false, 3, "one", 3, 1, 2)
	s.commit(false, 4, "two", 4, 1)
	s.commit(true, 6, "parts", 1, 3, 6)
	s.commit(false, 2, "")
	s.commit(true, 3, "more", 2, 3)
}
