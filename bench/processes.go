package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// processes are those that work for a side, as products run that a user may pick instead. What they use is the side's: processor time, and fsyncs.
type processes struct {
	ids  []int // what they start isn't in it
	here bool  // this process works for the side, too
	// settings are what makes them durable, or not.
	settings string
}

// tree returns processes and all that descend from them, and the seconds of processor time that they took, with children of before, as far as the system
// tells.
func tree(of []int) (all []int, cpu float64) {
	type process struct {
		parent int
		cpu    float64
	}
	there := map[int]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(rest) // from the state on: see proc_pid_stat(5)
		if len(f) < 15 || f[0] == "Z" {
			continue
		}
		p := process{parent: must(strconv.Atoi(f[1]))}
		for _, ticks := range f[11:15] {
			p.cpu += must(strconv.ParseFloat(ticks, 64)) / 100
		}
		there[must(strconv.Atoi(filepath.Base(filepath.Dir(path))))] = p
	}
	all = slices.Clone(of)
	for i := 0; i < len(all); i++ {
		cpu += there[all[i]].cpu
		for pid, p := range there {
			if p.parent == all[i] {
				all = append(all, pid)
			}
		}
	}
	return all, cpu
}
