package reads

// MaxLengths is maxLengths.
const MaxLengths = maxLengths

// Held returns how many undos and states the Reads of a far engine hold, and of how many bytes.
func Held(r Reads) (n int, bytes int64) {
	t := r.(*far)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.past.undos) + len(t.past.states), t.past.held
}

// Lengths returns how many lengths are remembered.
func Lengths(r Reads) int { return len(r.(*plain).sizes) }

// LockNear keeps what is read on a near engine from being entered, until unlock.
func LockNear(r Reads) (unlock func()) {
	n := r.(*near)
	n.mu.Lock()
	return n.mu.Unlock
}
