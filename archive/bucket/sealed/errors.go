package sealed

import (
	"errors"

	"github.com/greenroomdb/greenroom/internal/errkind"
)

// Errors of a sealed bucket. Those of the bucket that it stands on are returned as they are.
var (
	// ErrNoIdentity: Get needs an identity, and the Keys have none.
	ErrNoIdentity = errors.New("sealed: reading objects needs an identity")
	// ErrNoRecipient: Put needs a recipient, and the Keys have none.
	ErrNoRecipient = errors.New("sealed: writing objects needs a recipient")
	// ErrOtherIdentity: Get needs another identity, because the object is for other recipients. Nothing says that it is damaged.
	ErrOtherIdentity = errors.New("sealed: the object is for other recipients, and needs another identity")
	// ErrCorrupt: an object is damaged, or has the name of another one, or was not stored by a sealed bucket. Get returns it, and so
	// does the reader that Get returns.
	ErrCorrupt = errkind.New("sealed: corrupt object", errkind.ErrCorrupt)
	// ErrChanged: Put read a part of the body twice, and it was different the second time. Nothing of the second one was given out.
	ErrChanged = errors.New("sealed: the body of the object changed while it was stored")
	// ErrKeys: Parse can't read a text, or the recipients don't go together. The error says which line, and not what is in it.
	ErrKeys = errors.New("sealed: not a list of keys")
)
