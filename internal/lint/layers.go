package lint

import (
	"fmt"
	"path"
	"strings"
)

// A layer is some packages of one floor of the house. Imports only go down: a
// package may import those of lower floors, and of its own floor none but those
// that an edge allows. A package's own internal folders live on its floor.
type layer struct {
	// Floor counts from 0, the ground.
	Floor int
	// Packages are folders relative to the root.
	Packages []string
	// Is says what they are, in the words of docs/design.md.
	Is string
}

// layers is the house, ground floor first. Packages that aren't in the tree yet
// have their place all the same; the table of docs/design.md says so of them.
var layers = []layer{
	{0, []string{"tuple"}, "FoundationDB's ordered tuple encoding, and `Subspace`. Standard library only"},
	{0, []string{"batch"}, "limits, the splitter, ordered writes and the participants of their commit, rollback-safe dirty flags. Standard library only"},
	{0, []string{"internal/bare"}, "the BARE codec and its versioned envelope. Standard library only"},
	{0, []string{"internal/drain"}, "lets a Close wait for what is under way. Standard library only"},
	{0, []string{"internal/rollout"}, "does something to many things: a few first, several at a time, at a rate. Standard library only"},
	{0, []string{"internal/errkind"}, "the kinds of errors that a caller branches on. Standard library only"},
	{0, []string{"metrics"}, "how packages say how often something happens and how long it takes. Standard library only"},
	{0, []string{"internal/visible"}, "writes text of others so that all of it shows. Standard library only"},
	{0, []string{"internal/memdir"}, "finds a folder in memory. Standard library only"},
	{0, []string{"internal/testkit"}, "what the tests of all packages share: the form of a suite, patience, a folder. Standard library only"},
	{0, []string{"internal/s3fake"}, "an S3 server in a test, which breaks as networks and servers do. Standard library only"},
	{0, []string{"internal/corpus"}, "texts, and patterns to look for in them, for tests and measurements of text indexes. Standard library only"},
	{0, []string{"internal/pglocal"}, "starts PostgreSQL servers on this machine. Standard library only"},
	{1, []string{"internal/testkit/engines"}, "what tests of several packages put under a store: engines that seem far or shared, and one that keeps each state"},
	{1, []string{"internal/browsertest"}, "shows pages to tests in a real browser"},
	{1, []string{"internal/pgtest"}, "gives such servers to tests, which alone import it"},
	{1, []string{"metrics/prom"}, "the adapter to Prometheus, for programs that want it"},
	{1, []string{"internal/overlay"}, "what a transaction has written, as a layer over a state that it doesn't know"},
	{1, []string{"internal/cbor"}, "CBOR as JavaScript's cbor-x writes it: the values that messages, states and workflows hold"},
	{1, []string{"internal/cbor/cbortest"}, "values of all kinds, for the tests of everything that stores them"},
	{1, []string{"internal/sqliteguard"}, "how go-sqlite3 panics, and what to do about it"},
	{1, []string{"internal/sqlconfine"}, "bounds the time that SQL of others takes: functions, and the cost of statements"},
	{1, []string{"internal/remote"}, "from where an HTTP request comes"},
	{1, []string{"internal/remotekv"}, "an engine that another process has open, over a connection"},
	{1, []string{"internal/adminsock"}, "the socket beside a store that a process has open"},
	{1, []string{"internal/envlimits"}, "limits that the environment lowers, for the program and for tests"},
	{1, []string{"archive/bucket"}, "where a backup keeps its objects: the contract, and a folder"},
	{1, []string{"archive/bucket/s3"}, "buckets of S3 servers"},
	{1, []string{"archive/bucket/sealed"}, "a decorator that encrypts what a bucket keeps, for recipients of age"},
	{1, []string{"archive/bucket/buckettest"}, "the suite that every bucket passes"},
	{0, []string{"internal/groupcommit"}, "callers that wait while others work: the next one does their work together. Standard library only"},
	{1, []string{"kv/internal/optimistic"}, "the committer of transactions of the two near engines"},
	{1, []string{"kv/internal/suite"}, "what the two conformance suites share: short forms, the oracle, the language of scripts"},
	{1, []string{"kv"}, "the contract of an engine: ordered keys, atomic commits with checks"},
	{1, []string{"kv/txn"}, "serializable transactions over an engine that offers them"},
	{1, []string{"kv/keys"}, "typed keys and values over an engine or a transaction"},
	{1, []string{"actorstore/internal/layout"}, "how a store of actors lies in an engine: its keys and rows as bytes. It reads no engine"},
	{1, []string{"actorstore/internal/check"}, "the integrity check of a store of actors: what is wrong with the rows that a state of an engine has"},
	{1, []string{"actorstore/internal/lease"}, "the leases of hosts that share a store of actors, and the claims that stand on them"},
	{1, []string{"kv/memkv", "kv/pebblekv", "kv/pgkv"}, "engines"},
	{1, []string{"internal/signed"}, "requests that the hosts of a store send each other, signed with secrets that lie in it"},
	{1, []string{"kv/faultkv"}, "a decorator that fails, delays and counts"},
	{1, []string{"kv/kvtest", "kv/txn/txntest"}, "the conformance suites that every engine, and its transactions, pass"},
	{2, []string{"actorstore/internal/rows"}, "reads the values of one actor from one state of an engine"},
	{2, []string{"actorstore/internal/cache"}, "the memory for values of all actors of a store"},
	{2, []string{"actorstore/internal/reads"}, "answers what is read of an actor, of its newest state and of snapshots: plain, near and far"},
	{2, []string{"actorstore/internal/quota"}, "what each write of a batch replaces, and by how much its actor grows"},
	{2, []string{"actorstore"}, "one actor's keyspace: envelope, key tree, limits, quota, ownership, commit"},
	{2, []string{"internal/testkit/rig"}, "an actor on an engine that counts and fails, for the tests of what an actor has"},
	{2, []string{"part"}, "what the parts of an actor have in common"},
	{2, []string{"alarm"}, "the one alarm clock of an actor: the earliest of what schedule, queue and workflow wait for"},
	{2, []string{"internal/filter"}, "expressions over data, in CEL: filters of items and documents, and what their fields may hold"},
	{2, []string{"itemstore", "docstore"}, "key-path items and documents, straight on `kv`"},
	{3, []string{"vfs/internal/chunked"}, "a file in chunks: what is stored, overlaid with what is written and isn't"},
	{3, []string{"vfs/internal/oldkeys"}, "databases under keys of the older form: reads and rewrites them"},
	{3, []string{"vfs/internal/readahead"}, "says what to read with a page on a far engine, and reads it"},
	{3, []string{"vfs/internal/format"}, "what a VFS must know of SQLite's file formats. Standard library only"},
	{3, []string{"vfs/internal/filecheck"}, "what is wrong with the files of a database in an actor's keys"},
	{3, []string{"vfs"}, "SQLite over an actor's keys"},
	{3, []string{"queue", "conn", "traces", "persist"}, "messages, connections, spans, and the actor's own record"},
	{3, []string{"archive"}, "backs up a store in a directory, and makes stores and actors as of any kept time"},
	{3, []string{"internal/mailrow"}, "the rows that a host keeps in an actor's keys about what actors send each other"},
	{3, []string{"internal/callrow"}, "the rows that a host keeps in an actor's keys about calls with an idempotency key"},
	{3, []string{"internal/beside"}, "puts transactions of other data models into the commits of actors"},
	{4, []string{"traces/otlp"}, "spans in OTLP, and to an endpoint by a client that is given. Links neither OpenTelemetry's SDK nor gRPC"},
	{4, []string{"traces/otlp/otlptest"}, "reads OTLP, for tests"},
	{4, []string{"traces/otelsdk"}, "a span processor for programs with OpenTelemetry's SDK, which it alone links"},
	{4, []string{"workflow"}, "durable workflows; they wait on `queue`"},
	{4, []string{"internal/rivettables"}, "reads what a program of RivetKit 2.3 keeps of its actor in tables of the actor's database"},
	{3, []string{"internal/metering"}, "counts what an actor uses while it is awake, to be stored with what it commits"},
	{4, []string{"internal/attributes"}, "what actors are found by, from what they store"},
	{4, []string{"internal/opentx"}, "transactions of the door that package `host` begins in one place and ends in another"},
	{4, []string{"internal/limits"}, "permits of what actors do at a time, or how often, together: rows of a store, and their lines"},
	{4, []string{"internal/peers"}, "signed HTTP requests between the processes that serve a store"},
	{4, []string{"internal/routes"}, "says at which of these processes an actor is wanted"},
	{4, []string{"internal/wake"}, "wakes the actors of a store when their time comes"},
	{5, []string{"."}, "the door: stores, actors, and one transaction over everything that an actor has"},
	{5, []string{"rivetkit/internal/rivetstore", "rivetkit/internal/runnerproto"}, "what a store has of RivetKit's actors, and what their runners and the engine say to each other"},
	{5, []string{"internal/sqlrun"}, "runs text of SQL on a connection, for the shell of the program and for the process that runs SQL for it"},
	{5, []string{"workflow/workflowtest"}, "a kit to test workflows: a clock that skips, steps that fail, saved histories"},
	{6, []string{"itemstore/actoritems", "docstore/actordocs"}, "puts items, or documents, into the transactions of actors"},
	{6, []string{"internal/beside/besidetest"}, "the suite that both pass"},
	{6, []string{"host"}, "wakes, runs and puts to sleep actors"},
	{6, []string{"admin"}, "lets tools into a store that a process has open"},
	{6, []string{"host/hosttest"}, "a kit to test types of actors: a clock that skips, crashes, commits that fail"},
	{6, []string{"host/fleet"}, "carries requests between the hosts of a store"},
	{6, []string{"host/front"}, "reaches a host's actors over HTTP and WebSockets"},
	{6, []string{"host/client"}, "calls a remote host's actors, and connects to them, in Go"},
	{6, []string{"host/front/jwt"}, "lets callers in by JSON Web Tokens of an issuer"},
	{6, []string{"host/wasm"}, "makes actor types of WebAssembly modules"},
	{6, []string{"host/guest"}, "what actors in Go that are compiled to such modules are written with"},
	{6, []string{"rivetkit/engine"}, "runs the actors of RivetKit programs"},
	{6, []string{"rivetkit/importer"}, "moves the actors of RivetKit's file-system driver into a store"},
	{6, []string{"inspector"}, "the page that shows a store"},
	{7, []string{"cmd/greenroom", "bench"}, "the program, the measurements"},
	{7, []string{"bench/actorhost"}, "what is measured beside the actor hosts of others"},
	{7, []string{"clients/js"}, "the client for browsers and Node, for pages that import it"},
	{7, []string{"examples/counter", "examples/counter/wasm"}, "the smallest program with actors, and the same actor as a module"},
	{7, []string{"examples/chat"}, "a chat room, with its page: what `greenroom host --demo` serves"},
	{7, []string{"examples/agent"}, "assistants that remember, and ask before they act"},
	{7, []string{"examples/order"}, "a shop whose orders are workflows, to be read and to be killed"},
	{7, []string{"examples/shop"}, "a whole program: lists in SQL, orders, mails and agents, served, and tested"},
	{7, []string{"examples/school"}, "courses and students at key paths"},
	{7, []string{"examples/library"}, "books as documents, with a category, a catalogue and an index"},
	{7, []string{"examples/chat/chatserver", "examples/chat/chatguest"}, "serves that chat room, and is a guest there in a terminal"},
	{7, []string{"host/serve"}, "makes a program of types of actors"},
	{7, []string{"internal/serving"}, "what programs that serve a store have in common: flags, the end, messages"},
	{7, []string{"internal/storeurl"}, "opens a store from its URL, for all of them"},
}

