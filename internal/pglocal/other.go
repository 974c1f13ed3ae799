//go:build !unix

package pglocal

// A Node is one server with its data.
type Node struct {
	// Dir is empty.
	Dir string
}

// Temporary returns ErrMissing: servers are started on Unix only.
func Temporary(string, ...string) (*Node, error) { return nil, ErrMissing }

// URL returns nothing: a Node can't exist here.
func (n *Node) URL(string) string { return "" }

// Stop does nothing: a Node can't exist here.
func (n *Node) Stop() error { return nil }
