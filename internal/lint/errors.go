package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// kinds is the package with the kinds of errors, relative to the root.
const kinds = "internal/errkind"

// A plain error is an exported sentinel, or an exported type of errors, that is of no kind.
type plain struct {
	// Reason says why callers don't need the kind to branch on it.
	Reason string
	// Names are folder.Name.
	Names []string
}

// plainErrors lists them all.
var plainErrors = []plain{
	{"a mistake in the program that calls, or in what it was configured with: nothing can be done about it while it runs", []string{
		"actorstore.ErrID", "actorstore.ErrLabel", "actorstore.ErrName", "actorstore.ErrPosition", "archive.ErrBookmark", "archive.ErrEncrypted", "archive.ErrOtherStore", "archive/bucket.ErrName",
		"archive/bucket/sealed.ErrChanged", "archive/bucket/sealed.ErrKeys", "archive/bucket/sealed.ErrNoIdentity", "archive/bucket/sealed.ErrNoRecipient", "archive/bucket/sealed.ErrOtherIdentity",
		"batch.ErrSettled",
		"archive/bucket/s3.ErrAccess", "archive/bucket/s3.ErrURL",
		"conn.ErrInfo", "conn.ErrValue",
		"admin.ErrTokens", "host.ErrAddress", "host.ErrArgs", "host.ErrIdempotencyKey", "host.ErrIdempotencyMismatch", "host.ErrTypes", "host/fleet.ErrOptions", "host/front.ErrOptions", "host/front.ErrSecret", "host/front/jwt.ErrOptions", "host/wasm.ErrModule",
		"kv.ErrInvalid", "kv/txn.ErrManaged", "kv/keys.ErrMisuse", "kv/txn.ErrNoVersionstamp", "kv/keys.ErrOtherKey", "kv/txn.ErrUnreadable",
		"kv/txn.ErrCanceled", "kv.ErrNotAStore", "kv/pgkv.ErrURL",
		"docstore.ErrExpression", "docstore.ErrOperation", "docstore.ErrPath", "docstore.ErrValue", "docstore/internal/element.ErrValue",
		"greenroom.ErrMigrations", "greenroom.ErrNested", "vfs.ErrPage", "itemstore.ErrIncompatible", "itemstore.ErrInvalid", "itemstore.ErrMoved", "itemstore.ErrPath", "itemstore.ErrSchema",
		"itemstore.ErrToken", "itemstore.ErrUnknownType", "persist.ErrJob", "persist.ErrStarted",
		"queue.ErrID", "queue.ErrInvalid", "queue.ErrOptions", "queue.ErrUnknownName",
		"traces.ErrID", "traces.ErrOptions", "traces/otlp.ErrOptions",
		"tuple.ErrMalformed", "tuple.ErrPrefix", "tuple.ErrUnsupported",
		"vfs.ErrName",
		"workflow.ErrCompleted", "workflow.ErrMisuse", "workflow.ErrOptions", "workflow.ErrPrevious",
	}},
	{"the answer of the one call that returns it, which means nothing behind another", []string{
		"actorstore.ErrExists", "actorstore.ErrNameTaken", "archive/bucket.ErrExists", "conn.ErrExists", "host/front/jwt.ErrExpired", "host/front/jwt.ErrRefused", "rivetkit/importer.ErrExists",
		"queue.ErrLeaseOver", "queue.ErrNoAnswer", "queue.ErrNoIDs", "queue.ErrTimedOut",
		"traces.ErrDropped",
		"workflow.ErrNotStarted", "workflow.ErrOver", "workflow.ErrRunning", "workflow.ErrState", "workflow.ErrTimedOut", "workflow.ErrUnfinished",
	}},
	{"it passes: the same call can be made again, and nothing was done", []string{
		"archive/bucket/s3.ErrUnreachable",
		"docstore.ErrBuilding", "docstore.ErrImporting", "host/front/jwt.ErrUnavailable",
		"actorstore.ErrLeaseLost", "actorstore.ErrNotIndexed", "host.ErrNotAwake", "host.ErrOutboxFull", "host.ErrOverloaded", "host.ErrTooFast",
		"kv.ErrIncarnation", "kv.ErrNotApplied", "kv/pebblekv.ErrGone", "kv/pgkv.ErrBusy", "kv/pgkv.ErrUnavailable",
	}},
	{"what became of the caller's own code", []string{
		"host.ErrPanic", "host/wasm.ErrModuleFailed", "host/wasm.ErrTrap", "persist.ErrPanic",
		"workflow.ErrCancelled", "workflow.ErrDiverged", "workflow.ErrEvicted", "workflow.ErrFailed", "workflow.ErrInterrupted",
		"workflow.ErrPanic", "workflow.ErrStepTimeout", "workflow.StoredError",
	}},
	{"what became of an import, which the caller's next step depends on", []string{"docstore.ErrDisabled"}},
	{"a rule of the program's that the actor broke", []string{"host.ErrGenerations", "host.ErrNotAllowed"}},
	{"it comes together with its cause, which has a kind", []string{"batch.ErrAborted", "workflow.ErrStorage"}},
	{"it is about code in a module, where the kinds aren't", []string{"host/guest.ErrNoHost", "host/guest.ErrNoRows", "host/guest.ErrNotFound"}},
	{"a program returns it to say why it refuses a request", []string{"host/front.ErrUnauthenticated"}},
	{"tests alone meet it", []string{"archive/bucket/buckettest.ErrInjected", "kv/faultkv.ErrCrashed", "kv/faultkv.ErrInjected", "kv/faultkv.ErrTorn"}},
}

