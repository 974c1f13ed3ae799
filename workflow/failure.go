package workflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// A Failure is an error as it is stored: a code and a text. It is what the code of a
// workflow gets to see of the errors of steps and branches, at once and when it is
// replayed after a restart, so that it decides in the same way both times: the error
// that the step returned is there only once.
//
// errors.Is finds the sentinel that stands for the code: one of this package, or of
// Options.Errors.
type Failure struct {
	// Code says which sentinel the error was; "" for none.
	Code string
	// Message is the error's text.
	Message string

	is error // the sentinel
}

// Error returns the text.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the sentinel that stands for the code, nil for any other code.
func (f *Failure) Unwrap() error { return f.is }

// The codes of this package's own sentinels.
const (
	codeTimeout     = "timeout"
	codeInterrupted = "interrupted"
	codeTooLarge    = "too_large"
	codePanic       = "panic"
)

var ownCodes = []struct {
	code string
	err  error
}{
	{codeTimeout, ErrStepTimeout},
	{codeInterrupted, ErrInterrupted},
	{codeTooLarge, ErrTooLarge},
	{codePanic, ErrPanic},
}

// failures knows which codes stand for which sentinels.
type failures map[string]error

// of returns err as it will be stored.
func (fs failures) of(err error) *Failure {
	if f, ok := err.(*Failure); ok {
		return f
	}
	f := &Failure{Message: err.Error()}
	// What the user named is more particular than what this package knows.
	best := ""
	for code, is := range fs {
		if errors.Is(err, is) && (best == "" || code < best) {
			best = code
		}
	}
	if best != "" {
		f.Code, f.is = best, fs[best]
		return f
	}
	for _, own := range ownCodes {
		if errors.Is(err, own.err) {
			f.Code, f.is = own.code, own.err
			return f
		}
	}
	var stored *Failure
	if errors.As(err, &stored) { // keep its code, even if that doesn't name a sentinel any more
		f.Code = stored.Code
	}
	return f
}

// text returns f as one text, such as "[timeout] charge: …". Only a code, or a text that
// looks as if it began with one, has brackets before it.
func (f *Failure) text() string {
	text := f.Message
	if f.Code != "" || strings.HasPrefix(text, "[") {
		text = "[" + f.Code + "] " + text
	}
	return short(text)
}

// short returns a text as it can be stored.
func short(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "\ufffd")
}

// maxErrorText bounds the text of an error, in bytes.
const maxErrorText = 4096

// parse is the opposite of text; any text is a Failure.
func (fs failures) parse(text string) *Failure {
	f := &Failure{Message: text}
	if rest, ok := strings.CutPrefix(text, "["); ok {
		if code, message, ok := strings.Cut(rest, "] "); ok {
			f.Code, f.Message = code, message
		}
	}
	return fs.known(f)
}

// known puts the sentinel in.
func (fs failures) known(f *Failure) *Failure {
	if f.is = fs[f.Code]; f.is != nil || f.Code == "" {
		return f
	}
	for _, own := range ownCodes {
		if own.code == f.Code {
			f.is = own.err
		}
	}
	return f
}

// newFailures returns what Options.Errors say.
func newFailures(named map[string]error) (failures, error) {
	fs := failures{}
	for code, err := range named {
		if code == "" || strings.ContainsAny(code, "[]") || err == nil {
			return nil, fmt.Errorf("%w: the code %q of an error", ErrOptions, code)
		}
		for _, own := range ownCodes {
			if own.code == code {
				return nil, fmt.Errorf("%w: the code %q is this package's own", ErrOptions, code)
			}
		}
		fs[code] = err
	}
	return fs, nil
}

// Permanent marks an error of a step as one that trying again doesn't help: the step has
// failed for good. Permanent(nil) is nil. An error that queue.Permanent has marked is the same to a step.
func Permanent(err error) error { return errkind.Permanent(err) }

// final says whether trying again is of no use, whatever the policy says.
func final(err error) bool {
	var limit *batch.LimitError
	return errkind.IsPermanent(err) || errors.Is(err, ErrTooLarge) || errors.As(err, &limit)
}

// A StepError reports a failed step that isn't tried again. It wraps the Failure of its
// last attempt.
type StepError struct {
	Path     string // of the step, such as order/charge
	Attempts uint32
	Failure  *Failure
}

// Error names the step, the attempts and the reason.
func (e *StepError) Error() string {
	return fmt.Sprintf("workflow: step %s, attempt %d: %s", e.Path, e.Attempts, e.Failure.Message)
}

// Unwrap returns the Failure.
func (e *StepError) Unwrap() error { return e.Failure }

// A BranchError says how one branch of a Join or a Race failed.
type BranchError struct {
	Name    string
	Failure *Failure
}

// Error names the branch and the reason.
func (e *BranchError) Error() string { return fmt.Sprintf("branch %s: %s", e.Name, e.Failure.Message) }

// Unwrap returns the Failure.
func (e *BranchError) Unwrap() error { return e.Failure }

// A BranchesError is the failure of a Join, after all branches have ended and at least one
// failed, or of a Race in which no branch succeeded. It wraps the errors of the branches.
type BranchesError struct {
	Path     string         // of the join or the race
	Branches []*BranchError // those that failed, in the order of the code
}

// Error names the place and its failed branches.
func (e *BranchesError) Error() string {
	text := "workflow: " + e.Path
	for i, b := range e.Branches {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		text += sep + b.Error()
	}
	return text
}

// Unwrap returns the errors of the branches.
func (e *BranchesError) Unwrap() (errs []error) {
	for _, b := range e.Branches {
		errs = append(errs, b)
	}
	return errs
}
