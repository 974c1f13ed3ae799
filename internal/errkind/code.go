package errkind

import "errors"

// A coder is an error that has a word for programs.
type coder interface {
	error
	ErrorCode() string // "" for none
}

// coded is an error with a code of its own.
type coded struct {
	code string
	err  error
}

// WithCode returns err with a code; its text stays. It returns nil if err is nil.
func WithCode(code string, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

func (c *coded) Error() string     { return c.err.Error() }
func (c *coded) Unwrap() error     { return c.err }
func (c *coded) ErrorCode() string { return c.code }

// kinds are looked through in their order: an outcome that isn't known outweighs its reason.
var kinds = [...]struct {
	err  error
	code string
}{
	{ErrUnknownOutcome, "unknown_outcome"},
	{ErrFenced, "fenced"},
	{ErrInUse, "in_use"},
	{ErrPoisoned, "poisoned"},
	{ErrClosed, "closed"},
	{ErrNoSpace, "no_space"},
	{ErrQuota, "quota"},
	{ErrTooLarge, "too_large"},
	{ErrNewerFormat, "newer_format"},
	{ErrCorrupt, "corrupt"},
	{ErrSnapshotTooOld, "snapshot_too_old"},
	{ErrReadOnly, "read_only"},
	{ErrUnsupported, "unsupported"},
	{ErrConflict, "conflict"},
	{ErrNotFound, "not_found"},
}

// Code returns the word by which programs tell err from others: what the method ErrorCode of
// the first error says that has one, in the order of errors.As, or a word for the kind, such as
// "too_large". It is "" for any other error, and for nil.
func Code(err error) string {
	var own coder
	if errors.As(err, &own) {
		if code := own.ErrorCode(); code != "" {
			return code
		}
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.code
		}
	}
	return ""
}