// An errorName is an exported sentinel or an exported type of errors.
type errorName struct {
	pos token.Pos
	// kind says that it is of a kind by itself. Otherwise it is if one of wraps, folder.Name, is.
	kind  bool
	wraps []string
}

// checkErrors holds the tree against plainErrors.
func checkErrors(t *tree) []finding { return compareErrors(t, plainErrors) }

// compareErrors wants each exported sentinel and type of errors that a program can import to be of a kind or
// in list, and list to have no other.
func compareErrors(t *tree, list []plain) []finding {
	names, here := map[string]*errorName{}, map[string]bool{}
	for _, p := range t.Packages {
		if here[p.Dir] = !p.Nested; p.Nested {
			continue
		}
		for _, f := range p.Files {
			if !f.Test {
				errorNames(t, p, f, names)
			}
		}
	}
	var fs []finding
	// First the list against the tree, then the tree against the list.
	listed := map[string]bool{}
	for _, reason := range list {
		for _, name := range reason.Names {
			listed[name] = true
			dir := name[:strings.LastIndexByte(name, '.')]
			if e := names[name]; e != nil && hasKind(names, name) {
				fs = append(fs, t.at(e.pos, "%s is of a kind: take it out of PlainErrors", name))
			} else if e == nil && here[dir] {
				fs = append(fs, finding{dir, 0, "has no " + name + ": take it out of PlainErrors"})
			}
		}
	}
	// What a program can't import it can't name either.
	for name, e := range names {
		if !internalDir(name[:strings.LastIndexByte(name, '.')]) && !listed[name] && !hasKind(names, name) {
			fs = append(fs, t.at(e.pos, "%s is of none of the kinds of "+kinds, name))
		}
	}
	return fs
}

// hasKind says whether a sentinel is of a kind, by itself or by what it wraps.
func hasKind(names map[string]*errorName, name string) bool {
	e := names[name]
	return e != nil && (e.kind || slices.ContainsFunc(e.wraps, func(next string) bool { return hasKind(names, next) }))
}

// errorNames enters what f declares. A type is of a kind by what it wraps, which a value of it knows.
func errorNames(t *tree, p *pkg, f *sourceFile, names map[string]*errorName) {
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
					sentinels(t, p, f, v, names)
				}
			}
		case *ast.FuncDecl:
			if d.Recv == nil || !ast.IsExported(receiver(d.Recv)) || f.AST.Name.Name == "main" {
				continue
			}
			// One that wraps something is of that thing's kind.
			name := folderName(p.Dir) + "." + receiver(d.Recv)
			if d.Name.Name == "Error" && wrapper(p, receiver(d.Recv)) == nil {
				names[name] = &errorName{pos: d.Pos()}
			}
		}
	}
}

// wrapper returns the method by which errors.Is looks behind an error of a type, nil if it has none.
func wrapper(p *pkg, typ string) *ast.FuncDecl {
	for _, f := range p.Files {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv != nil && receiver(fn.Recv) == typ && (fn.Name.Name == "Unwrap" || fn.Name.Name == "Is") {
				return fn
			}
		}
	}
	return nil
}

// sentinels enters the variables of v whose names begin with Err.
func sentinels(t *tree, p *pkg, f *sourceFile, v *ast.ValueSpec, names map[string]*errorName) {
	for i, id := range v.Names {
		if !strings.HasPrefix(id.Name, "Err") || f.AST.Name.Name == "main" {
			continue
		}
		// Without a value, or with one that only mentions other errors, it is of no kind.
		e := &errorName{pos: id.Pos()}
		names[folderName(p.Dir)+"."+id.Name] = e
		if i >= len(v.Values) || isSelector(callee(v.Values[i]), "fmt", "Errorf") && !wraps(v.Values[i]) {
			continue
		}
		ast.Inspect(v.Values[i], func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if dir := t.imported(f, n.X); dir == kinds {
					e.kind = true
				} else if dir != "" {
					e.wraps = append(e.wraps, dir+"."+n.Sel.Name)
				}
				return false
			case *ast.Ident:
				e.wraps = append(e.wraps, folderName(p.Dir)+"."+n.Name)
			}
			return true
		})
	}
}

// callee returns what e calls, nil if it isn't a call.
func callee(e ast.Expr) ast.Expr {
	if call, ok := e.(*ast.CallExpr); ok {
		return call.Fun
	}
	return nil
}

// wraps says whether the format of a call of fmt.Errorf has a %w.
func wraps(e ast.Expr) bool {
	format, ok := e.(*ast.CallExpr).Args[0].(*ast.BasicLit)
	return ok && strings.Contains(format.Value, "%w")
}
