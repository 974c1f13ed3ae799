package workflow

import "time"

// A Status says how far a workflow has come.
type Status struct {
	State State
	// Until is when something that it waits for is due; zero for nothing, and for a
	// workflow that wasn't run since it was opened.
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
