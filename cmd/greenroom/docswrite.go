package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/serving"
)

func newDocsPut(c docsCommand) *cobra.Command {
	var label string
	var text []byte
	cmd := c.command(&cobra.Command{
		Use:   "put STORE PATH [JSON|-]",
		Short: "Create a document, or replace its properties",
		Long: `Create the document PATH of the type that --type says, or replace the properties of the
one that is there, and its type if --type says another one. The properties are an object
in JSON, or what standard input has to its end, as get writes it.`,
		Example: `  greenroom docs put data /users/john --type User '{"name":"John Doe","age":30}'`,
		Args:    cobra.RangeArgs(2, 3),
	}, makes, func(ctx context.Context, s *docstore.Store, args []string) error {
		var props propertiesJSON
		if err := json.Unmarshal(text, &props); err != nil {
			return serving.Usage(fmt.Sprintf("the properties: %v", err))
		}
		path := docstore.Path(args[0])
		return s.Update(ctx, func(tx *docstore.Tx) error {
			e, err := tx.Entity(ctx, path)
			switch {
			case errors.Is(err, docstore.ErrNotFound) && label == "":
				return serving.Usage(fmt.Sprintf("there is no document at %s: --type says of which type the new one is", path))
			case errors.Is(err, docstore.ErrNotFound):
				return tx.Create(ctx, path, label, docstore.Properties(props))
			case err != nil:
				return err
			case label != "" && label != e.Label:
				err = tx.SetLabel(ctx, e.Path, label)
			}
			if err == nil { // path may be in a list that the document has left
				err = tx.SetProperties(ctx, e.Path, docstore.Properties(props))
			}
			return err
		})
	})
	cmd.Flags().StringVar(&label, "type", "", "the `TYPE` of the document")
	return c.withValue(cmd, &text)
}

func newDocsRemove(c docsCommand) *cobra.Command {
	recursive := false
	cmd := c.command(&cobra.Command{
		Use:   "rm STORE PATH",
		Short: "Remove what lies at a path",
		Long: `Remove what is stored at PATH: a document, a container, a category, a catalogue or an
index. With -r a container is removed with all that lies in it, in several transactions;
if that is interrupted, it goes on when it is called again.`,
		Example: "  greenroom docs rm data /users/john\n  greenroom docs rm data /users -r",
		Args:    cobra.ExactArgs(2),
	}, writes, func(ctx context.Context, s *docstore.Store, args []string) error {
		return s.Delete(ctx, docstore.Path(args[0]), recursive)
	})
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "with all that lies in it")
	return cmd
}

func newDocsMkdir(c docsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:     "mkdir STORE PATH",
		Short:   "Create a container",
		Example: "  greenroom docs mkdir data /users",
		Args:    cobra.ExactArgs(2),
	}, makes, func(ctx context.Context, s *docstore.Store, args []string) error {
		return s.Update(ctx, func(tx *docstore.Tx) error { return tx.CreateContainer(ctx, docstore.Path(args[0])) })
	})
}

func newDocsCreate(c docsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "create STORE {category|catalogue|index} PATH TYPE EXPRESSION",
		Short: "Create a category, a catalogue or an index, and build it",
		Long: `Create a category at PATH: the documents of TYPE for which EXPRESSION is true; a catalogue:
them in groups by its value; or an index: them by the text that it is. Then build it. If
that is interrupted, build goes on. Expressions are CEL: see docs/expressions.md.`,
		Example: `  greenroom docs create data category /active User "status == 'active'"
  greenroom docs create data catalogue /by-role User role
  greenroom docs create data index /by-name User name`,
		Args: cobra.ExactArgs(5),
	}, writes, func(ctx context.Context, s *docstore.Store, args []string) error {
		path, label, expression := docstore.Path(args[1]), args[2], args[3]
		err := s.Update(ctx, func(tx *docstore.Tx) error {
			switch args[0] {
			case "category":
				return tx.CreateCategory(ctx, path, label, expression)
			case "catalogue":
				return tx.CreateCatalogue(ctx, path, label, expression)
			case "index":
				return tx.CreateIndex(ctx, path, label, expression)
			}
			return serving.Usage(fmt.Sprintf("%q can't be created: a category, a catalogue or an index can", args[0]))
		})
		if err != nil {
			return err
		}
		return showBuild(c.env.progress, func(o *docstore.BuildOptions) error { return s.Build(ctx, path, o) })
	})
}

// showBuild runs a build, and shows on a terminal how far it is; w may be nil.
func showBuild(w io.Writer, build func(o *docstore.BuildOptions) error) error {
	hide := func() {}
	err := build(&docstore.BuildOptions{Progress: func(p docstore.Progress) {
		hide()
		hide = showHint(w, "building, "+count(p.Docs, "document")+" …")
	}})
	hide()
	return err
}

func newDocsBuild(c docsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:     "build STORE PATH",
		Short:   "Go on with building a category, a catalogue or an index",
		Long:    "Go on with building the category, catalogue or index PATH, beside writers. If it is built, nothing is done.",
		Example: "  greenroom docs build data /by-name",
		Args:    cobra.ExactArgs(2),
	}, writes, func(ctx context.Context, s *docstore.Store, args []string) error {
		return showBuild(c.env.progress, func(o *docstore.BuildOptions) error { return s.Build(ctx, docstore.Path(args[0]), o) })
	})
}

func newDocsRebuild(c docsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "rebuild STORE PATH",
		Short: "Build a category, a catalogue or an index anew",
		Long: `Build the category, catalogue or index PATH anew from the documents. Until that is done it is
read as it is. If it is interrupted, build goes on.`,
		Example: "  greenroom docs rebuild data /by-name",
		Args:    cobra.ExactArgs(2),
	}, writes, func(ctx context.Context, s *docstore.Store, args []string) error {
		return showBuild(c.env.progress, func(o *docstore.BuildOptions) error { return s.Rebuild(ctx, docstore.Path(args[0]), o) })
	})
}

func newDocsMove(c docsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "mv STORE FROM TO",
		Short: "Move what lies at a path, with all that lies in it",
		Long: `Move what is stored at FROM, with all that lies in it, to TO, where nothing may lie. Categories,
catalogues and indexes among it are built again.`,
		Example: "  greenroom docs mv data /users/john /people/john",
		Args:    cobra.ExactArgs(3),
	}, writes, func(ctx context.Context, s *docstore.Store, args []string) error {
		var unbuilt []docstore.Path
		from, to := docstore.Path(args[0]), docstore.Path(args[1])
		err := s.Update(ctx, func(tx *docstore.Tx) (err error) {
			if err = tx.Move(ctx, from, to); err == nil {
				unbuilt, err = building(ctx, tx, to)
			}
			return err
		})
		for _, path := range unbuilt {
			if err == nil {
				err = showBuild(c.env.progress, func(o *docstore.BuildOptions) error { return s.Build(ctx, path, o) })
			}
		}
		return err
	})
}

// building returns what is being built at and below a path.
func building(ctx context.Context, tx *docstore.Tx, path docstore.Path) (paths []docstore.Path, err error) {
	e, err := tx.Entity(ctx, path)
	if err != nil {
		return nil, err
	}
	if e.State == docstore.StateBuilding {
		return []docstore.Path{path}, nil
	}
	if e.Kind != docstore.KindContainer {
		return nil, nil
	}
	for child, err := range tx.Children(ctx, path, "") {
		if err != nil {
			return nil, err
		}
		below, err := building(ctx, tx, child.Path)
		if err != nil {
			return nil, err
		}
		paths = append(paths, below...)
	}
	return paths, nil
}
