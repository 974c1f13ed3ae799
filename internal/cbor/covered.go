package cbor

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A covered field is one that the library neither writes nor reads, because of another one that
// has its name in CBOR.
type covered struct {
	name  string
	index []int
}

// in returns the field of a struct, and false if it has none because a pointer is nil.
func (f covered) in(v reflect.Value) (reflect.Value, bool) {
	for i, n := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(n)
	}
	return v, true
}

// A tagged field is one of a struct, or of a struct embedded in it.
type tagged struct {
	covered
	key    string // in CBOR
	number bool   // the key is one
	named  bool   // by a tag
}

// compare is below 0 if f is the one that counts.
func (f tagged) compare(g tagged) int {
	switch {
	case len(f.index) != len(g.index):
		return cmp.Compare(len(f.index), len(g.index))
	case f.named == g.named:
		return 0
	case f.named:
		return -1
	}
	return 1
}

// A layer is the structs that are embedded equally deep, and where each is.
type layer map[reflect.Type][]covered

// coveredFields returns those of a struct, by the rules of encoding/json, which are those of the
// library: of fields with one name the least deep counts, of these the one with a tag, and none if
// there are several. Of a struct that is embedded more than once only the least deep counts.
func coveredFields(t reflect.Type) (out []covered) {
	var all []tagged
	seen := map[reflect.Type]bool{}
	for at := (layer{t: {{}}}); len(at) > 0; {
		next := layer{}
		for t, in := range at {
			if len(in) > 1 || seen[t] {
				out = append(out, in...)
				continue
			}
			seen[t] = true
			all = next.add(all, t, in[0])
		}
		at = next
	}
	type key struct {
		text   string
		number bool
	}
	alike := map[key][]tagged{}
	for _, f := range all {
		k := key{f.key, f.number}
		alike[k] = append(alike[k], f)
	}
	for _, fields := range alike {
		slices.SortFunc(fields, tagged.compare)
		if len(fields) == 1 || fields[0].compare(fields[1]) < 0 {
			fields = fields[1:]
		}
		for _, f := range fields {
			out = append(out, f.covered)
		}
	}
	slices.SortFunc(out, func(a, b covered) int { return slices.Compare(a.index, b.index) })
	return out
}

// add adds the fields of a struct to all, and the structs that it embeds to the layer.
func (l layer) add(all []tagged, t reflect.Type, in covered) []tagged {
	for i := range t.NumField() {
		f := t.Field(i)
		to := target(f.Type)
		tag := fieldTag(f)
		if tag == "-" || !f.IsExported() && (!f.Anonymous || to.Kind() != reflect.Struct) {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		at := covered{strings.TrimPrefix(in.name+"."+f.Name, "."), append(slices.Clone(in.index), i)}
		if f.Anonymous && to.Kind() == reflect.Struct && name == "" {
			l[to] = append(l[to], at)
			continue
		}
		is := tagged{covered: at, key: name, named: tag != "", number: slices.Contains(strings.Split(options, ","), "keyasint")}
		if name == "" {
			is.key = f.Name
		}
		if n, err := strconv.Atoi(is.key); is.number && err == nil {
			is.key = strconv.Itoa(n)
		}
		all = append(all, is)
	}
	return all
}

// fieldTag returns what the library goes by.
func fieldTag(f reflect.StructField) string {
	if tag := f.Tag.Get("cbor"); tag != "" {
		return tag
	}
	return f.Tag.Get("json")
}
