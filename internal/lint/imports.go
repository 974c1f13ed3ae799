package lint

import (
	"go/ast"
	"slices"
	"strings"
)

// A restriction says where an import is allowed.
type restriction struct {
	// Import is a package or module path; everything below it is meant too.
	// One that starts with "./" is relative to the root module.
	Import string
	// In lists the packages, with their internal folders, that may import it.
	In []string
	// Tests says that every test may, too.
	Tests bool
	// Reason says what would go wrong elsewhere.
	Reason string
}

// restricted lists the imports that are not free to use in the root module.
var restricted = []restriction{
	{"github.com/cockroachdb/pebble", []string{"kv/pebblekv"}, false, "the embedded engine can be replaced by replacing one package"},
	{"github.com/jackc/pgx", []string{"kv/pgkv"}, false, "the SQL engine can be replaced by replacing one package"},
	{"github.com/minio/minio-go", []string{"archive/bucket/s3"}, false, "the client of S3 servers can be replaced by replacing one package, and other programs don't link it"},
	{"github.com/ncruces/go-sqlite3", []string{"vfs", "internal/sqliteguard", "internal/sqlconfine", "internal/sqlrun", "bench", "cmd/greenroom", "host/wasm"}, true, "SQLite is reached through vfs, which sets connections up right; the program is a SQLite shell besides, and modules get connections with limits"},
	{"github.com/tetratelabs/wazero", []string{"host/wasm"}, false, "only the host runs WebAssembly"},
	{"filippo.io/age", []string{"archive/bucket/sealed"}, false, "one package has secrets, and knows the format of what they are for"},
	{"golang.org/x/crypto", []string{"archive/bucket/sealed"}, false, "it is for the chunks of age's format; everything else has what it needs in the standard library"},
	{"github.com/go-jose/go-jose", []string{"host/front/jwt"}, false, "one package knows which algorithms and keys are to be believed"},
	{"github.com/google/cel-go", []string{"internal/filter"}, false, "expressions are compiled and evaluated by one package, which counts what they cost"},
	{"github.com/spf13/cobra", []string{"cmd/greenroom", "internal/serving"}, false, "libraries have no command line"},
	{"github.com/schollz/progressbar", []string{"cmd/greenroom"}, false, "libraries have no terminal"},
	{"golang.org/x/term", []string{"cmd/greenroom"}, false, "libraries have no terminal"},
	{"github.com/jedib0t/go-pretty", []string{"cmd/greenroom", "bench"}, false, "libraries print no tables"},
	{"github.com/aclements/go-moremath", []string{"bench"}, false, "libraries measure nothing"},
	{"go.opentelemetry.io/otel/sdk", []string{"traces/otelsdk"}, true, "libraries emit through OpenTelemetry's API: which SDK there is, the program says"},
	{"./traces/otelsdk", nil, true, "who doesn't ask for OpenTelemetry's SDK doesn't link it"},
	{"go.opentelemetry.io/proto", []string{"traces/otlp", "traces/otlp/otlptest"}, true, "OTLP is spoken by one package"},
	{"google.golang.org/grpc", nil, false, "OTLP goes over HTTP; gRPC would be linked for nothing"},
	{"github.com/cockroachdb/datadriven", nil, true, "it is a test library"},
	{"pgregory.net/rapid", nil, true, "it is a test library"},
	{"testing", []string{"kv/internal/suite", "kv/kvtest", "kv/txn/txntest", "internal/pgtest", "internal/testkit", "internal/testkit/engines", "internal/testkit/rig", "internal/beside/besidetest", "internal/browsertest", "workflow/workflowtest", "host/hosttest", "archive/bucket/buckettest", "internal/s3fake"}, true, "programs don't link the test framework"},
	{"log", nil, true, "logs go through log/slog"},
	{"./kv/memkv", []string{"internal/testkit/engines", "internal/testkit/rig", "internal/beside/besidetest", "internal/storeurl", "bench", "workflow/workflowtest", "host/hosttest"}, true, "what stands on kv works with every engine"},
	{"./kv/pebblekv", []string{".", "archive", "internal/storeurl", "internal/serving", "cmd/greenroom", "bench", "examples/order", "examples/counter", "examples/agent", "examples/school", "examples/library", "internal/beside/besidetest"}, true, "what stands on kv works with every engine; salvages and backups are of the files of this one"},
	{"./kv/pgkv", []string{"internal/storeurl", "bench", "internal/beside/besidetest"}, true, "what stands on kv works with every engine"},
	{"./kv/faultkv", []string{"kv/kvtest", "bench", "internal/testkit/rig", "internal/beside/besidetest", "workflow/workflowtest", "host/hosttest"}, true, "faults are for tests, its counters for measurements"},
	{"./internal/s3fake", nil, true, "it is for tests"},
	{"./archive/bucket/buckettest", nil, true, "it is a test suite"},
	{"./kv/kvtest", nil, true, "it is a test suite"},
	{"./kv/txn/txntest", nil, true, "it is a test suite"},
	{"./kv/internal/suite", []string{"kv/kvtest", "kv/txn/txntest"}, true, "it is for tests"},
	{"./internal/pgtest", []string{"internal/beside/besidetest"}, true, "it is for tests"},
	{"./internal/testkit/engines", nil, true, "it is for tests"},
	{"./internal/testkit/rig", nil, true, "it is for tests"},
	{"./internal/testkit", []string{"internal/browsertest", "internal/pgtest", "kv/kvtest", "kv/txn/txntest"}, true, "it is for tests"},
	{"./workflow/workflowtest", nil, true, "it is for tests"},
	{"./host/hosttest", nil, true, "it is for tests"},
	{"./internal/pglocal", []string{"internal/pgtest", "bench"}, true, "programs use servers, they don't start them"},
}

