//go:build !unix

package serving

import "os"

// ReloadSignals is empty without SIGHUP.
var ReloadSignals []os.Signal

// MaxFiles returns 0: how many files the process may have open is unknown.
func MaxFiles() int { return 0 }
