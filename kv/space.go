package kv

// A Spacer is an optional capability of an Engine: one that knows how much room there is on the disk of its store. A decorator of
// an engine that has a method Unwrap needn't be one.
type Spacer interface {
	// FreeSpace returns how many bytes the disk has free for the process; known is false where that can't be told. It is safe for
	// concurrent use, and costs a call of the system.
	FreeSpace() (free int64, known bool, err error)
}

// FreeSpace returns what an engine says that is a Spacer, or what the one below it says, and that it isn't known for every other one.
func FreeSpace(e Engine) (free int64, known bool, err error) {
	switch e := e.(type) {
	case Spacer:
		return e.FreeSpace()
	case interface{ Unwrap() Engine }:
		return FreeSpace(e.Unwrap())
	}
	return 0, false, nil
}

// A Roomer is an optional capability of an Engine: one that refuses commits while the disk of its store has less free than it was told to
// keep. A decorator of an engine that has a method Unwrap needn't be one.
type Roomer interface {
	// HasRoom returns nil if commits are taken, and an error of the kind greenroom.ErrNoSpace, which says what is free, if they are refused
	// for lack of room; any other error says that it couldn't be told. It is safe for concurrent use, and costs a call of the system.
	HasRoom() error
}

// HasRoom returns what an engine says that is a Roomer, or what the one below it says, and nil for every other one.
func HasRoom(e Engine) error {
	switch e := e.(type) {
	case Roomer:
		return e.HasRoom()
	case interface{ Unwrap() Engine }:
		return HasRoom(e.Unwrap())
	}
	return nil
}
