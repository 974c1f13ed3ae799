package runnerproto

// A KVRequest asks the engine for something about the keys of one actor, which must be one of the runner's. The bytes in
// it alias what it was decoded from.
type KVRequest struct {
	Actor string // the actor's id
	ID    uint32 // the runner's, for the response
	Body  KVRequestBody
}

// A KVRequestBody is one of KVGet, KVList, KVPut, KVDelete, KVDeleteRange and KVDrop.
type KVRequestBody interface{ kvRequest() }

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
type KVQuery interface{ kvQuery() }

// KVAll means all keys.
type KVAll struct{}

// KVRange means the keys k with Start ≤ k ≤ End, or with Start ≤ k < End if it is Exclusive.
type KVRange struct {
	Start, End []byte
	Exclusive  bool
}

// KVPrefix means the keys that begin with Prefix.
type KVPrefix struct{ Prefix []byte }

var (
	kvRequests = union[KVRequestBody]{
		of[KVRequestBody]((*KVGet).fields),
		of[KVRequestBody]((*KVList).fields),
		of[KVRequestBody]((*KVPut).fields),
		of[KVRequestBody]((*KVDelete).fields),
		of[KVRequestBody]((*KVDeleteRange).fields).from(V7),
		of[KVRequestBody](nothing[KVDrop]),
	}
	kvQueries = union[KVQuery]{of[KVQuery](nothing[KVAll]), of[KVQuery]((*KVRange).fields), of[KVQuery]((*KVPrefix).fields)}
)

func (KVRequest) toEngine()      {}
func (KVGet) kvRequest()         {}
func (KVList) kvRequest()        {}
func (KVPut) kvRequest()         {}
func (KVDelete) kvRequest()      {}
func (KVDeleteRange) kvRequest() {}
func (KVDrop) kvRequest()        {}
func (KVAll) kvQuery()           {}
func (KVRange) kvQuery()         {}
func (KVPrefix) kvQuery()        {}

func (q *KVRequest) fields(c *codec) {
	c.str(&q.Actor)
	c.u32(&q.ID)
	kvRequests.value(c, &q.Body, "request without a body")
}

func (q *KVGet) fields(c *codec) { c.datas(&q.Keys) }

func (q *KVList) fields(c *codec) {
	kvQueries.value(c, &q.Query, "list without a query")
	optional(c, &q.Reverse, (*codec).bool)
	optional(c, &q.Limit, (*codec).u64)
}

func (q *KVPut) fields(c *codec) {
	list(c, &q.Pairs, func(p *KVPair, c *codec) { c.data(&p.Key) })
	column(c, q.Pairs, "%d keys, %d values", func(p *KVPair, c *codec) { c.data(&p.Value) })
}

func (q *KVDelete) fields(c *codec) { c.datas(&q.Keys) }

func (q *KVDeleteRange) fields(c *codec) {
	c.data(&q.Start)
	c.data(&q.End)
}

func (q *KVRange) fields(c *codec) {
	c.data(&q.Start)
	c.data(&q.End)
	c.bool(&q.Exclusive)
}

func (q *KVPrefix) fields(c *codec) { c.data(&q.Prefix) }

// A KVResponse is the engine's answer to a KVRequest. The bytes in it alias what it was decoded from.
type KVResponse struct {
	ID   uint32 // of the request
	Body KVResponseBody
}

// A KVResponseBody is one of KVError, KVGot, KVListed, KVPutDone, KVDeleted and KVDropped.
type KVResponseBody interface{ kvResponse() }

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

var kvResponses = union[KVResponseBody]{
	of[KVResponseBody]((*KVError).fields),
	of[KVResponseBody]((*KVGot).fields),
	of[KVResponseBody]((*KVListed).fields),
	of[KVResponseBody](nothing[KVPutDone]),
	of[KVResponseBody](nothing[KVDeleted]),
	of[KVResponseBody](nothing[KVDropped]),
}

func (KVResponse) toRunner()  {}
func (KVError) kvResponse()   {}
func (KVGot) kvResponse()     {}
func (KVListed) kvResponse()  {}
func (KVPutDone) kvResponse() {}
func (KVDeleted) kvResponse() {}
func (KVDropped) kvResponse() {}

func (p *KVResponse) fields(c *codec) {
	c.u32(&p.ID)
	kvResponses.value(c, &p.Body, "response without a body")
}

func (e *KVError) fields(c *codec)  { c.str(&e.Message) }
func (g *KVGot) fields(c *codec)    { entries(c, &g.Entries) }
func (l *KVListed) fields(c *codec) { entries(c, &l.Entries) }

// entries goes over three lists: the keys, the values, and what is known about each.
func entries(c *codec, p *[]KVEntry) {
	list(c, p, func(e *KVEntry, c *codec) { c.data(&e.Key) })
	column(c, *p, "%d keys, %d values", func(e *KVEntry, c *codec) { c.data(&e.Value) })
	column(c, *p, "%d keys, metadata of %d", (*KVEntry).metadata)
}

func (e *KVEntry) metadata(c *codec) {
	c.data(&e.Version)
	c.i64(&e.UpdatedAt)
}
