// Package adminsock is the way into a store that a process has open: a socket beside the store's files, which
// that process listens on and the program dials.
//
// The socket is admin.sock in the directory of the store. Systems bound the length of such a path, so where it
// would be longer than MaxPath bytes, the socket has a short path in the runtime folder of the user; and Windows
// gets a port on loopback with a random token. The file admin in the directory says where it is then.
//
// Both ends look at the user of the other one: only the same user, and root, get through.
package adminsock

// Files, from the top down:
//
//	listen.go dial.go place.go peer_linux.go peer_bsd.go peer_other.go peer_fd.go owner_unix.go owner_other.go adminsock.go

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// MaxPath is how long the path of a socket may be, in bytes. Linux allows 107, macOS 103.
const MaxPath = 100

var (
	// ErrNoSocket: no process listens for the store, or the process has no such socket.
	ErrNoSocket = errors.New("adminsock: no process listens at the store")
	// ErrUser: the other end belongs to another user.
	ErrUser = errors.New("adminsock: the other end is another user's")
)

// errNoPeer: the system doesn't say whose the other end is.
var errNoPeer = errors.New("adminsock: the system doesn't tell whose the other end is")

// allowed returns nil if a peer with this user id may be spoken to: it is this user's, or root's. Root speaks to
// the owner of the store as well, which is what owner is.
func allowed(uid, owner int) error {
	me := os.Getuid()
	if uid == me || uid == 0 || me == 0 && uid == owner {
		return nil
	}
	return fmt.Errorf("%w: user %d, and this is user %d", ErrUser, uid, me)
}

// notThere says that err means that nothing listens.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) || refused(err) {
		return fmt.Errorf("%w: %w", ErrNoSocket, err)
	}
	return err
}
