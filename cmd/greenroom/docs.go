package main

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/docstore"
)

// newDocs returns the commands on documents, each of which begins as c.
func newDocs(c docsCommand) *cobra.Command {
	return newGroup("docs", "Look into documents in a tree of paths, and change them",
		newDocsList(c), newDocsGet(c), newDocsPut(c), newDocsRemove(c), newDocsMkdir(c), newDocsCreate(c), newDocsMove(c),
		newDocsFind(c), newDocsSearch(c), newDocsExplain(c), newDocsBuild(c), newDocsRebuild(c),
		newDocsImport(c), newDocsExport(c), newDocsCheck(c))
}

func newDocsList(c docsCommand) *cobra.Command {
	var p page
	cmd := c.command(&cobra.Command{
		Use:   "ls STORE [PATH]",
		Short: "List what lies in a container, a category, a catalogue or a group",
		Long: `List the children of the container PATH, without PATH of the root: also the members of a
category, the groups of a catalogue, the members of a group, and what a search in an
index finds, as /by-name/*doe. The columns are the path, the kind, the type, and
the state of a category, catalogue or index.

It is a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: `  greenroom docs ls data /users
  greenroom docs ls data /by-role/admin
  greenroom docs ls data "/by-name/*doe"`,
		Args: cobra.RangeArgs(1, 2),
	}, reads, func(ctx context.Context, s *docstore.Store, args []string) error {
		path := docstore.Root
		if len(args) > 0 {
			path = docstore.Path(args[0])
		}
		return viewList(ctx, s, func(tx *docstore.Tx) iter.Seq2[*docstore.Entity, error] {
			return first(tx.Children(ctx, path, docstore.Path(p.after)), p.limit)
		}, c.entities)
	})
	return p.flags(c.jsonFlag(cmd, "write an object a line"))
}

// entities writes entities.
func (c *docsCommand) entities(all iter.Seq2[*docstore.Entity, error]) error {
	if c.json {
		return lines(c.env.stdout, all, func(e *docstore.Entity) any { return lineOfEntity(e) })
	}
	return list(output{c.env, false, "path kind type state"}, all, func(e *docstore.Entity) ([]any, error) {
		return []any{string(e.Path), e.Kind, maybe(e.Label), maybe(e.State.String())}, nil
	})
}

func newDocsGet(c docsCommand) *cobra.Command {
	return c.jsonFlag(c.command(&cobra.Command{
		Use:   "get STORE PATH",
		Short: "Write the properties of a document, or what else lies at a path",
		Long: `Write the properties of the document at PATH in JSON, on a line, as put takes them: integers
are without a fraction, floats have one or an exponent, and bytes are {"$bytes":"AAE="}.
Of anything else it writes an object with its kind, and the type, the expression
and the state of a category, catalogue or index.`,
		Example: "  greenroom docs get data /users/john",
		Args:    cobra.ExactArgs(2),
	}, reads, func(ctx context.Context, s *docstore.Store, args []string) error {
		return s.View(ctx, func(tx *docstore.Tx) error {
			e, err := tx.Entity(ctx, docstore.Path(args[0]))
			if err != nil {
				return err
			}
			line := lineOfEntity(e)
			if e.Kind == docstore.KindDocument {
				props, err := tx.Properties(ctx, e.Path)
				if err != nil {
					return err
				}
				line.Properties = (*propertiesJSON)(&props)
				if !c.json {
					return c.env.object(line.Properties, "")
				}
			}
			return c.env.object(line, "")
		})
	}), "write an object with the path, the kind and the type, too")
}
