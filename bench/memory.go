package main

import (
	"fmt"
	"os"
)

// A peakMeter tells the most memory that a process had resident: the folder of that process
// in /proc, as Linux has it. Elsewhere it tells 0.
// See https://man7.org/linux/man-pages/man5/proc.5.html.
type peakMeter string

const ownMemory peakMeter = "/proc/self"

// memoryOf is the meter of another process.
func memoryOf(pid int) peakMeter { return peakMeter(fmt.Sprint("/proc/", pid)) }

// reset forgets the peak. Where that isn't allowed the peak is that of the process's life.
func (m peakMeter) reset() {
	_ = os.WriteFile(string(m)+"/clear_refs", []byte("5"), 0) // what a peak is then is said above
}

// peak returns the peak since reset, in bytes.
func (m peakMeter) peak() int64 { return procSize(string(m)+"/status", "VmHWM") }
