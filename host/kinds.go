package host

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// A catalog is the types of a host.
type catalog struct{ now atomic.Pointer[kinds] }

// kinds are types by their names, and by their actions.
type kinds struct {
	byName map[string]*kind
	owners map[*action]*kind // whose actions they are
}

// newKinds returns the types by their names, and by their actions. No action may be in two types: a call that names the
// action alone would not know whose it is.
func newKinds(types []*Type) (*kinds, error) {
	all := &kinds{map[string]*kind{}, map[*action]*kind{}}
	for _, t := range types {
		k, err := newKind(t)
		if err != nil {
			return nil, err
		}
		if all.byName[t.Name] != nil {
			return nil, fmt.Errorf("%w: there are two %q", ErrTypes, t.Name)
		}
		if err := all.add(k); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add adds a type.
func (ks *kinds) add(k *kind) error {
	ks.byName[k.Name] = k
	for _, a := range k.actions {
		if o := ks.owners[a]; o != nil {
			return fmt.Errorf("%w: both %s and %s list the same action %q", ErrTypes, o.Name, k.Name, a.Name)
		}
		ks.owners[a] = k
	}
	return nil
}

// kind returns the type of a name, nil without one.
func (s *catalog) kind(name string) *kind { return s.now.Load().byName[name] }

// Types returns the names of the types, sorted.
func (s *catalog) Types() []string { return slices.Sorted(maps.Keys(s.now.Load().byName)) }
