package errkind

import "errors"

// permanent is an error that trying again doesn't help.
type permanent struct{ err error }

// Permanent marks err as one that trying again doesn't help; its text stays. It returns nil if err is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

func (p *permanent) Error() string { return p.err.Error() }
func (p *permanent) Unwrap() error { return p.err }

// IsPermanent reports whether err, or what it wraps, was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanent
	return errors.As(err, &p)
}
