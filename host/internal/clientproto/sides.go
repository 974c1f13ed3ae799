package clientproto

// What bodies and messages have in common: how each side writes and reads them, by versions.

// fromClient returns a writer of a message of a client of version v. In BARE the version must be
// from first on.
func fromClient(dst []byte, e Encoding, v, first Version, message string) (*writer, error) {
	if e == Bare {
		if err := v.between(first, lastVersion, message); err != nil {
			return nil, err
		}
	}
	return newWriter(dst, e, v, v), nil
}

// atServer returns a reader of a message of a client, and its version. In BARE that must be from
// first on.
func atServer(message string, e Encoding, b []byte, first Version) (*reader, Version) {
	r := newReader(message, e, b)
	v := r.version(first, lastVersion)
	r.unescapes = v >= escapeVersion
	return r, v
}

// fromServer returns a writer of a message to a client, whose version is 0 if it has sent
// nothing.
func fromServer(dst []byte, e Encoding, client Version, message string) (*writer, error) {
	if e == Bare && client > lastVersion {
		return nil, client.between(firstVersion, lastVersion, message)
	}
	return newWriter(dst, e, client.answer(), client), nil
}

// atClient returns a reader of a message to a client, and its version. In BARE both versions must
// be from first on, and that of the message at most the client's, and the last in which a
// server writes.
func atClient(message string, e Encoding, client Version, b []byte, first Version) (*reader, Version) {
	r := newReader(message, e, b)
	if e == Bare && !r.failed() {
		r.err = client.between(first, lastVersion, message)
	}
	v := r.version(first, min(client, lastAnswer))
	r.unescapes = client >= escapeVersion
	return r, v
}

// result ends a message, and returns it if there was no error.
func result[M any](r *reader, m M, v Version) (M, Version, error) {
	if err := r.done(); err != nil {
		var none M
		return none, 0, err
	}
	return m, v, nil
}

// appendOptional writes a field with put if it isn't nil.
func appendOptional[T any](w *writer, name string, v *T, put func(name string, v T)) {
	if v == nil {
		w.absent(name)
		return
	}
	w.present()
	put(name, *v)
}

// appendValue writes an optional value, nil if it is absent.
func appendValue(w *writer, name string, v []byte) {
	if v == nil {
		w.absent(name)
		return
	}
	w.present()
	w.value(name, v)
}

// readOptional reads a field with get if it is there, else it is nil.
func readOptional[T any](r *reader, name string, get func(name string) T) *T {
	if !r.optional(name) {
		return nil
	}
	v := get(name)
	return &v
}

// readValue reads an optional value, nil if it is absent. In CBOR and JSON undefined is
// none, but null is a value.
func readValue(r *reader, name string) []byte {
	switch {
	case r.bare == nil:
		return r.value(name)
	case !r.optional(name):
		return nil
	}
	return r.anyValue(name)
}
