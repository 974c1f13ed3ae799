package history

// maxName is the length of the longest name, in bytes.
const maxName = 4096

// clip returns the beginning of a long name.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return name[:most] + "…"
	}
	return name
}

// A registry is the names of a workflow, by their indexes. It is a part of memory, under its lock.
type registry struct {
	names  []string
	index  map[string]NameIndex
	stored NameIndex // the names below it are stored
}

// register returns the index of a name.
func (r *registry) register(name string) NameIndex {
	i, ok := r.index[name]
	if !ok {
		i = NameIndex(len(r.names))
		r.names = append(r.names, name)
		r.index[name] = i
	}
	return i
}
