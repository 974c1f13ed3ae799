package engine

// Held returns how many bytes of clients are in memory.
func (e *Engine) Held() int64 {
	e.budget.mu.Lock()
	defer e.budget.mu.Unlock()
	return e.budget.all.used
}

// MessageOverhead is what counts for a message beside its data, in bytes.
const MessageOverhead = messageOverhead
