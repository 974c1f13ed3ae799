// Package memdir finds a folder in memory, for files that may go with the machine: those of tests,
// and of servers that measurements start. To make and to remove a file costs the file system of a
// disk several times as much.
package memdir
