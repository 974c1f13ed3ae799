package workflow

// Race runs branches side by side until one succeeds, and returns its name and what it
// returned. The others have lost: their contexts are over, they leave, and what is
// recorded of them is removed with the commit that records the winner. What they did has
// happened all the same, messages that they received are gone unless they were
// Completable, and nothing of it is undone if the workflow fails.
//
// If all branches fail the error is a *BranchesError.
func Race[T any](c *Context, name string, branches ...Branch[T]) (winner string, out T, err error) {
	bs := make([]branch, len(branches))
	for i, b := range branches {
		bs[i] = b.encodes()
	}
	f := c.fork(name, true, bs)
	defer c.end()
	if len(bs) == 0 {
		c.misuse(name, "it has no branches")
	}
	if f.won < 0 || c.r.undoing != nil {
		f.run()
	}
	if won := f.winner(); won >= 0 {
		f.output(won, func(codec Codec, data []byte) error { return codec.Decode(data, &out) })
		return bs[won].name, out, nil
	}
	f.close()
	return "", out, &BranchesError{f.path(), f.failed()}
}
