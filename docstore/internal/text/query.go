package text

import (
	"slices"
	"strings"
)

// An Op is what a Query asks for.
type Op uint8

// The operators.
const (
	All    Op = iota // Every text.
	None             // No text.
	One              // Texts that have Gram.
	Begins           // Texts that have a gram that begins with Prefix.
	And              // Texts that satisfy all of Sub.
	Or               // Texts that satisfy one of Sub.
)

// A Query says which grams the texts have that a pattern may match. It must not be changed.
type Query struct {
	Op     Op
	Gram   Gram     // If Op is One.
	Prefix string   // If Op is Begins: one or two characters, as the grams have them. See AppendKey.
	Sub    []*Query // If Op is And or Or: two queries or more.
	// Exact means that the pattern matches every text that satisfies the query. It is never set within Sub.
	Exact bool
}

// maxGrams is how many grams and prefixes a query has at most.
const maxGrams = 64

// planAny returns the query of the texts that hold one of set, whose strings are in the characters of grams.
func planAny(set ...string) *Query {
	if len(set) > maxGrams {
		return &Query{Op: All}
	}
	var subs []*Query
	for _, s := range set {
		var grams []*Query
		runes := []rune(s)
		if len(runes) == 1 || len(runes) == 2 {
			grams = []*Query{{Op: Begins, Prefix: s}}
		}
		for ; len(runes) >= 3 && len(grams) < maxGrams/len(set); runes = runes[1:] {
			grams = append(grams, &Query{Op: One, Gram: Gram(0).push(runes[0]).push(runes[1]).push(runes[2])})
		}
		subs = append(subs, and(grams...))
	}
	return or(subs...)
}

// and returns a query that every text satisfies that satisfies all of qs. Where some of qs ask for grams alone, it
// leaves out those with prefixes: for a prefix many postings are read, and few documents are ruled out.
func and(qs ...*Query) *Query {
	subs := merge(And, qs, func(q, old *Query) bool { return old.implies(q) })
	if slices.ContainsFunc(subs, func(q *Query) bool { return q.count(Begins) == 0 }) {
		subs = slices.DeleteFunc(subs, func(q *Query) bool { return q.count(Begins) > 0 })
	}
	for len(subs) > 1 && join(And, subs, All).count(One, Begins) > maxGrams {
		subs = subs[:len(subs)-1]
	}
	return join(And, subs, All)
}

// or returns a query that every text satisfies that satisfies one of qs.
func or(qs ...*Query) *Query {
	if q := join(Or, merge(Or, qs, (*Query).implies), None); q.count(One, Begins) <= maxGrams {
		return q
	}
	return &Query{Op: All}
}

// merge returns qs, and in the place of those of the operator op what they join. It leaves out each query that another
// one makes superfluous.
func merge(op Op, qs []*Query, superfluous func(q, other *Query) bool) (merged []*Query) {
	for _, q := range qs {
		terms := []*Query{q}
		if q.Op == op {
			terms = q.Sub
		}
		for _, term := range terms {
			if !slices.ContainsFunc(merged, func(old *Query) bool { return superfluous(term, old) }) {
				merged = slices.DeleteFunc(merged, func(old *Query) bool { return superfluous(old, term) })
				merged = append(merged, term)
			}
		}
	}
	return merged
}

func join(op Op, subs []*Query, empty Op) *Query {
	switch len(subs) {
	case 0:
		return &Query{Op: empty}
	case 1:
		return subs[0]
	}
	return &Query{Op: op, Sub: subs}
}

// implies reports whether it is easily seen that each text that satisfies q satisfies other.
func (q *Query) implies(other *Query) bool {
	switch {
	case q.Op == None || other.Op == All:
		return true
	case q.Op == Or:
		return !slices.ContainsFunc(q.Sub, func(sub *Query) bool { return !sub.implies(other) })
	case other.Op == And:
		return !slices.ContainsFunc(other.Sub, func(sub *Query) bool { return !q.implies(sub) })
	case q.Op == And || other.Op == Or:
		return slices.ContainsFunc(q.Sub, func(sub *Query) bool { return sub.implies(other) }) ||
			slices.ContainsFunc(other.Sub, q.implies)
	case q.Op == One && other.Op == Begins:
		// Every character of a text begins a gram, and every two do.
		return strings.Contains(q.Gram.String(), other.Prefix)
	case q.Op == Begins && other.Op == Begins:
		return strings.Contains(q.Prefix, other.Prefix)
	}
	return q.Op == One && other.Op == One && q.Gram == other.Gram
}

// count returns how many queries of some operators without Sub q has.
func (q *Query) count(ops ...Op) (n int) {
	if slices.Contains(ops, q.Op) {
		n++
	}
	for _, sub := range q.Sub {
		n += sub.count(ops...)
	}
	return n
}
