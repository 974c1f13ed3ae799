package workflow

import (
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// A WaitKind says what a Wait is for.
type WaitKind uint8

// The kinds of waits.
const (
	WaitRun     WaitKind = iota // for the next run, which has something to do at once, or for the end of the one under way
	WaitMessage                 // for a message of the actor's queue
	WaitTimer                   // for the end of a sleep
	WaitAttempt                 // for the next attempt at a step
	WaitResume                  // for Resume, at a step that is paused (StepOptions.Pause)
)

// String returns "run", "message", "timer", "attempt" or "resume", and "unknown" for any other value.
func (k WaitKind) String() string { return history.WaitKind(k).String() }

// A Wait is one thing that a workflow waits for. It belongs to the caller that got it, but Names are shared and must not be changed.
type Wait struct {
	For   WaitKind
	Path  string   // of the sleep, the step or the receive in the code, as Snapshot.Path has it; "" for WaitRun
	Since Millis   // when the wait began; 0 if that isn't known
	Until Millis   // when it is over at the latest; 0 for never, and if that isn't known
	Names []string // of the message, each one will do; nil: any name
	Error string   // of the last attempt at the step, at most 256 bytes of it; "" for other waits
}

// String returns what is waited for in words, with times in UTC.
//
//	a message approve or reject until 2030-01-02T03:04:05.000Z (decision)
//	an attempt at charge at 2030-01-02T03:04:05.000Z, after: bank is busy
func (w Wait) String() string {
	until, after := w.Until.Time().Format("2006-01-02T15:04:05.000Z"), ""
	if w.Error != "" {
		after = ", after: " + w.Error
	}
	switch w.For {
	case WaitRun:
		return "a run"
	case WaitMessage:
		words := "any message"
		if len(w.Names) > 0 {
			words = "a message " + strings.Join(w.Names, " or ")
		}
		if w.Until != 0 {
			words += " until " + until
		}
		return fmt.Sprintf("%s (%s)", words, w.Path)
	case WaitTimer:
		return fmt.Sprintf("the time %s (%s)", until, w.Path)
	case WaitAttempt:
		words := "an attempt at " + w.Path
		if w.Until != 0 {
			words += " at " + until
		}
		return words + after
	case WaitResume:
		return "resume, as " + w.Path + " is paused" + after
	}
	return w.For.String()
}

func (w Wait) stored() history.Wait {
	return history.Wait{For: history.WaitKind(w.For), Path: w.Path, Since: history.Millis(w.Since), Until: history.Millis(w.Until), Names: w.Names, Error: w.Error}
}

// waitOf is the reverse of Wait.stored.
func waitOf(w history.Wait) Wait {
	return Wait{WaitKind(w.For), w.Path, Millis(w.Since), Millis(w.Until), w.Names, w.Error}
}
