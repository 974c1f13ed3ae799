module github.com/greenroomdb/greenroom

go 1.26.0

require (
	filippo.io/age v1.3.2 // archive/bucket/sealed: encryption for recipients; BSD, with filippo.io/hpke (BSD) and golang.org/x/crypto: 0.24 MB in a program with TLS, 1.2 MB in one of nothing else
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // bench: medians with their intervals; BSD, no requirements, and what golang.org/x/perf/benchmath rests on, whose module asks for databases and clouds
	github.com/cockroachdb/datadriven v1.0.3-0.20250407164829-2945557346d5 // tests: golden command sessions of cmd/greenroom
	github.com/cockroachdb/pebble/v2 v2.1.7 // kv/pebblekv: the embedded engine
	github.com/coder/websocket v1.8.15 // host/front: WebSockets; ISC, nothing but the standard library
	github.com/fxamacker/cbor/v2 v2.9.6 // internal/cbor: CBOR of Go's types
	github.com/getkin/kin-openapi v0.153.0 // tests: writes admin's OpenAPI document from Go's types, and holds answers against it; MIT
	github.com/go-jose/go-jose/v4 v4.1.9 // host/front/jwt: signatures and keys of JWTs; Apache-2.0, looked after, nothing but the standard library, and its JSON refuses a name that comes twice: 0.6 MB in a program with TLS, where golang-jwt with keyfunc adds 1.1, three more modules, and fetches of keys that go by a clock of their own
	github.com/google/cel-go v0.31.0 // internal/filter: expressions in CEL; Apache-2.0, with ANTLR (BSD), protobuf and YAML: 4 MB in a program that opens a store, 6 in one of nothing else
	github.com/google/uuid v1.6.0 // actorstore: random and name-based ids
	github.com/jackc/pgx/v5 v5.12.0 // kv/pgkv: the PostgreSQL driver
	github.com/jedib0t/go-pretty/v6 v6.8.3 // cmd/greenroom, bench: tables
	github.com/klauspost/compress v1.20.1 // archive: Zstandard; BSD, nothing but the standard library, and Pebble needs it anyway
	github.com/minio/minio-go/v7 v7.4.1 // archive/bucket/s3: the client of S3 servers; Apache-2.0, looked after: 2.5 MB in a program, where Amazon's SDK adds 6.6
	github.com/ncruces/go-sqlite3 v0.35.6 // vfs: SQLite, and its VFS interface
	github.com/netresearch/go-cron v0.9.1 // persist: the parser of cron expressions; MIT, looked after, nothing but the standard library
	github.com/petermattis/goid v0.0.0-20260820044319-269ab09b5261 // greenroom: who would wait for itself; Apache-2.0, no requirements
	github.com/prometheus/client_golang v1.25.0 // metrics/prom: the adapter; Pebble needs it anyway
	github.com/prometheus/client_model v0.6.3 // inspector: metrics as they are read; metrics/prom needs it anyway
	github.com/prometheus/common v0.72.0 // inspector: the parser of metrics; metrics/prom needs it anyway
	github.com/spf13/cobra v1.10.2 // cmd/greenroom: commands, flags, completion
	github.com/spf13/pflag v1.0.10 // cmd/greenroom: what is wrong with a flag; cobra needs it anyway
	github.com/tetratelabs/wazero v1.12.0 // host/wasm: the WebAssembly runtime; Apache-2.0, nothing but golang.org/x/sys
	github.com/tidwall/btree v1.8.2 // kv, kv/memkv, queue: ordered trees; MIT, no requirements but its tests
	go.opentelemetry.io/otel v1.47.0 // traces/otelsdk, workflow, host: attributes of OpenTelemetry's API, and today's names
	go.opentelemetry.io/otel/sdk v1.47.0 // traces/otelsdk, and tests: the SDK that it is a processor of
	go.opentelemetry.io/otel/trace v1.47.0 // traces/otelsdk, workflow, host: OpenTelemetry's API of spans
	go.opentelemetry.io/proto/otlp v1.11.1 // traces/otlp: the official messages; Apache-2.0, no gRPC in what is imported
	go.yaml.in/yaml/v3 v3.0.5 // tests: reads the Compose file; MIT and Apache-2.0, no requirements but its tests, and cel-go needs it anyway
	golang.org/x/crypto v0.57.0 // archive/bucket/sealed: the cipher of age's chunks; age needs it anyway
	golang.org/x/sys v0.49.0 // internal/adminsock: whose the other end of a socket is; pebble and wazero need it anyway
	golang.org/x/term v0.47.0 // cmd/greenroom: line editing in the shell
	golang.org/x/text v0.42.0 // docstore: NFC and case folding; BSD, of the Go project, and required by others anyway
	google.golang.org/protobuf v1.36.12 // traces/otlp: their encoding, in binary and JSON; Pebble's metrics need it anyway
	pgregory.net/rapid v1.3.0 // tests: property and model checks
)

require (
	cel.dev/expr v0.25.1 // indirect
	filippo.io/hpke v0.4.0 // indirect
	github.com/DataDog/zstd v1.5.7 // indirect
	github.com/RaduBerinde/axisds v0.1.0 // indirect
	github.com/RaduBerinde/btreemap v0.0.0-20250419174037-3d62b7205d54 // indirect
	github.com/antlr4-go/antlr/v4 v4.13.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/cockroachdb/crlib v0.0.0-20241112164430-1264a2edc35b // indirect
	github.com/cockroachdb/errors v1.11.3 // indirect
	github.com/cockroachdb/logtags v0.0.0-20230118201751-21c54148d20b // indirect
	github.com/cockroachdb/redact v1.1.5 // indirect
	github.com/cockroachdb/swiss v0.0.0-20260820225851-333444432258 // indirect
	github.com/cockroachdb/tokenbucket v0.0.0-20230807174530-cc333fc44b06 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/getsentry/sentry-go v0.27.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-openapi/jsonpointer v0.22.5 // indirect
	github.com/go-openapi/swag/jsonname v0.25.5 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/snappy v0.0.5-0.20231225225746-43d5d4cd4e0e // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/klauspost/crc32 v1.3.0 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/mattn/go-runewidth v0.0.24 // indirect
	github.com/minio/crc64nvme v1.1.1 // indirect
	github.com/minio/md5-simd v1.1.2 // indirect
	github.com/minio/minlz v1.0.1-0.20250507153514-87eb42fe8882 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.3.35304 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	github.com/rs/xid v1.6.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/tinylib/msgp v1.6.4 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/exp v0.0.0-20240823005443-9b4947da3948 // indirect
	golang.org/x/net v0.60.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	gopkg.in/ini.v1 v1.67.3 // indirect
	lukechampine.com/adiantum v1.1.1 // indirect
)
