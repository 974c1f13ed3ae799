package lease

// Unexported functions that tests use.
var (
	Identify = identify
	HasEnded = hasEnded
	StartOf  = startOf
)
