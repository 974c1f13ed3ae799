//go:build !unix

package main

import "os"

// reloadSignals is empty without SIGHUP.
var reloadSignals []os.Signal

// maxFiles returns 0: how many files the process may have open is unknown.
func maxFiles() int { return 0 }
