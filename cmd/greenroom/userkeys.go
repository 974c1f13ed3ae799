package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// keyHelp is what the commands on user keys say about KEY.
const keyHelp = "KEY is text, or hex: and bytes in hexadecimal."

// shownHelp is what those on keys that are there say besides.
const shownHelp = " A key may also be\nwritten as ls shows it: user/greeting, if there is none of that text."

func newGet(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get STORE ACTOR KEY",
		Short:   "Write the value of a user key",
		Long:    "Write the value of a user key to standard output, as it is.\n\n" + keyHelp + shownHelp,
		Example: `  greenroom get data lobby greeting`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return get(cmd.Context(), e, args[0], args[1], args[2])
		},
	}
	logRestFlag(cmd, e)
	return cmd
}

func get(ctx context.Context, e *env, url, actor, text string) error {
	key, err := parseKey(text)
	if err != nil {
		return err
	}
	return view(ctx, target{url: url, actor: actor, env: e}, func(v *greenroom.View) error {
		_, value, err := admin.Lookup(key, text, v.Get)
		if err != nil {
			return admin.KeyError(actor, text, err)
		}
		if terminal(e.stdout) != nil {
			value = []byte(visibleText(string(value)))
		}
		_, err = e.stdout.Write(value)
		return err
	})
}

func newPut(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "put STORE ACTOR KEY [VALUE|-]",
		Short: "Store a value under a user key",
		Long: "Store VALUE under a user key, or what standard input has to its end.\n\n" +
			keyHelp,
		Example: `  greenroom put data lobby greeting "good evening"`,
		Args:    cobra.RangeArgs(3, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := e.value(cmd.Context(), args)
			if err != nil {
				return err
			}
			return put(cmd.Context(), target{url: args[0], actor: args[1], create: true, env: e}, args[2], value)
		},
	}
}

// maxValue bounds what is read from standard input: far more than any limit on
// values, and far less than memory.
const maxValue = 64 << 20

// value returns the value that is args[3], or on standard input. It is read before the
// store is opened, because standard input may be slow.
func (e *env) value(ctx context.Context, args []string) ([]byte, error) {
	if len(args) == 4 && args[3] != "-" {
		return []byte(args[3]), nil
	}
	value, err := await(ctx, func() (string, error) {
		b, err := io.ReadAll(io.LimitReader(e.stdin, maxValue+1))
		return string(b), err
	})
	if err == nil && len(value) > maxValue {
		err = fmt.Errorf("the value on standard input is larger than %d bytes", maxValue)
	}
	return []byte(value), err
}

func put(ctx context.Context, t target, text string, value []byte) error {
	if _, err := parseKey(text); err != nil {
		return err
	}
	_, err := do(ctx, t, admin.PutKey, &admin.PutKeyIn{Key: text, Value: value})
	return err
}

// A removeCommand is the call of greenroom rm.
type removeCommand struct {
	env    *env
	prefix string
	all    bool
}

func newRemove(c removeCommand) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm STORE ACTOR {KEY… | --prefix P | --all}",
		Short: "Remove user keys",
		Long: "Remove user keys: all of those named, or none if one of them is not there; those\n" +
			"that begin with a prefix; or all. Nothing else of the actor is touched.\n\n" +
			keyHelp + " So is the prefix." + shownHelp,
		Example: `  greenroom rm data lobby greeting
  greenroom rm data lobby --prefix room:`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ways := []bool{len(args) > 2, cmd.Flags().Changed("prefix"), c.all}
			if len(slices.DeleteFunc(ways, func(asked bool) bool { return !asked })) != 1 {
				return serving.Usage("name the keys, or --prefix, or --all: one of the three")
			}
			return c.run(cmd.Context(), args[0], args[1], args[2:])
		},
	}
	cmd.Flags().StringVar(&c.prefix, "prefix", "", "remove the keys that begin with this")
	cmd.Flags().BoolVar(&c.all, "all", false, "remove all user keys")
	return cmd
}

func (c *removeCommand) run(ctx context.Context, url, actor string, texts []string) error {
	prefix, err := parseKey(c.prefix)
	if err == nil && len(texts) == 0 && len(prefix) == 0 && !c.all { // "hex:" is empty too
		err = serving.Usage("an empty prefix: --all removes all keys")
	}
	for i := 0; i < len(texts) && err == nil; i++ {
		_, err = parseKey(texts[i])
	}
	if err != nil {
		return err
	}
	in := &admin.DeleteKeysIn{Keys: texts, All: c.all}
	if len(texts) == 0 {
		in.Prefix = c.prefix
	}
	_, err = do(ctx, target{url: url, actor: actor, env: c.env}, admin.DeleteKeys, in)
	return err
}

// parseKey reads a key as the command line has it.
func parseKey(text string) ([]byte, error) { return parseBytes(text, "key") }

// parseBytes is admin.ParseBytes of an argument.
func parseBytes(text, what string) ([]byte, error) {
	b, err := admin.ParseBytes(text, what)
	if err != nil {
		return nil, serving.Usage(err.Error())
	}
	return b, nil
}
