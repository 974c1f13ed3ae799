package runnerproto

import "github.com/greenroomdb/greenroom/internal/bare"

// A KVRequest asks the engine for something about the keys of one actor, which must be one of the runner's. The bytes in
// it alias what it was decoded from.
type KVRequest struct {
	Actor string // the actor's id
	ID    uint32 // the runner's, for the response
	Body  KVRequestBody
}

// A KVRequestBody is one of KVGet, KVList, KVPut, KVDelete, KVDeleteRange and KVDrop.
type KVRequestBody interface{ kvRequest(w *writer) }

// KVGet reads keys.
type KVGet struct{ Keys [][]byte }

// KVList reads the keys of a range, in their order.
type KVList struct {
	Query   KVQuery
	Reverse Optional[bool]   // from the last key to the first; left out means no
	Limit   Optional[uint64] // of keys; the engine has a limit of its own if it is left out
}

// KVPut writes keys, all or none.
type KVPut struct{ Pairs []KVPair }

// A KVPair is a key and its value.
type KVPair struct{ Key, Value []byte }

// KVDelete deletes keys.
type KVDelete struct{ Keys [][]byte }

// KVDeleteRange deletes the keys k with Start ≤ k < End. It exists since V7.
type KVDeleteRange struct{ Start, End []byte }

// KVDrop deletes all keys.
type KVDrop struct{}

// A KVQuery says which keys are listed: KVAll, KVRange or KVPrefix.
type KVQuery interface{ kvQuery(w *writer) }

// KVAll means all keys.
type KVAll struct{}

// KVRange means the keys k with Start ≤ k ≤ End, or with Start ≤ k < End if it is Exclusive.
type KVRange struct {
	Start, End []byte
	Exclusive  bool
}

// KVPrefix means the keys that begin with Prefix.
type KVPrefix struct{ Prefix []byte }

// Tags of requests, as V7 has them, and of queries.
const (
	tagGet = iota
	tagList
	tagPut
	tagDelete
	tagDeleteRange // up to V6, tagDrop has this number
	tagDrop
	requestTags
)
const (
	tagAll = iota
	tagRange
	tagPrefix
	queryTags
)

func (q KVRequest) toEngine(w *writer) {
	w.tag(tagKVRequest)
	w.str(q.Actor)
	w.u32(q.ID)
	if q.Body == nil {
		w.fail("request without a body")
		return
	}
	q.Body.kvRequest(w)
}

func (q KVGet) kvRequest(w *writer) {
	w.tag(tagGet)
	appendDatas(w, q.Keys)
}

func (q KVList) kvRequest(w *writer) {
	w.tag(tagList)
	if q.Query == nil {
		w.fail("list without a query")
		return
	}
	q.Query.kvQuery(w)
	appendOptional(w, q.Reverse, (*writer).bool)
	appendOptional(w, q.Limit, (*writer).u64)
}

func (q KVPut) kvRequest(w *writer) {
	w.tag(tagPut)
	w.count(len(q.Pairs))
	for _, p := range q.Pairs {
		w.data(p.Key)
	}
	w.count(len(q.Pairs))
	for _, p := range q.Pairs {
		w.data(p.Value)
	}
}

func (q KVDelete) kvRequest(w *writer) {
	w.tag(tagDelete)
	appendDatas(w, q.Keys)
}

func (q KVDeleteRange) kvRequest(w *writer) {
	w.since(V7, "KVDeleteRange")
	w.tag(tagDeleteRange)
	w.data(q.Start)
	w.data(q.End)
}

func (KVDrop) kvRequest(w *writer) {
	if w.v < V7 {
		w.tag(tagDrop - 1)
		return
	}
	w.tag(tagDrop)
}

func (KVAll) kvQuery(w *writer) { w.tag(tagAll) }

func (q KVRange) kvQuery(w *writer) {
	w.tag(tagRange)
	w.data(q.Start)
	w.data(q.End)
	w.bool(q.Exclusive)
}

func (q KVPrefix) kvQuery(w *writer) {
	w.tag(tagPrefix)
	w.data(q.Prefix)
}

func readKVRequest(r *bare.Reader, v Version) KVRequest {
	return KVRequest{r.String(), r.U32(), readKVRequestBody(r, v)}
}

func readKVRequestBody(r *bare.Reader, v Version) KVRequestBody {
	switch readRequestTag(r, v) {
	case tagList:
		return KVList{readKVQuery(r), readOptional(r, (*bare.Reader).Bool), readOptional(r, (*bare.Reader).U64)}
	case tagPut:
		return KVPut{readPairs(r)}
	case tagDelete:
		return KVDelete{readList(r, (*bare.Reader).Data)}
	case tagDeleteRange:
		return KVDeleteRange{r.Data(), r.Data()}
	case tagDrop:
		return KVDrop{}
	}
	return KVGet{readList(r, (*bare.Reader).Data)}
}

func readRequestTag(r *bare.Reader, v Version) uint8 {
	if v >= V7 {
		return r.Tag(requestTags)
	}
	tag := r.Tag(requestTags - 1)
	if tag == tagDrop-1 {
		return tagDrop
	}
	return tag
}

func readKVQuery(r *bare.Reader) KVQuery {
	switch r.Tag(queryTags) {
	case tagRange:
		return KVRange{r.Data(), r.Data(), r.Bool()}
	case tagPrefix:
		return KVPrefix{r.Data()}
	}
	return KVAll{}
}

func readPairs(r *bare.Reader) []KVPair {
	keys := readList(r, (*bare.Reader).Data)
	values := readList(r, (*bare.Reader).Data)
	if len(keys) != len(values) {
		r.Fail("%d keys, %d values", len(keys), len(values))
	}
	if r.Err() != nil || len(keys) == 0 {
		return nil
	}
	pairs := make([]KVPair, len(keys))
	for i := range pairs {
		pairs[i] = KVPair{keys[i], values[i]}
	}
	return pairs
}
