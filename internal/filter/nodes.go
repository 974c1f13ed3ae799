package filter

import (
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// A planner says how a program's plan differs from the interpreter's own. Some nodes of that do
// unbounded work in one step, and know missing keys as errors only.
type planner struct {
	// turns has what one turn of a loop costs, under the id of what it ranges over.
	turns map[int64]uint64
}

// A node of a plan, evaluated in another way. The interpreter doesn't see what kind of node it
// was, and so leaves it as it is.
type node struct {
	interpreter.InterpretableV2
	exec func(*frame) ref.Val
}

// Exec implements interpreter.InterpretableV2.
func (n *node) Exec(f *frame) ref.Val { return n.exec(f) }

// Eval implements interpreter.Interpretable.
func (n *node) Eval(a interpreter.Activation) ref.Val { return n.exec(interpreter.AsFrame(a)) }

// decorate returns what takes the place of a node.
func (p *planner) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	id := i.ID()
	switch n := i.(type) {
	case *textNode:
	case interpreter.InterpretableConst:
		if n.Value() == types.NullValue {
			i = interpreter.NewConstValue(id, missing)
		}
	case interpreter.InterpretableConstructor:
		if n.Type() == types.MapType {
			i = mapNode(n)
		}
	case interpreter.InterpretableAttribute:
		if len(p.turns) > 0 {
			i = &textNode{n}
		}
	case interpreter.InterpretableCall:
		i = p.call(n)
	}
	if turn, ok := p.turns[id]; ok {
		i = rangeNode(i, turn)
	}
	return i, nil
}

func (p *planner) call(n interpreter.InterpretableCall) interpreter.InterpretableV2 {
	args := n.Args()
	if len(args) == 2 {
		switch n.Function() {
		case operators.Equals:
			return binaryNode(n, args, func(c *counter, a, b ref.Val) ref.Val { return types.Bool(c.equal(a, b)) })
		case operators.NotEquals:
			return binaryNode(n, args, func(c *counter, a, b ref.Val) ref.Val { return types.Bool(!c.equal(a, b)) })
		case operators.In:
			return binaryNode(n, args, (*counter).in)
		case overloads.Matches:
			return binaryNode(n, args, newMatcher(args[1]).match)
		}
	}
	switch name := n.Function(); {
	case len(p.turns) == 0:
	case name == operators.Add, name == overloads.TypeConvertString, name == overloads.TypeConvertBytes:
		return resultNode(n, 0)
	case strings.HasPrefix(name, "get") && len(args) == 2:
		return resultNode(n, zoneCost)
	}
	return n
}

// binaryNode evaluates an operator of two values.
func binaryNode(n interpreter.InterpretableV2, args []interpreter.InterpretableV2, apply func(c *counter, a, b ref.Val) ref.Val) *node {
	return &node{n, func(f *frame) ref.Val {
		a := args[0].Exec(f)
		if types.IsError(a) {
			return a
		}
		b := args[1].Exec(f)
		if types.IsError(b) {
			return b
		}
		return apply(counterOf(f), a, b)
	}}
}

// mapNode makes a map.
func mapNode(n interpreter.InterpretableConstructor) *node {
	parts := n.InitVals()
	return &node{n, func(f *frame) ref.Val {
		m := make(anyMap, len(parts)/2)
		for i := 0; i < len(parts); i += 2 {
			key, value := parts[i].Exec(f), parts[i+1].Exec(f)
			switch _, twice := m.field(key); {
			case types.IsError(key):
				return key
			case types.IsError(value):
				return value
			case !scalar(key):
				return types.NewErr("a key of the type %s", key.Type().TypeName())
			case twice:
				return types.NewErr("the key %v twice", key)
			}
			m[key.Value()] = value
		}
		return mapping[anyMap]{m}
	}}
}

// A textNode is a variable or a field, in a program with loops. It counts the text that it
// reads. Others add fields to it, so it stays an attribute.
type textNode struct {
	interpreter.InterpretableAttribute
}

// Exec implements interpreter.InterpretableV2.
func (n *textNode) Exec(f *frame) ref.Val {
	v := n.InterpretableAttribute.Exec(f)
	if size := textSize(v); size >= textPerStep {
		counterOf(f).spend(size / textPerStep)
	}
	return v
}

// Eval implements interpreter.Interpretable.
func (n *textNode) Eval(a interpreter.Activation) ref.Val { return n.Exec(interpreter.AsFrame(a)) }

// Qualify implements interpreter.Qualifier: the value is a key, as in m[this.k].
func (n *textNode) Qualify(vars interpreter.Activation, obj any) (any, error) {
	n.Exec(interpreter.AsFrame(vars))
	return n.InterpretableAttribute.Qualify(vars, obj)
}

// zoneCost is that of finding a time zone, which may be in a file.
const zoneCost = 100

// resultNode is a call in a program with loops. It counts what it makes.
func resultNode(n interpreter.InterpretableV2, cost uint64) *node {
	return &node{n, func(f *frame) ref.Val {
		v := n.Exec(f)
		size := textSize(v)
		switch list := v.(type) {
		case traits.MutableLister: // the result of a macro, to which each turn adds one element
		case traits.Lister:
			size = uint64(list.Size().(types.Int))
		}
		counterOf(f).spend(cost + size/textPerStep)
		return v
	}}
}

// rangeNode is what a loop goes over. It counts the turns, and the keys of a map, of which all
// are collected for the first turn.
func rangeNode(n interpreter.InterpretableV2, turn uint64) *node {
	return &node{n, func(f *frame) ref.Val {
		v, c := n.Exec(f), counterOf(f)
		if m, ok := v.(mapper); ok {
			c.spend(uint64(m.length()))
		}
		if over, ok := v.(traits.Iterable); ok {
			return &countedRange{v, over, c, turn}
		}
		return v
	}}
}

// A countedRange is a value that counts the turns of a loop over it.
type countedRange struct {
	ref.Val
	over traits.Iterable
	c    *counter
	turn uint64
}

// Iterator implements traits.Iterable.
func (r *countedRange) Iterator() traits.Iterator {
	return &countedIterator{r.over.Iterator(), r.c, r.turn}
}

type countedIterator struct {
	traits.Iterator
	c    *counter
	turn uint64
}

// Next implements traits.Iterator.
func (i *countedIterator) Next() ref.Val {
	i.c.spend(i.turn)
	return i.Iterator.Next()
}
