// Command library keeps books as documents, and finds them by what they hold.
//
//	go run ./examples/library STORE
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

func main() {
	ctx := context.Background()
	engine := must(pebblekv.Open(os.Args[1], nil)) // a folder, made if it isn't there
	defer engine.Close()
	library := must(docstore.Open(ctx, engine, "library", nil))

	check(library.Update(ctx, func(tx *docstore.Tx) error { return fill(ctx, tx) })) // one commit
	show(ctx, library, "/by-year")
	show(ctx, library, "/by-author/austen")
	show(ctx, library, "/by-title/*the*")

	// A change of a document moves it in the lists, in the same commit.
	check(library.Update(ctx, func(tx *docstore.Tx) error {
		if err := tx.SetProperty(ctx, "/books/lodore", "year", 1835); err != nil {
			return err
		}
		for _, book := range []docstore.Path{"/books/emma", "/books/lastman"} {
			if err := tx.SetProperty(ctx, book, "lentTo", "Ada"); err != nil {
				return err
			}
		}
		return nil
	}))
	show(ctx, library, "/by-year")
	show(ctx, library, "/lent")

	check(library.Update(ctx, func(tx *docstore.Tx) error { // a book comes back, and another one is sold
		if err := tx.RemoveProperty(ctx, "/lent/lastman", "lentTo"); err != nil {
			return err
		}
		return tx.Delete(ctx, "/books/pride", false)
	}))
	show(ctx, library, "/lent")

	check(library.View(ctx, func(tx *docstore.Tx) error { return look(ctx, tx) }))
}

// fill stores authors and books, and makes lists that follow from them.
func fill(ctx context.Context, tx *docstore.Tx) error {
	for _, container := range []docstore.Path{"/authors", "/books"} {
		if err := tx.CreateContainer(ctx, container); err != nil {
			return err
		}
	}
	for id, name := range map[string]string{"austen": "Jane Austen", "shelley": "Mary Shelley"} {
		if err := tx.Create(ctx, docstore.Join("authors", id), "Author", docstore.Properties{"name": name}); err != nil {
			return err
		}
	}
	for _, b := range []struct {
		id, title, author string
		year              int
	}{
		{"emma", "Emma", "austen", 1815},
		{"pride", "Pride and Prejudice", "austen", 1813},
		{"frankenstein", "Frankenstein; or, The Modern Prometheus", "shelley", 1818},
		{"lastman", "The Last Man", "shelley", 1826},
		{"lodore", "Lodore", "shelley", 1853}, // in 1853?
	} {
		book := docstore.Properties{"title": b.title, "author": b.author, "year": b.year}
		if err := tx.Create(ctx, docstore.Join("books", b.id), "Book", book); err != nil {
			return err
		}
	}
	if err := tx.CreateCategory(ctx, "/lent", "Book", "lentTo != null"); err != nil {
		return err
	}
	if err := tx.CreateCatalogue(ctx, "/by-author", "Book", "author"); err != nil {
		return err
	}
	if err := tx.CreateCatalogue(ctx, "/by-year", "Book", "year"); err != nil {
		return err
	}
	return tx.CreateIndex(ctx, "/by-title", "Book", "title")
}

// look reads, combines, queries and searches, all in one state.
func look(ctx context.Context, tx *docstore.Tx) error {
	// A document is found through a list, too.
	emma := must(tx.Properties(ctx, "/lent/emma"))
	fmt.Println("/lent/emma:", emma["title"], "of", emma["year"], "is lent to", emma["lentTo"])

	// Lists are sets of paths.
	fmt.Println("books of Mary Shelley that aren't lent:")
	for path, err := range docstore.Difference(tx.Members(ctx, "/by-author/shelley"), tx.Members(ctx, "/lent")) {
		check(err)
		fmt.Println(" ", path)
	}

	// A query uses the lists that there are.
	const query = "author == p0 && year < 1830"
	opts := &docstore.FindOptions{Params: []any{"shelley"}}
	fmt.Printf("%s:\n  %v\n", query, must(tx.Explain(ctx, "Book", query, opts)))
	for d, err := range tx.Find(ctx, "Book", query, opts) {
		check(err)
		fmt.Println(" ", d.Path, d.Properties["title"])
	}

	// A search says how often, if it is ranked.
	fmt.Println("th?e:")
	for _, m := range must(tx.Search(ctx, "/by-title", "th?e", &docstore.SearchOptions{Regexp: true, Ranked: true})) {
		fmt.Println(" ", m.Path, m.Count)
	}
	return nil
}

// show prints what lies at a path.
func show(ctx context.Context, library *docstore.Store, path docstore.Path) {
	fmt.Println(path)
	check(library.View(ctx, func(tx *docstore.Tx) error {
		for e, err := range tx.Children(ctx, path, "") {
			check(err)
			fmt.Println(" ", e.Path, e.Kind)
		}
		return nil
	}))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}
