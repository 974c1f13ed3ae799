//go:build !race

package traces

// raceEnabled says that the race detector makes everything slow.
const raceEnabled = false
