package main

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
	"github.com/spf13/cobra"
)

// A docsCommand is the call of one of the commands on documents.
type docsCommand struct {
	modelCommand[docstore.Store]
}

var docsModel = &model[docstore.Store]{
	what: "documents", names: docNames, explain: docsError,
	open: func(ctx context.Context, e kv.Engine, name string) (*docstore.Store, error) {
		// A list may take a while.
		return docstore.Open(ctx, e, name, &docstore.Options{Transactions: txn.Options{MaxAge: -1}, Logger: slog.New(slog.DiscardHandler)})
	},
}

// docNames returns the names of the stores of documents on an engine, in their order.
func docNames(ctx context.Context, e kv.Engine) (names []string, err error) {
	for name, err := range keys.Texts(ctx, e, tuple.NewSubspace(tuple.Tuple{"docs", 1})) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// docsError says what is wrong with what was asked for.
func docsError(err error) error {
	var at *docstore.Error
	text := strings.ReplaceAll(err.Error(), "docstore: ", "")
	switch {
	case errors.Is(err, docstore.ErrPath):
		return serving.Usage(text)
	case errors.Is(err, docstore.ErrImporting):
		return say(err, "an import of these documents is not complete: import the dump again")
	case errors.Is(err, docstore.ErrBuilding):
		return say(err, "%s: greenroom docs build goes on", text)
	case errors.As(err, &at) && at.Err == docstore.ErrNotFound:
		return say(err, "there is nothing at %s", at.Path)
	case errors.As(err, &at) && at.Err == docstore.ErrExists && at.Op == "create":
		return say(err, "there is something at %s already", at.Path)
	case errors.As(err, &at) && at.Err == docstore.ErrNotEmpty:
		return say(err, "the container %s is not empty: -r removes all that lies in it", at.Path)
	}
	return say(err, "%s", text)
}

// An entityLine is an entity as an object.
type entityLine struct {
	Path       docstore.Path   `json:"path"`
	Kind       string          `json:"kind"`
	Type       string          `json:"type,omitempty"`
	Expression string          `json:"expression,omitempty"`
	State      string          `json:"state,omitempty"`
	Problem    string          `json:"problem,omitempty"`
	Group      any             `json:"group,omitempty"`
	Properties *propertiesJSON `json:"properties,omitempty"`
}

func lineOfEntity(e *docstore.Entity) *entityLine {
	l := &entityLine{Path: e.Path, Kind: e.Kind.String(), Type: e.Label, Expression: e.Expression, State: e.State.String(), Group: forJSON(e.Group)}
	if e.Problem != nil {
		l.Problem = strings.ReplaceAll(e.Problem.Error(), "docstore: ", "")
	}
	return l
}

// A page bounds what a command lists.
type page struct {
	after string
	limit int
}

// flags adds the flags of the page to a command.
func (p *page) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&p.after, "after", "", "behind this `PATH`")
	cmd.Flags().IntVar(&p.limit, "limit", 0, "at most `N`; 0 means all")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if p.limit < 0 {
			return serving.Usage("a negative --limit")
		}
		return nil
	}
	return cmd
}

// viewList calls write with what list yields, all of one state of the store.
func viewList[T any](ctx context.Context, s *docstore.Store, list func(tx *docstore.Tx) iter.Seq2[T, error], write func(iter.Seq2[T, error]) error) error {
	return s.View(ctx, func(tx *docstore.Tx) error { return write(list(tx)) })
}

// first yields the first n items of a list, all if n is 0.
func first[T any](list iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		i := 0
		for item, err := range list {
			if i++; !yield(item, err) || i == n {
				return
			}
		}
	}
}
