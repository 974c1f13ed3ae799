package workflow

// Join runs branches side by side and returns what they return, in their order, when all
// have ended. Those that have come to an end are not run again by later runs. If branches
// fail the error is a *BranchesError, and the results of the others are there all the same.
func Join[T any](c *Context, name string, branches ...Branch[T]) ([]T, error) {
	bs := make([]branch, len(branches))
	for i, b := range branches {
		bs[i] = b.encodes()
	}
	f := c.join(name, bs)
	defer c.end()
	outs := make([]T, len(bs))
	for i := range bs {
		f.output(i, func(codec Codec, out []byte) error { return codec.Decode(out, &outs[i]) })
	}
	return outs, f.joined()
}

// join runs the branches.
func (c *Context) join(name string, branches []branch) *fork {
	f := c.fork(name, false, branches)
	f.run()
	f.close()
	return f
}

// output decodes what branch i has returned, if it has.
func (f *fork) output(i int, decode func(codec Codec, out []byte) error) {
	f.mu.Lock()
	out := f.state[i].Output
	f.mu.Unlock()
	if out == nil {
		return
	}
	if err := decode(f.c.r.wf.opts.Codec, out); err != nil {
		f.diverged("the output of branch %q is of another type: %v", f.branches[i].name, err)
	}
}

// joined returns the error of a join.
func (f *fork) joined() error {
	if errs := f.failed(); len(errs) > 0 {
		return &BranchesError{f.path(), errs}
	}
	return nil
}

// A Group is the branches of a join whose results are of different types. Make one with
// NewGroup, add branches with Go, and run them with Join:
//
//	g := workflow.NewGroup("checkout")
//	charge := workflow.Go(g, "charge", func(c *workflow.Context) (Receipt, error) { … })
//	label := workflow.Go(g, "label", func(c *workflow.Context) (Label, error) { … })
//	if err := g.Join(c); err != nil { … }
//	use(charge.Value(), label.Value())
type Group struct {
	name     string
	branches []branch
	outputs  []func(codec Codec, out []byte) error
}

// NewGroup returns a Group without branches, whose join has the name.
func NewGroup(name string) *Group { return &Group{name: name} }

// A Result is what a branch of a Group returns.
type Result[T any] struct{ value T }

// Value returns it; the zero T before Group.Join, and if the branch failed.
func (r *Result[T]) Value() T { return r.value }

// Go adds a branch to g, which is run by Group.Join.
func Go[T any](g *Group, name string, run func(c *Context) (T, error)) *Result[T] {
	r := &Result[T]{}
	g.branches = append(g.branches, Branch[T]{name, run}.encodes())
	g.outputs = append(g.outputs, func(codec Codec, out []byte) error { return codec.Decode(out, &r.value) })
	return r
}

// Join is the function Join for the branches of g, once.
func (g *Group) Join(c *Context) error {
	f := c.join(g.name, g.branches)
	defer c.end()
	for i, output := range g.outputs {
		f.output(i, output)
	}
	return f.joined()
}
