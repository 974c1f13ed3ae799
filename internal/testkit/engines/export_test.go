package engines

// Unclone makes the tape one whose engine can't be cloned.
func (t *Tape) Unclone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.states)
}
