//go:build !linux

package pglocal

// Memory returns "", the system's temporary folder: one in memory is known on Linux only.
func Memory() string { return "" }
