package main

// targets are the ratios that lines should have at least on Pebble, by their titles. A line
// that stays below is no error of a run; docs/performance.md says what it is up against.
// A function, since a map would be a variable that anybody could change.
func target(title string) (atLeast float64, ok bool) {
	atLeast, ok = map[string]float64{
		"sqlite/insert-1 " + fileWALFull:      1,
		"sqlite/insert-1 " + fileDeleteFull:   2.5,
		"sqlite/insert-1 " + rawEngine:        0.9,
		"door/update " + belowDoor:            0.95,
		"sqlite/insert-200 " + fileWALFull:    4,
		"sqlite/insert-200 " + rawEngine:      0.85,
		"sqlite/bulk " + fileWALFull:          1,
		"sqlite/blob " + fileWALFull:          1,
		"sqlite/point " + fileWALFull:         1,
		"sqlite/point " + memoryVFS:           0.85,
		"sqlite/range " + fileWALFull:         1,
		"sqlite/range " + memoryVFS:           0.85,
		"sqlite/scan " + fileWALFull:          1,
		"sqlite/scan " + memoryVFS:            0.85,
		"sqlite/speedtest1 " + fileDeleteFull: 1,
		"sqlite/speedtest1 " + memoryVFS:      0.8,
		"sqlite/open " + fileWALFull:          1,
		"sqlite/readers " + pacePeer:          0.95,
		"sqlite/ops " + rivetkit:              rivetkitOps,
		"queue/cycle " + rawEngine:            0.8,
		"queue/cycle " + sqliteFile:           2,
		"workflow/step " + rawEngine:          0.8,
		"kv/put " + rawEngine:                 0.8,
		"traces/span " + otelNoop:             0.5,
	}[title]
	return atLeast, ok
}
