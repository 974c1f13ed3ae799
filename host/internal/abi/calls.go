package abi

// Arguments and results of the functions. Times are milliseconds since 1970, lengths of
// time milliseconds. Structs with toarray are arrays of exactly their fields.

// A Label is a label of the actor, by which it is found; a value of "" removes it.
type Label struct {
	_     struct{} `cbor:",toarray"`
	Key   string
	Value string
}

// An Entry is a user key and its value.
type Entry struct {
	_     struct{} `cbor:",toarray"`
	Key   []byte
	Value []byte
}

// A Span is the keys in [Start, End); an empty End means no bound.
type Span struct {
	_     struct{} `cbor:",toarray"`
	Start []byte
	End   []byte
}

// ListOptions select user keys; the zero value means all of them, in ascending order.
type ListOptions struct {
	// Prefix selects the keys that begin with it, and Start and End, of those, the keys in
	// [Start, End); empty means no bound.
	Prefix []byte `cbor:"prefix,omitempty"`
	Start  []byte `cbor:"start,omitempty"`
	End    []byte `cbor:"end,omitempty"`
	// Reverse yields the entries in descending order.
	Reverse bool `cbor:"reverse,omitempty"`
	// Limit is the largest number of entries; 0 means all.
	Limit int `cbor:"limit,omitempty"`
	// KeysOnly leaves Entry.Value empty.
	KeysOnly bool `cbor:"keys_only,omitempty"`
}

// A Listed is a page of entries. More says that it ended because it was full.
type Listed struct {
	Entries []Entry `cbor:"entries"`
	More    bool    `cbor:"more"`
}

// A Statement is one statement of SQL with its arguments.
type Statement struct {
	_     struct{} `cbor:",toarray"`
	Query string
	Args  []Raw
}

// An Effect is what a statement has done.
type Effect struct {
	Changes Int `cbor:"changes"`
	LastID  Int `cbor:"last_id"`
}

// Rows are what a statement has found.
type Rows struct {
	Columns []string `cbor:"columns"`
	Rows    [][]Raw  `cbor:"rows"`
}

// A Send is a message for the queue.
type Send struct {
	Name  string `cbor:"name"`
	Body  Raw    `cbor:"body"`
	Delay Int    `cbor:"delay,omitempty"`
	Key   string `cbor:"key,omitempty"`

	Priority int `cbor:"priority,omitempty"`

	Debounce    string `cbor:"debounce,omitempty"`
	DebounceMax Int    `cbor:"debounce_max,omitempty"`
}

// An Address names an actor.
type Address struct {
	Type string `cbor:"type"`
	Key  string `cbor:"key"`
}

// A Letter is a message for the queue of another actor.
type Letter struct {
	_       struct{} `cbor:",toarray"`
	To      Address
	Message Send
}

// A Receive says which messages are wanted.
type Receive struct {
	Names      []string `cbor:"names,omitempty"`
	Count      int      `cbor:"count,omitempty"`
	Visibility Int      `cbor:"visibility,omitempty"`
	AtMostOnce bool     `cbor:"at_most_once,omitempty"`
}

// A Message is one that was received. Receipt is "" if it is gone already.
type Message struct {
	ID         Int    `cbor:"id"`
	Name       string `cbor:"name"`
	Body       Raw    `cbor:"body"`
	Created    Int    `cbor:"created"`
	Deliveries uint32 `cbor:"deliveries"`
	Receipt    string `cbor:"receipt"`
	Priority   int    `cbor:"priority,omitempty"`
}

// A Completion settles a message.
type Completion struct {
	_        struct{} `cbor:",toarray"`
	Receipt  string
	Response Raw
}

// A Return gives a message back.
type Return struct {
	_       struct{} `cbor:",toarray"`
	Receipt string
	Delay   Int
}

// A Failed gives a message back of which an attempt has failed.
type Failed struct {
	_       struct{} `cbor:",toarray"`
	Receipt string
	Delay   Int
	Code    string
	Message string
}

// A Job is something to be scheduled: at a time, after a while, or by a rule.
type Job struct {
	ID     string `cbor:"id,omitempty"`
	Action string `cbor:"action"`
	Args   Raw    `cbor:"args,omitempty"`
	At     Int    `cbor:"at,omitempty"`
	After  Int    `cbor:"after,omitempty"`
	Cron   string `cbor:"cron,omitempty"`
	Zone   string `cbor:"zone,omitempty"`
}

// A Scheduled is an event of the schedule.
type Scheduled struct {
	ID       string `cbor:"id"`
	At       Int    `cbor:"at"`
	Action   string `cbor:"action"`
	Args     Raw    `cbor:"args"`
	Cron     string `cbor:"cron"`
	Zone     string `cbor:"zone"`
	Attempts int    `cbor:"attempts"`
	Parked   bool   `cbor:"parked"`
}

// A Conn is a connection.
type Conn struct {
	ID         string  `cbor:"id"`
	Hibernates bool    `cbor:"hibernates"`
	Parameters Raw     `cbor:"parameters"`
	State      Raw     `cbor:"state"`
	Caller     *Caller `cbor:"caller,omitempty"` // that has made it; nil if nothing is said about it
}

// A ConnState sets the state of a connection.
type ConnState struct {
	_     struct{} `cbor:",toarray"`
	ID    string
	State Raw
}

// A Subscription changes whether a connection gets an event.
type Subscription struct {
	_     struct{} `cbor:",toarray"`
	ID    string
	Event string
	On    bool
}

// A Parting ends a connection.
type Parting struct {
	_      struct{} `cbor:",toarray"`
	ID     string
	Reason string
}

// A ConnEvent is an event for one connection.
type ConnEvent struct {
	_     struct{} `cbor:",toarray"`
	ID    string
	Event string
	Body  Raw
}

// A Broadcast is an event for all of its subscribers.
type Broadcast struct {
	_     struct{} `cbor:",toarray"`
	Event string
	Body  Raw
}

// A Workflow is how far the actor's workflow is.
type Workflow struct {
	State   string `cbor:"state"`
	Failure *Fault `cbor:"failure"`
}
