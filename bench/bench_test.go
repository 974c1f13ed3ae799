package main

import (
	"slices"
	"strings"
	"testing"
)

// BenchmarkSubjects has every workload as a standard benchmark of the subject alone, on Pebble:
// for -memprofile, and for tuning one of them. It says nothing about peers, which the program
// measures in turns.
func BenchmarkSubjects(b *testing.B) {
	for _, w := range workloads() {
		if !slices.ContainsFunc(w.peers, func(p peer) bool { return p.where != withPeers }) {
			continue // a process of its own is to be installed
		}
		b.Run(w.name, func(b *testing.B) {
			staged(b, site{on: enginePebble, sizes: quickSizes, bin: b.TempDir()}, func(s *stand) {
				w.subject()(s)
				// The first operations, of each actor where there are many, are other ones.
				check(s.do(2 * max(1, len(s.workers))))
				b.ReportAllocs()
				b.ResetTimer()
				check(s.do(b.N))
				b.StopTimer()
			})
		})
	}
}

// linesOf returns the lines on Pebble whose titles begin with what is given.
func linesOf(title string) []line {
	return slices.DeleteFunc(lines(enginePebble, false), func(l line) bool { return !strings.HasPrefix(l.title(), title) })
}

// workloadOf returns the first workload of that name.
func workloadOf(name string) workload {
	all := workloads()
	return all[slices.IndexFunc(all, func(w workload) bool { return w.name == name })]
}
