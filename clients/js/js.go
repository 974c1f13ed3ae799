// Package js has the client for browsers and Node, one ES module, for programs that serve it with pages of their own.
// docs/javascript.md tells how it is used.
package js

import (
	"embed"
	"io/fs"
)

//go:embed greenroom.js
var files embed.FS

// Files holds the client as greenroom.js.
func Files() fs.FS { return files }
