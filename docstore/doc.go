// Package docstore keeps documents in a tree of paths: the data model of Implexus, on the transactions of package txn.
//
// Containers have children. A document has a type, its label, and properties. A category is the documents of a type
// for which an expression is true; a catalogue has them in groups, by the value of an expression; an index finds them by
// text. All three follow every change of a document, in its transaction.
//
//	store, err := docstore.Open(ctx, engine, "library", nil)
//	err = store.Update(ctx, func(tx *docstore.Tx) error {
//		if err := tx.CreateContainer(ctx, "/users"); err != nil {
//			return err
//		}
//		if err := tx.CreateCategory(ctx, "/active", "User", "status == 'active'"); err != nil {
//			return err
//		}
//		return tx.Create(ctx, "/users/john", "User", docstore.Properties{"name": "John", "status": "active"})
//	})
//
// Members of a category, groups of a catalogue and results of a search have paths, too: /active/john is the document,
// /by-role/admin the group, and /by-name/*doe* a search.
//
// Expressions are CEL; docs/expressions.md is their reference, and docs/documents.md the manual of the package. The
// keys and values are those that Implexus documents, but for sets, which are rows here where it has arrays;
// Store.Import and Store.Dump take and give its form.
//
// Files, from the top down:
//
//	doc.go store.go upkeep.go tx.go export.go import.go check.go change.go build.go derive.go query.go virtual.go
//	derived.go entity.go options.go search.go textindex.go sets.go rows.go algebra.go keys.go group.go path.go errors.go
package docstore
