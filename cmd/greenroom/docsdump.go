package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// A pairLine is a documented key with its value, which is in base64, as a line of a dump.
type pairLine struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

func newDocsImport(c docsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "import STORE {FILE|DIR|-}",
		Short: "Store a dump of an Implexus store",
		Long: `Store a dump of the keys that Implexus documents, in documents of which there are none yet: a
file of lines {"key":"entity:/a","value":"base64"}, as export writes them, or standard
input; or a directory with a file for each key, whose name is the key in hexadecimal, with or
without an extension. Indexes are built. If it is interrupted or finds damage, import the dump again.`,
		Example: `  greenroom docs import data implexus.ndjson
  greenroom docs import data implexus-data/`,
		Args: cobra.ExactArgs(2),
	}, makes, func(ctx context.Context, s *docstore.Store, args []string) error {
		file, bad := args[0], (*errkind.Sentence)(nil)
		if file == "-" {
			tmp, err := spool(ctx, c.env.stdin)
			if err != nil {
				return err
			}
			defer os.Remove(tmp) // which only this program knows
			file = tmp
		}
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			return say(err, "there is no file %s", file)
		}
		if err != nil {
			return err
		}
		dump := linesOf(file)
		if info.IsDir() {
			dump = filesOf(file)
		}
		defer showHint(c.env.progress, "importing …")()
		if err := s.Import(ctx, dump); !errors.As(err, &bad) {
			return err
		}
		return bad
	})
}

// spool copies standard input to a file, as a dump is read twice.
func spool(ctx context.Context, stdin io.Reader) (string, error) {
	tmp, err := os.CreateTemp("", "greenroom-import-")
	if err != nil {
		return "", err
	}
	_, err = await(ctx, func() (string, error) {
		_, err := io.Copy(tmp, stdin)
		return "", err
	})
	if err = errors.Join(err, tmp.Close()); err != nil {
		err = errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), err
}

// linesOf yields the pairs of a file of lines.
func linesOf(file string) iter.Seq2[docstore.Pair, error] {
	return func(yield func(docstore.Pair, error) bool) {
		f, err := os.Open(file)
		if err != nil {
			yield(docstore.Pair{}, err)
			return
		}
		defer f.Close() // it was only read
		in := newReaderSource(f)
		for n := 1; ; n++ {
			line, err := in.read()
			if err == io.EOF {
				return
			}
			var p pairLine
			if err == nil && strings.TrimSpace(line) != "" {
				err = decodeItem([]byte(line), &p)
			}
			if err != nil {
				yield(docstore.Pair{}, say(err, "line %d of the dump: %s", n, strings.TrimPrefix(err.Error(), "json: ")))
				return
			}
			if p.Key != "" && !yield(docstore.Pair(p), nil) {
				return
			}
		}
	}
}

// filesOf yields the pairs of a directory with a file for each key.
func filesOf(dir string) iter.Seq2[docstore.Pair, error] {
	return func(yield func(docstore.Pair, error) bool) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, _, _ := strings.Cut(d.Name(), ".")
			key, err := hex.DecodeString(name)
			if err != nil || name == "" {
				return say(err, "the name of the file %s is not a key in hexadecimal", path)
			}
			value, err := os.ReadFile(path)
			if err == nil && !yield(docstore.Pair{Key: string(key), Value: value}, nil) {
				err = fs.SkipAll
			}
			return err
		})
		if err != nil {
			yield(docstore.Pair{}, err)
		}
	}
}

func newDocsExport(c docsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "export STORE [KEY]",
		Short: "Write the documents as Implexus documents its keys",
		Long: `Write all documents, of one state, as lines {"key":"entity:/a","value":"base64"} with the keys that
Implexus documents, in no order; or the bytes of the value of one KEY, and nothing else.`,
		Example: `  greenroom docs export data >documents.ndjson
  greenroom docs export data props:/users/john >john.bin`,
		Args: cobra.RangeArgs(1, 2),
	}, reads, func(ctx context.Context, s *docstore.Store, args []string) error {
		out := bufio.NewWriter(c.env.stdout)
		if len(args) > 0 {
			err := s.Export(ctx, args[0], out)
			if errors.Is(err, docstore.ErrNotFound) {
				err = say(err, "nothing is stored under the key %s", args[0])
			}
			return errors.Join(err, out.Flush())
		}
		enc := newJSON(out)
		var b bytes.Buffer
		err := s.Dump(ctx, func(key string, value func(w io.Writer) error) error {
			b.Reset()
			if err := value(&b); err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
			return enc.Encode(pairLine{key, b.Bytes()})
		})
		return errors.Join(err, out.Flush())
	})
}

func newDocsCheck(c docsCommand) *cobra.Command {
	return c.check(&cobra.Command{
		Short: "Read all documents, and report what doesn't fit together",
		Long: `Read all rows of the documents, and write a line about each thing that is wrong: rows that
belong to nothing, what is missing, and what doesn't follow from the documents. A last line
counts. The status is 1 if there are problems. Nothing is changed.`,
		Example: "  greenroom docs check data",
	}, func(ctx context.Context, s *docstore.Store) (list []complaint, err error) {
		problems, err := s.Check(ctx)
		for _, what := range problems {
			list = append(list, complaint{What: strings.ReplaceAll(what, "docstore: ", "")})
		}
		return list, err
	})
}
