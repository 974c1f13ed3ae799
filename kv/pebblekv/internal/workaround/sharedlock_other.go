//go:build !unix

package workaround

import (
	"io"
	"os"
)

// shareLock opens the file, which Windows refuses while a writer has it open.
func shareLock(name string) (io.Closer, error) { return os.Open(name) }