// An edge allows one package to import another of its own floor.
type edge struct {
	// From and To are folders relative to the root.
	From, To string
	// Reason says why neither can move to another floor.
	Reason string
}

// edges lists every import within a floor.
var edges = []edge{
	{"archive/bucket/s3", "archive/bucket", "it is one"},
	{"archive/bucket/sealed", "archive/bucket", "a decorator is one too"},
	{"archive/bucket/buckettest", "archive/bucket", "it tests them"},
	{"batch", "internal/errkind", "its errors are of the kinds that those of the packages above are of"},
	{"internal/attributes", "workflow", "the state of its workflow is one of the things that an actor is found by"},
	{"internal/attributes", "internal/rivettables", "the workflow of a program of RivetKit 2.3 is in a table"},
	{"internal/rivettables", "workflow", "a workflow in a table is read as one under keys"},
	{"part", "alarm", "the parts of an actor share its alarm clock"},
	{"itemstore", "internal/filter", "filters and conditions of fields are expressions"},
	{"docstore", "internal/filter", "categories, catalogues, indexes and queries go by expressions"},
	{"kv/txn", "kv", "a transaction is one commit of an engine"},
	{"kv/txn", "internal/overlay", "a transaction reads what it has written, and lies beside what is stored"},
	{"kv/internal/optimistic", "kv", "it commits to an engine"},
	{"kv/internal/optimistic", "kv/txn", "it is an engine's half of a transaction"},
	{"kv/internal/optimistic", "internal/overlay", "what several transactions write at once lies beside what is stored"},
	{"actorstore/internal/layout", "kv", "damage and newer versions are errors of an engine's users, whatever they store"},
	{"actorstore/internal/layout", "kv/keys", "the keys of its rows are typed"},
	{"actorstore/internal/check", "actorstore/internal/layout", "it takes the rows apart"},
	{"actorstore/internal/check", "kv", "it reads a state of an engine"},
	{"actorstore/internal/lease", "actorstore/internal/layout", "leases and claims are rows"},
	{"actorstore/internal/lease", "kv", "it reads and rewrites rows of an engine"},
	{"actorstore/internal/reads", "actorstore/internal/rows", "what memory doesn't have it reads row by row"},
	{"actorstore/internal/reads", "actorstore/internal/cache", "what it has read it keeps there"},
	{"actorstore/internal/quota", "actorstore/internal/reads", "memory may know the length of what is replaced"},
	{"actorstore/internal/quota", "actorstore/internal/rows", "what a deleted range frees is listed"},
	{"actorstore", "actorstore/internal/quota", "a commit charges what it changes"},
	{"actorstore", "actorstore/internal/rows", "handles and snapshots list rows"},
	{"actorstore", "actorstore/internal/cache", "a store has one for all of its actors"},
	{"actorstore", "actorstore/internal/reads", "handles and snapshots read through it"},
	{"internal/testkit/rig", "actorstore", "it opens a store and an actor of it"},
	{"vfs", "vfs/internal/chunked", "the files of a database are in chunks"},
	{"vfs", "vfs/internal/oldkeys", "a database may lie under keys of the older form"},
	{"vfs", "vfs/internal/readahead", "its connections read ahead"},
	{"vfs", "vfs/internal/format", "it looks at the header of a database and at frames of a log"},
	{"vfs", "vfs/internal/filecheck", "a check looks at the files before SQLite does"},
	{"vfs/internal/readahead", "vfs/internal/chunked", "what it reads are chunks"},
	{"vfs/internal/filecheck", "vfs/internal/chunked", "what it looks at are chunks"},
	{"vfs/internal/filecheck", "vfs/internal/oldkeys", "files of the older form are looked at, too"},
	{"vfs/internal/filecheck", "vfs/internal/format", "holes mean nothing where SQLite leaves out pages"},
	{"vfs/internal/oldkeys", "vfs/internal/chunked", "what it rewrites is a file in chunks"},
	{"kv/memkv", "kv/internal/optimistic", "its transactions are optimistic"},
	{"kv/pebblekv", "kv/internal/optimistic", "its transactions are optimistic"},
	{"kv/keys", "kv", "keys lie in an engine"},
	{"kv/keys", "kv/txn", "atomic operations and versionstamps of typed keys are those of a transaction"},
	{"kv/memkv", "kv", "an engine implements the contract"},
	{"kv/memkv", "kv/txn", "and offers transactions"},
	{"kv/pebblekv", "kv", "an engine implements the contract"},
	{"kv/pebblekv", "kv/txn", "and offers transactions"},
	{"kv/pgkv", "kv", "an engine implements the contract"},
	{"kv/pgkv", "kv/txn", "and offers transactions"},
	{"kv/faultkv", "kv", "a decorator is an engine too"},
	{"internal/signed", "kv", "the secrets are a row of an engine"},
	{"internal/testkit", "internal/memdir", "temporary files of tests may be in memory"},
	{"internal/pglocal", "internal/memdir", "so may the data of a server"},
	{"internal/testkit/engines", "kv", "its decorators are engines"},
	{"internal/testkit/engines", "kv/memkv", "a tape keeps copies of the engine in memory"},
	{"kv/faultkv", "kv/txn", "and passes its transactions on"},
	{"internal/remotekv", "kv", "it is an engine, and serves one"},
	{"internal/remotekv", "kv/txn", "and its transactions"},
	{"kv/kvtest", "kv", "the suite tests the contract"},
	{"kv/kvtest", "kv/internal/suite", "what it shares with the suite of transactions"},
	{"kv/txn/txntest", "kv", "transactions run beside the engine's own commits"},
	{"kv/txn/txntest", "kv/txn", "the suite tests the transactions of an engine that offers them"},
	{"kv/txn/txntest", "kv/internal/suite", "what it shares with the suite of engines"},
	{"kv/internal/suite", "kv", "the oracle and the short forms are those of an engine"},
	{"kv/internal/suite", "kv/txn", "a script has transactions beside commits"},
	{"host/hosttest", "host", "it tests what a host runs"},
	{"host/fleet", "host", "a fleet is what hosts are to each other"},
	{"host/front", "host", "a front serves a host"},
	{"host/front", "host/fleet", "clients of other hosts come by it"},
	{"host/client", "host", "it has the errors and the declared actions of a host, and the messages of a socket in common with a front"},
	{"host/front/jwt", "host/front", "it decides for a front"},
	{"host/front/jwt", "host", "a token has a caller"},
	{"host/wasm", "host", "a module is a type of actors"},
	{"host/guest", "host", "what a module and its host say to each other is in an internal package of host"},
	{"cmd/greenroom", "internal/storeurl", "the program opens stores"},
	{"cmd/greenroom", "internal/serving", "the program serves stores"},
	{"internal/serving", "internal/storeurl", "what is served is a store"},
	{"host/serve", "internal/serving", "a program of types is greenroom host with other types"},
	{"examples/chat/chatserver", "host/serve", "it is such a program"},
	{"examples/chat/chatserver", "examples/chat", "it serves that room"},
	{"examples/shop", "host/serve", "it is such a program"},
	{"cmd/greenroom", "examples/chat", "the program has something to show"},
	{"examples/chat", "clients/js", "its page imports the client"},
	{"bench", "internal/storeurl", "the measurements open stores"},
	{"bench/actorhost", "host/serve", "it is such a program"},
	{"inspector", "admin", "the page stands on the API, and has no other way into a store"},
}

