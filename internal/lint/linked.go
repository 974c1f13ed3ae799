package lint

// A linked is a module that the program greenroom links, on Linux.
type linked struct {
	Module, License string
	// Why says who brings it in, and for one that is no longer looked after why it stays.
	Why string
}

// linkedModules are all of them, in the order of their paths. A module that isn't here
// doesn't get into the program unseen. Licences that ask for more than to be named have no
// place here.
var linkedModules = []linked{
	{"cel.dev/expr", "Apache-2.0", "cel-go: parsed expressions as messages"},
	{"github.com/DataDog/zstd", "BSD-3-Clause", "Pebble: Zstandard, where cgo is on"},
	{"github.com/RaduBerinde/axisds", "Apache-2.0", "Pebble: sets of intervals"},
	{"github.com/RaduBerinde/btreemap", "Apache-2.0", "Pebble: ordered maps"},
	{"github.com/antlr4-go/antlr/v4", "BSD-3-Clause", "cel-go: its parser"},
	{"github.com/beorn7/perks", "MIT", "client_golang: quantiles"},
	{"github.com/cespare/xxhash/v2", "MIT", "Pebble and client_golang: hashes"},
	{"github.com/clipperhouse/uax29/v2", "MIT", "go-runewidth: characters of several code points"},
	{"github.com/cockroachdb/crlib", "Apache-2.0", "Pebble: small containers"},
	{"github.com/cockroachdb/errors", "Apache-2.0", "Pebble: errors with stacks"},
	{"github.com/cockroachdb/logtags", "Apache-2.0", "cockroachdb/errors: tags of contexts"},
	{"github.com/cockroachdb/pebble/v2", "BSD-3-Clause", "kv/pebblekv: the engine"},
	{"github.com/cockroachdb/redact", "Apache-2.0", "Pebble: texts without what is secret"},
	{"github.com/cockroachdb/swiss", "Apache-2.0", "Pebble: hash tables"},
	{"github.com/cockroachdb/tokenbucket", "Apache-2.0", "Pebble: paces its deletions"},
	{"github.com/coder/websocket", "ISC", "host/front: WebSockets"},
	{"github.com/fxamacker/cbor/v2", "MIT", "internal/cbor: CBOR of Go's types"},
	{"github.com/getsentry/sentry-go", "MIT", "cockroachdb/errors: a client that reports errors. Nothing calls it, and the linker leaves out all that could send: cmd/greenroom.TestSendsNothing"},
	{"github.com/gogo/protobuf", "BSD-3-Clause", "cockroachdb/errors: errors as messages. Deprecated, and in every version of it that Pebble works with; no message is ever decoded"},
	{"github.com/golang/snappy", "BSD-3-Clause", "Pebble: Snappy"},
	{"github.com/google/cel-go", "Apache-2.0", "internal/filter: expressions in CEL"},
	{"github.com/google/uuid", "BSD-3-Clause", "actorstore: ids"},
	{"github.com/jackc/pgpassfile", "MIT", "pgx: passwords from ~/.pgpass"},
	{"github.com/jackc/pgservicefile", "MIT", "pgx: services of PostgreSQL"},
	{"github.com/jackc/pgx/v5", "MIT", "kv/pgkv: the PostgreSQL driver"},
	{"github.com/jedib0t/go-pretty/v6", "MIT", "cmd/greenroom: tables"},
	{"github.com/klauspost/compress", "BSD-3-Clause", "Pebble: Zstandard without cgo; client_golang: answers in gzip"},
	{"github.com/kr/pretty", "MIT", "cockroachdb/errors: prints values"},
	{"github.com/kr/text", "MIT", "kr/pretty: indents"},
	{"github.com/mattn/go-runewidth", "MIT", "go-pretty: how wide characters are"},
	{"github.com/minio/minlz", "Apache-2.0", "Pebble: MinLZ"},
	{"github.com/munnerz/goautoneg", "BSD-3-Clause", "prometheus/common: the Accept header. Without a release since 2019, a hundred lines, and the newest client_golang needs it"},
	{"github.com/ncruces/go-sqlite3", "MIT", "vfs: SQLite"},
	{"github.com/ncruces/go-sqlite3-wasm/v6", "MIT-0", "go-sqlite3: SQLite, compiled to Go"},
	{"github.com/ncruces/julianday", "MIT", "go-sqlite3: times"},
	{"github.com/netresearch/go-cron", "MIT", "persist: cron expressions"},
	{"github.com/petermattis/goid", "Apache-2.0", "greenroom: the number of a goroutine, to refuse an Update that would wait for itself"},
	{"github.com/pkg/errors", "BSD-2-Clause", "cockroachdb/errors: takes its errors, too. Archived, and finished: it wraps errors and does nothing else"},
	{"github.com/prometheus/client_golang", "Apache-2.0", "metrics/prom, and Pebble's metrics"},
	{"github.com/prometheus/client_model", "Apache-2.0", "client_golang: metrics as messages"},
	{"github.com/prometheus/common", "Apache-2.0", "client_golang: the text format"},
	{"github.com/prometheus/procfs", "Apache-2.0", "client_golang: what the process uses"},
	{"github.com/rogpeppe/go-internal", "BSD-3-Clause", "kr/pretty: formats values"},
	{"github.com/spf13/cobra", "Apache-2.0", "cmd/greenroom: commands"},
	{"github.com/spf13/pflag", "BSD-3-Clause", "cobra: flags"},
	{"github.com/tetratelabs/wazero", "Apache-2.0", "host/wasm: the WebAssembly runtime"},
	{"github.com/tidwall/btree", "MIT", "kv: ordered trees"},
	{"github.com/x448/float16", "MIT", "fxamacker/cbor: half-precision floats"},
	{"go.opentelemetry.io/otel", "Apache-2.0", "traces/otelsdk, workflow: attributes"},
	{"go.opentelemetry.io/otel/trace", "Apache-2.0", "traces/otelsdk, workflow: spans"},
	{"go.opentelemetry.io/proto/otlp", "Apache-2.0", "traces/otlp: the messages"},
	{"go.yaml.in/yaml/v3", "MIT", "cel-go: environments in YAML, which nothing reads. Part of it is under Apache-2.0"},
	{"golang.org/x/exp", "BSD-3-Clause", "Pebble: constraints, and random numbers"},
	{"golang.org/x/sys", "BSD-3-Clause", "Pebble, wazero, x/term: system calls"},
	{"golang.org/x/term", "BSD-3-Clause", "cmd/greenroom: line editing"},
	{"golang.org/x/text", "BSD-3-Clause", "pgx and go-pretty: Unicode"},
	{"google.golang.org/genproto/googleapis/api", "Apache-2.0", "cel-go: expressions as messages, in their older form"},
	{"google.golang.org/genproto/googleapis/rpc", "Apache-2.0", "cel-go: the status of an evaluation as a message"},
	{"google.golang.org/protobuf", "BSD-3-Clause", "traces/otlp and client_golang: the encoding of messages"},
}
