//go:build !unix

package main

import "math"

// cpuTime returns the seconds of processor time that this process has used, which aren't
// known here.
func cpuTime() float64 { return math.NaN() }
