package workflow

import (
	"slices"
	"time"
)

// A Status says how far a workflow has come. It follows from what is stored, so that it is the same before a run, after it and
// after a restart; while a run is under way it says, too, what parts of the code wait for beside those that work.
type Status struct {
	State State
	// Waits are what it waits for, what is due first at the front: see Snapshot.Waits.
	Waits []Wait
	// Until is when the first of Waits is due that has a time; zero for none.
	Until time.Time
	// Names are those of the messages that it waits for, in order; AnyName says that it
	// waits for one of any name. Queue.WaitFor waits for them.
	Names   []string
	AnyName bool
	// Paused are the paths of steps that wait for Resume, in order.
	Paused []string
	// Failure is why it has failed, or is being rolled back.
	Failure *Failure
}

// summarize sets what follows from Waits.
func (s *Status) summarize() {
	for _, w := range s.Waits {
		if s.Until.IsZero() && w.Until != 0 {
			s.Until = w.Until.Time()
		}
		switch w.For {
		case WaitMessage:
			s.AnyName = s.AnyName || len(w.Names) == 0
			s.Names = append(s.Names, w.Names...)
		case WaitResume:
			s.Paused = append(s.Paused, w.Path)
		}
	}
	slices.Sort(s.Names)
	s.Names = slices.Compact(s.Names)
	slices.Sort(s.Paused)
}
