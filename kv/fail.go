package kv

// A Failer is an optional capability of an Engine: one that can fail for good, so that
// every later call is ErrPoisoned, says when it has. It may notice that between two calls.
// A decorator of an engine passes it on.
type Failer interface {
	// Failed returns a channel that is closed when the engine has failed for good. It is
	// the same for the life of the open store.
	Failed() <-chan struct{}
}

// Failed returns the channel of an engine that is a Failer, nil for every other one.
func Failed(e Engine) <-chan struct{} {
	if f, ok := e.(Failer); ok {
		return f.Failed()
	}
	return nil
}
