package runnerproto

import "github.com/greenroomdb/greenroom/internal/bare"

// A KVResponse is the engine's answer to a KVRequest. The bytes in it alias what it was decoded from.
type KVResponse struct {
	ID   uint32 // of the request
	Body KVResponseBody
}

// A KVResponseBody is one of KVError, KVGot, KVListed, KVPutDone, KVDeleted and KVDropped.
type KVResponseBody interface{ kvResponse(w *writer) }

// KVError says that the engine has done nothing, and why.
type KVError struct{ Message string }

// KVGot answers KVGet. It leaves out the keys that don't exist.
type KVGot struct{ Entries []KVEntry }

// KVListed answers KVList.
type KVListed struct{ Entries []KVEntry }

// A KVEntry is a key with its value, and when it was written.
type KVEntry struct {
	Key, Value []byte
	Version    []byte // of the value, opaque to the runner
	UpdatedAt  int64  // Unix milliseconds
}

// KVPutDone answers KVPut: what it wrote is durable.
type KVPutDone struct{}

// KVDeleted answers KVDelete and KVDeleteRange.
type KVDeleted struct{}

// KVDropped answers KVDrop.
type KVDropped struct{}

// Tags of responses.
const (
	tagError = iota
	tagGot
	tagListed
	tagPutDone
	tagDeleted
	tagDropped
	responseTags
)

func (p KVResponse) toRunner(w *writer) {
	w.tag(tagKVResponse)
	w.u32(p.ID)
	if p.Body == nil {
		w.fail("response without a body")
		return
	}
	p.Body.kvResponse(w)
}

func (e KVError) kvResponse(w *writer) {
	w.tag(tagError)
	w.str(e.Message)
}

func (g KVGot) kvResponse(w *writer) {
	w.tag(tagGot)
	appendEntries(w, g.Entries)
}

func (l KVListed) kvResponse(w *writer) {
	w.tag(tagListed)
	appendEntries(w, l.Entries)
}

func (KVPutDone) kvResponse(w *writer) { w.tag(tagPutDone) }
func (KVDeleted) kvResponse(w *writer) { w.tag(tagDeleted) }
func (KVDropped) kvResponse(w *writer) { w.tag(tagDropped) }

// appendEntries writes three lists: the keys, the values, and what is known about each.
func appendEntries(w *writer, entries []KVEntry) {
	w.count(len(entries))
	for _, e := range entries {
		w.data(e.Key)
	}
	w.count(len(entries))
	for _, e := range entries {
		w.data(e.Value)
	}
	w.count(len(entries))
	for _, e := range entries {
		w.data(e.Version)
		w.i64(e.UpdatedAt)
	}
}

func readKVResponse(r *bare.Reader) KVResponse {
	return KVResponse{r.U32(), readKVResponseBody(r)}
}

func readKVResponseBody(r *bare.Reader) KVResponseBody {
	switch r.Tag(responseTags) {
	case tagGot:
		return KVGot{readEntries(r)}
	case tagListed:
		return KVListed{readEntries(r)}
	case tagPutDone:
		return KVPutDone{}
	case tagDeleted:
		return KVDeleted{}
	case tagDropped:
		return KVDropped{}
	}
	return KVError{r.String()}
}

func readEntries(r *bare.Reader) []KVEntry {
	pairs := readPairs(r)
	if n := r.Len(MaxCount); n != len(pairs) {
		r.Fail("%d keys, metadata of %d", len(pairs), n)
	}
	if r.Err() != nil || len(pairs) == 0 {
		return nil
	}
	entries := make([]KVEntry, len(pairs))
	for i, p := range pairs {
		entries[i] = KVEntry{p.Key, p.Value, r.Data(), r.I64()}
	}
	return entries
}