// exactly reports whether r names a standard package, which has neighbours
// below it (log/slog, testing/synctest) that are judged by themselves.
func (r restriction) exactly() bool { return isStd(r.Import) }

func (r restriction) matches(t *tree, imp string) bool {
	want := r.Import
	if rest, ok := strings.CutPrefix(want, "./"); ok {
		want = t.Module + "/" + rest
	}
	if r.exactly() {
		return imp == want
	}
	return within(imp, want)
}

func (r restriction) allows(dir string, test bool) bool {
	if r.Tests && test {
		return true
	}
	name, _, ok := family(dir)
	own := r.Import == "./"+name
	return ok && (own || slices.Contains(r.In, name))
}

// checkRestricted holds every import of the root module against restricted.
func checkRestricted(t *tree) []finding {
	return t.eachImport(func(p *pkg, f *sourceFile, spec *ast.ImportSpec) []finding {
		if p.Nested || outside[p.Dir] != "" {
			return nil
		}
		imp := importPath(spec)
		for _, r := range restricted {
			if r.matches(t, imp) && !r.allows(p.Dir, f.Test) {
				return []finding{t.at(spec.Pos(), "imports %s: %s", imp, r.Reason)}
			}
		}
		return nil
	})
}

// checkFloorZero keeps the ground floor to the standard library, tests apart.
func checkFloorZero(t *tree) []finding {
	return t.eachImport(func(p *pkg, f *sourceFile, spec *ast.ImportSpec) []finding {
		_, floor, ok := family(p.Dir)
		imp := importPath(spec)
		if !ok || floor > 0 || f.Test || isStd(imp) || within(imp, t.Module) {
			return nil
		}
		return []finding{t.at(spec.Pos(), "imports %s on floor 0: standard library only", imp)}
	})
}

// checkBlank refuses imports without a name. embed and unsafe have no side
// effects: their blank import only permits a directive.
func checkBlank(t *tree) []finding {
	return t.eachImport(func(_ *pkg, f *sourceFile, spec *ast.ImportSpec) []finding {
		imp := importPath(spec)
		blank := spec.Name != nil && spec.Name.Name == "_"
		if !blank || f.Test || f.AST.Name.Name == "main" || imp == "embed" || imp == "unsafe" {
			return nil
		}
		return []finding{t.at(spec.Pos(), "imports %s for its side effects outside a program", imp)}
	})
}

// sqliteVFS is go-sqlite3's package that shares its name with ours.
const sqliteVFS = "github.com/ncruces/go-sqlite3/vfs"

func checkAlias(t *tree) []finding {
	return t.eachImport(func(_ *pkg, _ *sourceFile, spec *ast.ImportSpec) []finding {
		if importPath(spec) != sqliteVFS || spec.Name != nil && spec.Name.Name == "sqlitevfs" {
			return nil
		}
		return []finding{t.at(spec.Pos(), "import go-sqlite3's vfs as sqlitevfs")}
	})
}

func checkCgo(t *tree) []finding {
	return t.eachImport(func(_ *pkg, _ *sourceFile, spec *ast.ImportSpec) []finding {
		if importPath(spec) != "C" {
			return nil
		}
		return []finding{t.at(spec.Pos(), "uses cgo")}
	})
}