// outside lists the packages that are part of no program, with what they are:
// they import nothing of the tree, and nothing imports them.
var outside = map[string]string{
	"internal/lint":        "the rules of the tree",
	"internal/lint/cross":  "checks its types for other systems",
	"internal/lint/size":   "counts how much there is in it",
	"internal/lint/splits": "finds the tests in which a commit is split",
}

// doorExample is the name of the files that show a part as most programs have it, through
// the package at the root: these may import that, although it is above them.
const doorExample = "example_door_test.go"

// family returns the entry of layers that dir belongs to: the package itself,
// or the one whose internal folder it is in.
func family(dir string) (name string, floor int, ok bool) {
	for _, l := range layers {
		for _, p := range l.Packages {
			if dir == p || strings.HasPrefix(dir, p+"/internal/") {
				return p, l.Floor, true
			}
		}
	}
	return "", 0, false
}

func sideways(from, to string) bool {
	for _, e := range edges {
		if e.From == from && e.To == to {
			return true
		}
	}
	return false
}

// checkLayers holds every package of the root module against layers. Nested
// modules are programs around the house, and may import any of it.
func checkLayers(t *tree) []finding {
	var fs []finding
	for _, p := range t.Packages {
		if p.Nested {
			continue
		}
		if _, _, ok := family(p.Dir); !ok && outside[p.Dir] == "" {
			fs = append(fs, finding{p.Dir, 0, "has no floor: give it a place in the table layers of internal/lint"})
			continue
		}
		for _, f := range p.Files {
			for _, spec := range f.AST.Imports {
				if to, ok := t.local(spec); ok && !(to == "." && path.Base(f.Path) == doorExample) {
					if why := badEdge(p.Dir, to, f.Test); why != "" {
						fs = append(fs, t.at(spec.Pos(), "imports %s: %s", to, why))
					}
				}
			}
		}
	}
	return fs
}

// badEdge says what is wrong with the import of to in from, "" when nothing is.
// Tests may look sideways, because an engine is tested with its siblings, and a
// writer together with those it shares commits with; up they may not look.
func badEdge(from, to string, test bool) string {
	if outside[from] != "" || outside[to] != "" {
		return "neither is part of the house"
	}
	a, lower, _ := family(from)
	b, upper, ok := family(to)
	switch {
	case !ok:
		return "it has no floor"
	case upper > lower:
		return fmt.Sprintf("up, from floor %d to floor %d", lower, upper)
	case upper == lower && a != b && !test && !sideways(a, b):
		return fmt.Sprintf("sideways on floor %d", lower)
	}
	return ""
}

// renderLayers returns the layer table in Markdown, as docs/design.md prints it.
// It ends with a newline.
func renderLayers(t *tree) string {
	var b strings.Builder
	b.WriteString("| floor | package | is |\n| --- | --- | --- |\n")
	for _, l := range layers {
		var names []string
		for _, p := range l.Packages {
			name := "`" + p + "`"
			if !t.has(p) {
				name += " (planned)"
			}
			names = append(names, name)
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", l.Floor, strings.Join(names, " "), l.Is)
	}
	return b.String()
}
