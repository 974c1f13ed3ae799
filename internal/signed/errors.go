package signed

import "errors"

// Errors of Sign and Verify. After each of them nothing was sent, taken or remembered.
var (
	// ErrSignature: the request has no signature, one that can't be read, one by a secret that isn't known, or one of something else; which
	// of these isn't said. The receiver refuses the request. A sender that has the store open may sign it anew and send it again, a
	// second later at the earliest: in the first second of a new secret a receiver may not know it.
	ErrSignature = errors.New("signed: the signature isn't valid")
	// ErrNotMine: the request is authentic, and for another host. The receiver tells the sender so, which looks again for where the host
	// is that it wants, signs for that, and sends it there.
	ErrNotMine = errors.New("signed: the request is for another host")
	// ErrSkew: the request is authentic, and its time is further than MaxSkew from the receiver's clock, or before what the receiver
	// remembers, after its clock was set back. The receiver tells the sender so, which may sign it anew and send it again; if that
	// fails, too, an operator sets the clocks.
	ErrSkew = errors.New("signed: the request is too old, or the clocks of two hosts differ")
	// ErrReplayed: the request is authentic, and was taken before, or so many later ones of its sender were that the receiver can't tell. The
	// receiver refuses it. A sender that has sent it once doesn't know what became of the first, because a transport between has
	// sent it twice: it treats the request as one whose answer was lost.
	ErrReplayed = errors.New("signed: the request came before")
	// ErrBusy: more processes than a receiver remembers have sent requests lately. The sender may sign it anew and send it again, after
	// a while: a receiver forgets a process that is silent for 2*MaxSkew.
	ErrBusy = errors.New("signed: requests come from too many processes")
	// ErrTooLarge: Caller and Rest make the header larger than MaxHeader. The caller of Sign leaves something out.
	ErrTooLarge = errors.New("signed: the statement is too large for a header")
	// ErrRequest: Sign was called with a request without a URL, with an opaque URL, a zero To, or a Hop that is out of range: a mistake
	// in the program.
	ErrRequest = errors.New("signed: the request can't be signed")
	// ErrOptions: Open was called with options that are out of range: a mistake in the program.
	ErrOptions = errors.New("signed: options are out of range")
)
