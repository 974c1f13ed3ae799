package tuple

import "encoding/binary"

// NewID returns the element of an actor id: a UUID and a label, in the user code
// 0x40.
func NewID(uuid UUID, label uint16) User {
	return User{codeID, AppendID(nil, uuid, label)[1:]}
}

// AppendID appends the element that NewID returns, and allocates nothing when dst
// has room: 20 bytes.
func AppendID(dst []byte, uuid UUID, label uint16) []byte {
	dst = append(append(dst, codeID, idVersion), uuid[:]...)
	return binary.BigEndian.AppendUint16(dst, label)
}

// ID returns the UUID and the label of u if it is what NewID makes.
func (u User) ID() (uuid UUID, label uint16, ok bool) {
	if checkUser(u) != nil {
		return UUID{}, 0, false
	}
	return UUID(u.Body[1:17]), binary.BigEndian.Uint16(u.Body[17:]), true
}

// checkUser reports whether u has a code and a body that Unpack knows.
func checkUser(u User) error {
	switch {
	case u.Code != codeID:
		return unsupported("user code %#02x, whose body has no known length", u.Code)
	case len(u.Body) != idBody || u.Body[0] != idVersion:
		return unsupported("id of %d bytes or of an unknown version", len(u.Body))
	}
	return nil
}
