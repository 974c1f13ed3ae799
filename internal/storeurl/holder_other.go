//go:build !unix

package storeurl

// holder returns 0: the system doesn't say which process has a file open.
func holder(string, error) (pid int, program string) { return 0, "" }
