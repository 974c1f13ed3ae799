package inspector

import (
	"maps"
	"net/http"
	"slices"
)

// A form is one that was sent, to be shown again with what its visitor has typed.
type form struct {
	Action        string // its path and parameters
	Hidden, Typed []field
}

// A field is one of a form.
type field struct{ Name, Label, Value string }

// typed are the labels of the fields into which visitors type.
var typed = map[string]string{"name": "Name", "body": "Body, in JSON", "delay": "Delay", "kind": "Type", "value": "Value", "state": "State, in JSON"}

// formOf returns the form that a request has sent, nil if nothing was typed there.
func formOf(r *http.Request) *form {
	f := &form{Action: r.URL.RequestURI()}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		of := field{name, typed[name], r.PostForm.Get(name)}
		if of.Label == "" {
			f.Hidden = append(f.Hidden, of)
		} else {
			f.Typed = append(f.Typed, of)
		}
	}
	if len(f.Typed) == 0 {
		return nil
	}
	return f
}
