package serving

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plainArgs makes the errors about cmd's arguments say what is missing, by the names that its
// Usage has.
func plainArgs(cmd *cobra.Command) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		return argsError(cmd, args)
	}
}

// argument matches one argument of a usage: NAME, {ONE | THE OTHER}, or what may be left out.
var argument = regexp.MustCompile(`\{[^}]*\}|\[.*|\S+`)

// argsError says what is wrong with args, which cmd refuses.
func argsError(cmd *cobra.Command, args []string) error {
	if cmd.HasSubCommands() {
		return errors.New(noCommand(cmd, args[0]))
	}
	_, usage, _ := strings.Cut(cmd.Use, " ")
	var missing []string
	n := 0 // of arguments that must be there
	for _, name := range argument.FindAllString(usage, -1) {
		if name[0] == '[' {
			break
		}
		if n++; n > len(args) {
			name = strings.Trim(name, "{}…")
			missing = append(missing, strings.NewReplacer(" | ", " or ", "|", " or ").Replace(name))
		}
	}
	switch last := len(missing) - 1; {
	case last > 0:
		return fmt.Errorf("%s and %s are missing", strings.Join(missing[:last], ", "), missing[last])
	case last == 0:
		return fmt.Errorf("%s is missing", missing[0])
	}
	return fmt.Errorf("the argument %q is one too many", args[len(args)-1])
}

// noCommand says that cmd has no command of a name, and which is near.
func noCommand(cmd *cobra.Command, name string) string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if cmd == cmd.Root() {
		return fmt.Sprintf("there is no command %q%s", name, DidYouMean(name, names))
	}
	return fmt.Sprintf("%s has no command %q%s", called(cmd), name, DidYouMean(name, names))
}

// called is what cmd is called with, the program's name left out.
func called(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// flagError is err, with which pflag refuses a flag of cmd, in words.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var lacks *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("%s has no flag -%s", called(cmd), unknown.GetSpecifiedShortnames())
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		return fmt.Errorf("%s has no flag %s%s", called(cmd), name, DidYouMean(name, names))
	case errors.As(err, &lacks):
		return fmt.Errorf("--%s needs a value", lacks.GetFlag().Name)
	case errors.As(err, &bad):
		f := bad.GetFlag()
		what, ok := kinds[f.Value.Type()]
		if !ok {
			return fmt.Errorf("--%s: %w", f.Name, bad.Unwrap())
		}
		return fmt.Errorf("--%s takes %s, not %q", f.Name, what, bad.GetValue())
	}
	return err
}

// kinds are the values that flags of pflag's own types take.
var kinds = map[string]string{
	"bool": "true or false", "int": "a whole number", "int64": "a whole number", "duration": "a time, such as 90s or 1h30m",
}
