package history

import (
	"crypto/rand"
	"encoding/hex"
)

// Options change what Open does. The zero value is fine.
type Options struct {
	// NewID makes the ids of entries; nil means random UUIDs of version 4. What it returns
	// must be new.
	NewID func() string
	// Changed, unless it is nil, is told of every commit that changed something stored, in
	// their order, after the change of memory. It is called under the actor's commit lock, so
	// it must be quick and must neither commit nor wait for a commit. What it is given is
	// its own, but for the bytes.
	Changed func(Change)
}

// NewID returns a random UUID (https://www.rfc-editor.org/rfc/rfc9562#section-5.4).
func NewID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	var text [36]byte
	at := 0
	for i, b := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:], []byte{b})
		at += 2
	}
	return string(text[:])
}

// A Change is what one commit has changed of a workflow.
type Change struct {
	State     State     // after it
	FirstName NameIndex // index of the first of Names
	Names     []string  // that were added
	Entries   []Entry   // that were put, or whose metadata were, sorted by Location
	Deleted   []Entry   // that are gone; also one in whose place is another, by its ID

	fields bool // whether the state or a value has changed
}

func (c *Change) any() bool {
	return len(c.Names)+len(c.Entries)+len(c.Deleted) > 0 || c.fields
}
